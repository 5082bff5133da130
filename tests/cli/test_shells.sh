#!/usr/bin/env bash
# Manual pages, as man-db and mandoc read them, and completion, tried in the real shells.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
PATH=$build:$PATH
commands=$("$wisp" help man | sed -n 's/^\.BR wisp.-\([a-z]*\) (1)$/\1/p' | sort -u)
check "wisp(1) lists every command" diff <(echo "$commands") <("$wisp" help | sed -n 's/^  wisp \([a-z]*\)  .*/\1/p' | grep -vx version | sort)

# --- pages
for c in "" $commands; do
    # shellcheck disable=SC2086
    ok "help man $c" help man $c
    cp out "wisp${c:+-$c}.1"
    check "help man $c: the title" grep -q "^\.TH WISP${c:+.-${c^^}} 1" out
done
for c in $commands; do
    sed -n 's/^\\fB\\-.*\\fB\\-\\-\\fP\\fB\([a-z\\-]*\)\\fP.*/\1/p; s/^\\fB\\-\\-\\fP\\fB\([a-z\\-]*\)\\fP.*/\1/p' "wisp-$c.1" | tr -d '\\' | sort >listed
    "$wisp" help "$c" all | sed -n 's/^  \(-[a-z], \)\?--\([a-z-]*\).*/\2/p' | grep -vx help | sort >wanted
    check "wisp-$c(1) has its options, once each" diff wanted listed
done
refuse "the page of no command" 2 "no command 'trian'; did you mean 'train'\?" help man trian
if command -v man >/dev/null; then
    for page in wisp*.1; do
        check "man finds nothing to say about $page" test -z "$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)"
    done
    check "man shows an option" grep -q -- '--epochs N' <(MANWIDTH=80 man -l wisp-train.1 2>/dev/null | sed 's/.\x08//g')
else
    skip "man" "man-db is not installed"
fi
if command -v mandoc >/dev/null; then
    for page in wisp*.1; do # a date would be that of the build
        check "mandoc finds nothing to say about $page" test -z "$(mandoc -T lint -W warning "$page" | grep -v 'missing date')"
    done
else
    skip "mandoc" "mandoc is not installed"
fi

# --- completion: LINE : what it becomes, or offers
cat >wanted <<'T'
wisp tra:train
wisp train d --epo:--epochs
wisp train d --loss so:softmax
wisp train --dev:--device
wisp help eva:eval
wisp help fi:fish
wisp eval m d --js:--json
wisp predict m d --thresh:--threshold
wisp train ro:rows.csv
wisp train --valid ro:rows.csv
T
touch rows.csv
for shell in bash zsh fish; do ok "help $shell" help $shell && cp out "$shell.completion"; done

check "bash reads its completion" bash -n bash.completion
cat >try.bash <<'T'
. ./bash.completion
while IFS=: read -r line want; do
    read -ra COMP_WORDS <<<"$line"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _wisp
    [ ${#COMPREPLY[@]} != 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}") # -o default
    [ "${COMPREPLY[*]}" = "$want" ] || { echo "$line: '${COMPREPLY[*]}', expected '$want'"; exit 1; }
done <wanted
T
check "bash completes" bash try.bash

if command -v zsh >/dev/null; then
    mkdir functions
    cp zsh.completion functions/_wisp
    check "zsh reads its completion" zsh -n functions/_wisp
    # A terminal of its own, in which Tab completes and Ctrl-T prints the line and empties it.
    cat >try.zsh <<'T'
zmodload zsh/zpty
zpty shell zsh -f -i
ask() { zpty -w $1 shell "$2"; zpty -r shell said "*$3*" || { print "zsh has ended"; exit 1 }; }
ask '' 'PS1= TERM=dumb; unsetopt zle_bracketed_paste beep; fpath=($PWD/functions $fpath); autoload -U compinit; compinit -D -u; show() { print -r -- "<${BUFFER%% }>"; BUFFER= }; zle -N show; bindkey "^T" show; bindkey "^I" complete-word; print READ''Y' READY
while IFS=: read -r line want; do
    ask -n "$line"$'\t\x14' '>'
    said=${${said##*<}%%>*}
    [ "$said" = "${line% *} $want" ] || { print -r -- "$line: '$said', expected '${line% *} $want'"; exit 1 }
done <wanted
T
    check "zsh completes" timeout 60 zsh -f try.zsh
else
    skip "completion of zsh" "zsh is not installed"
fi

if command -v fish >/dev/null; then
    check "fish reads its completion" fish -n fish.completion
    cat >try.fish <<'T'
source fish.completion
while read -d : -l line want
    set -l said (complete -C $line | string split -f 1 \t)
    test "$said" = "$want"; or begin; echo "$line: '$said', expected '$want'"; exit 1; end
end <wanted
T
    check "fish completes" fish --no-config try.fish
else
    skip "completion of fish" "fish is not installed"
fi
end
