# What the scripts of tests/cli share.  A script says
#   . "$(dirname "$0")/lib.bash"
# and then stands in an empty folder, with the command as "$wisp"; it ends with the line 'end'.
# Every check has a name; a failed one shows what the last 'run' printed.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034
root=$(cd "$here/../.." && pwd)
wisp=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
# shellcheck disable=SC2034
build=$(dirname "$wisp")
work=$(mktemp -d)
# A child that is killed between its fork and its exec runs the trap as well: the folder is not its own.
trap '[ "$BASHPID" != $$ ] || { chmod -R u+w "$work"; rm -rf "$work"; }' EXIT
cd "$work" || exit 1
mkdir home
export HOME=$work/home LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset XDG_CACHE_HOME WISP_ISA

passed=0 failed=0 skipped=0
rc=0

pass() { passed=$((passed + 1)); }
bad() { # NAME WHY...
    failed=$((failed + 1))
    echo "FAIL $1: ${*:2}"
    echo "  exit code $rc"
    for f in out err; do [ -s $f ] && head -c 1500 $f | sed "s/^/  $f| /" | head -n 12; done
}
skip() { # NAME WHY...
    skipped=$((skipped + 1))
    echo "SKIP $1: ${*:2}"
}

# run ARGS...: the command, stdout to 'out', stderr to 'err', exit code to $rc
run() {
    "$wisp" "$@" >out 2>err </dev/null
    rc=$?
}

# ok NAME ARGS...: runs, must succeed
ok() {
    run "${@:2}"
    if [ $rc = 0 ]; then pass; else bad "$1" "expected success"; fi
}

# names TABLE: of its rows, as wisp info has them
names() { "$wisp" info --json | /usr/bin/python3 -c 'import json, sys; print(*json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# refuse NAME CODE WORDS ARGS...: runs, must exit with CODE, say WORDS on stderr (an extended pattern), nothing on stdout
refuse() {
    run "${@:4}"
    if [ $rc != "$2" ]; then bad "$1" "expected exit code $2"
    elif ! grep -qE -e "$3" err; then bad "$1" "expected '$3' on stderr"
    elif [ -s out ]; then bad "$1" "expected nothing on stdout"
    else pass; fi
}

# check NAME COMMAND...: the command must succeed
check() {
    if "${@:2}" >check.log 2>&1; then pass; else bad "$1" "not so: ${*:2} $(tail -n 3 check.log)"; fi
}

# not COMMAND...: for check
not() { ! "$@"; }

# same NAME FILE FILE
same() { check "$1" cmp "$2" "$3"; }

# kill_at PATTERN N ARGS...: runs the command and kills it once N lines of stderr match (an extended pattern), or it has ended
kill_at() {
    local i pid
    : >err # what the last command said is not counted
    "$wisp" "${@:3}" >out 2>err </dev/null &
    pid=$!
    for ((i = 0; i < 4000; i++)); do
        [ "$(grep -cE "$1" err)" -ge "$2" ] && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.003
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
}

# killed MODEL PATTERN N ARGS...: a run of ARGS to the model 'r' is killed there, and resumed: the bytes must be those of MODEL
killed() {
    rm -f r r.*
    kill_at "$2" "$3" "${@:4}" -o r
    ok "resumed after '$2' $3" "${@:4}" -o r --resume
    check "the bytes of a run that was left alone ('$2' $3)" cmp "$1" r
}

# numbers FILE: all that a model has but its head, which names the options; for models that should differ by these alone
numbers() {
    /usr/bin/python3 -c '
import json, struct, sys
b = open(sys.argv[1], "rb").read(); n = 8 + struct.unpack("<Q", b[:8])[0]
sys.stdout.buffer.write(b[n:n + json.loads(b[8:n])["__integrity__"]["data_offsets"][0]])' "$1" >"$1.numbers"
}

# judge NAME EXPRESSION [FILE]: a Python expression about d, the JSON object in FILE (its last line; 'out' unless told)
judge() {
    check "$1" /usr/bin/python3 -c '
import json, sys
d = json.loads(open(sys.argv[2]).read().splitlines()[-1])
sys.exit(0 if eval(sys.argv[1]) else "d = %s" % str(d)[:1000])' "$2" "${3:-out}"
}

# synth PREFIX ARGS...: synthetic rows, or the end of the script
synth() {
    "$wisp" synth "$@" 2>err || {
        cat err
        exit 1
    }
}

# real WHAT NAME...: unpacks data sets, their folder becomes $data; the script ends, with WHAT skipped, where there are none
real() {
    local unpack=$root/../shared/data/unpack
    if [ ! -x "$unpack" ]; then
        skip "$1" "there is no ../shared/data/unpack beside this checkout"
        end
    fi
    if ! data=$(WISP_DATA=$work/data "$unpack" "${@:2}"); then
        bad "$1" "the archives could not be unpacked (is xz installed?)"
        end
    fi
}

end() {
    echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
    [ $failed = 0 ]
    exit
}
