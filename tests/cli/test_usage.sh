#!/usr/bin/env bash
# Command lines: help, versions, and what is refused before any work is done.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

ok "help" help
for c in train eval predict threshold explain serve convert inject graph report synth bench challenge inspect info; do check "help names $c" [ "$(grep -cE "^  wisp $c  +[a-z]" out)" = 1 ]; done
check "help is on stdout only" [ ! -s err ]
cp out help.txt
ok "--help" --help
same "--help is help" out help.txt
run
check "no command: help, and exit code 2" [ $rc = 2 ]
ok "--version" --version
check "--version is the header's" [ "$(cat out)" = "wisp $(sed -n 's/^#define WISP_VERSION "\(.*\)"/\1/p' "$root/include/wisp/wisp.h")" ]

# Every row of the option table is in the help of the commands that it names, once, and in no other.
/usr/bin/python3 - "$root/src/config/options.c" >rows <<'P'
import re, sys
text = open(sys.argv[1]).read()
for name in ("READS", "WORKS"):  # the second is the first and more
    value = "".join(re.findall(r'"(.*?)"', re.search(f"#define {name}(.*)", text)[1]))
    text = text.replace(" " + name, ' "' + value + '"')
words = r'(?:(?:"[^"]*"|[A-Z_]+)\s*)+'  # pieces of text, and names of such
for m in re.finditer(r'\[OPT_\w+\] = \{ "([\w-]+)", "(\w+)",\s*' + words + r',\s*' + words + r',\s*((?:"[\w ]+"\s*)+),', text):
    print(m.group(1), m.group(2), m.group(3).replace('"', ""))
P
check "the option table was read" [ "$(wc -l <rows)" = "$(grep -c '^ *\[OPT_' "$root/src/config/options.c")" ]
for c in train eval predict threshold explain serve convert inject graph report synth bench challenge inspect info; do
    ok "$c --help all" $c --help all
    check "$c --help is on stdout only" [ ! -s err ]
    sed -n 's/^  \(-[a-z], \)\?--\([a-z-]*\).*/\2/p' out | grep -vx help | sort >listed
    while read -r key _ commands; do
        case " $commands " in *" $c "*) echo "$key" ;; esac
    done <rows | sort >wanted
    check "$c --help all lists its options, once each" diff wanted listed
    check "$c --help all is not wider than 80 columns" not grep -qE '.{80}' out
    cp out all
    ok "$c --help=all" $c --help=all
    same "$c --help=all is --help all" out all
    ok "wisp help $c all" help $c all
    same "wisp help $c all is $c --help all" out all
    ok "$c --help" $c --help
    cp out short
    check "$c --help is short" [ "$(grep -cE '^  (-., )?--' out)" -le 17 ]
    grep -oE -- '--[a-z][a-z-]*' out | sort -u >listed
    check "$c --help names every option" [ -z "$(sed 's/^/--/' wanted | sort -u | comm -23 - listed)" ]
    ok "wisp help $c" help $c
    same "wisp help $c is $c --help" out short
    check "$c --help begins with the usage" grep -qE "^usage: wisp $c" out
    run $c -h
    check "$c -h" [ $rc = 0 ]
done

# What help says, word for word, up to the names of the rest, but with @hashes for the names of a table; after a change that
# is meant: WISP_SNAPSHOT=1 tests/cli/test_usage.sh build/wisp
fold=(-e "s/^wisp [0-9.]*:/wisp VERSION:/")
for table in formats losses margins nets samplers shapes; do fold+=(-e "s/\\b$(names $table | tr ' ' '|')\\b/@$table/"); done
for c in "" train tune prune eval predict threshold explain serve convert inject graph report synth bench challenge inspect info; do
    run help $c
    sed -e '/^[0-9]* more (/,$d' "${fold[@]}" out >said
    kept=$here/help/${c:-wisp}.txt
    [ -z "${WISP_SNAPSHOT:-}" ] || cp said "$kept"
    check "help ${c:-wisp}: as it was" diff "$kept" said
done
for c in train eval predict threshold explain convert inject graph report synth challenge inspect info; do # each talks of itself only; bench has parts of these names
    others=$(printf '%s\n' train eval predict convert synth bench challenge | grep -vx "$c" | paste -sd'|')
    run $c --help all
    check "$c --help: no words for other commands" not grep -qE "(^|[ (])($others)( [^,|]*)?:" out
done

# Did you mean: options, commands, values; what other programs call it; nothing where nothing is near.
for line in "train --epoch:--epochs" "train --learning-rate:--lr" "train --learning_rate:--lr" "train --treads:--threads" \
    "train --n_jobs:--threads" "train --random-state:--seed" "predict --treshold:--threshold" "train --minCount:--min-count" \
    "eval --jsn:--json" "synth --feature:--features" "challenge --layrs:--layers"; do
    # shellcheck disable=SC2086
    refuse "${line%%:*}" 2 "did you mean ${line#*:}\?" ${line%%:*} 3
done
for line in trian:train tran:train evaluate:eval prdict:predict inspct:inspect; do
    refuse "${line%:*}" 2 "no command '${line%:*}'; did you mean '${line#*:}'\?" ${line%:*}
done
refuse "help of a misspelt command" 2 "no command 'trian'; did you mean 'train'\?" help trian
refuse "a misspelt part of bench" 2 "did you mean 'predict'\?" bench predct
refuse "--loss softmx" 2 "'softmx' is not one of auto\|softmax\|bce\|squared-hinge\|hinge\|logistic; did you mean softmax\?" train x -o y --loss softmx
refuse "--format fastext" 2 "did you mean fasttext\?" train x -o y --format fastext
refuse "nothing near" 2 "unknown option '--zzzzzz'$" train x -o y --zzzzzz
refuse "a value with nothing near" 2 "is not one of auto\|softmax\|bce\|squared-hinge\|hinge\|logistic$" train x -o y --loss what
refuse "an option of another command" 2 "'--epochs' is no option of eval, but of: train prune bench" eval m d --epochs 3
printf 'epoch = 3\n' >wrong.conf
refuse "a misspelt key in a file of options" 2 "wrong.conf:1: no option 'epoch'; did you mean 'epochs'\?" train x -o y --config wrong.conf

# The version in every form; help that does not reach its reader.  Manual pages and completion: test_shells.sh.
for form in version --version -V; do
    ok "$form" $form
    check "$form is the header's" [ "$(cat out)" = "wisp $(sed -n 's/^#define WISP_VERSION "\(.*\)"/\1/p' "$root/include/wisp/wisp.h")" ]
done
for line in help --help "train --help" "help man" version; do
    # shellcheck disable=SC2086
    "$wisp" $line >/dev/full 2>err
    rc=$?
    check "wisp $line to a full disk" [ $rc = 5 ]
done

printf '2 3 2\n0 0:1\n1 1:1 2:1\n' >d.txt
refuse "unknown command" 2 "'fly'" fly
for c in train eval predict threshold explain serve convert inject graph report synth bench challenge inspect info; do
    refuse "$c: unknown flag" 2 "'--fly'" $c --fly
    refuse "$c: unknown short flag" 2 "'-z'" $c -z
done
refuse "a flag of another command" 2 "'--epochs'" eval m d.txt --epochs 3
refuse "-o of a command without it" 2 "'-o'" eval m d.txt -o x
refuse "-k of a command without it" 2 "'-k'" train d.txt -o m -k 3
refuse "no data" 2 "file is missing" train -o m
refuse "no model and data" 2 "files are missing" eval
refuse "no second file" 2 "files are missing" predict m
refuse "one file too many" 2 "'three'" eval one two three
refuse "no -o" 2 "-o MODEL" train d.txt
refuse "-o without a value" 2 "'-o' needs a value" train d.txt -o
refuse "two -o" 2 "'-o' is given twice" train d.txt -o a -o b
refuse "-k without a value" 2 "'-k' needs a value" predict m d.txt -k
refuse "a value for a flag that is no yes or no" 2 "--resume: 'perhaps'" train d.txt -o m --resume=perhaps

while read -r key type commands; do # a value missing; a value of the wrong kind
    c=${commands%% *} file=d.txt
    [ "$c" != challenge ] || file=--json # it takes no file
    case $type in flag | port) ;; *) refuse "--$key without a value" 2 "--$key' needs a value" "$c" $file "--$key" ;; esac
    case $type in
    int) refuse "--$key 1.5" 2 "--$key: '1.5'" "$c" $file "--$key" 1.5 ;;&
    int | real)
        refuse "--$key x" 2 "--$key: 'x'" "$c" $file "--$key" x
        refuse "--$key 1e300" 2 "--$key: 1e300" "$c" $file "--$key=1e300"
        refuse "--$key -2" 2 "--$key: -2" "$c" $file "--$key" -2
        refuse "--$key nan" 2 "--$key: .?nan" "$c" $file "--$key" nan ;;
    choice | size) refuse "--$key what" 2 "--$key: 'what'" "$c" $file "--$key" what ;;
    esac
done <rows
refuse "--memory -1" 2 "--memory: '-1'" train d.txt -o m --memory -1
for v in 1e30 4611686018427387904 4194304T; do refuse "--memory $v" 2 "--memory: '$v'" train d.txt -o m --memory $v; done
refuse "--hidden 0,4" 2 "needs width: a whole number from 1 to" train d.txt -o m --hidden 0,4
refuse "--hidden words" 2 "hidden" train d.txt -o m --hidden wide
refuse "--net of no known layer" 2 "banana" train d.txt -o m --net "input 8, banana"
refuse "synth without a shape" 2 "--rows" synth P
refuse "synth of a wrong shape" 2 "--shape: '3x4'" synth P --shape 3x4
refuse "synth --labels words" 2 "--labels: 'many'" synth P --rows 9 --features 9 --labels many
check "no model was made" [ ! -e m ]
WISP_ISA=mmx refuse "an unknown ISA" 2 "'mmx'" train d.txt -o m
refuse "a net and --hidden" 2 "--hidden: --net says all layers" train d.txt -o m --net "input 8, relu" --hidden 16
refuse "a net and --dropout" 2 "--dropout: --net says all layers" train d.txt -o m --net mlp --dropout 0.5
WISP_CONV=direct,winogrod refuse "an unknown way of convolutions" 2 "'winogrod'" train d.txt -o m
end
