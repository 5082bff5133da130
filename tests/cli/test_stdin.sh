#!/usr/bin/env bash
# Rows from stdin and through pipes: packed, with a header, line by line, spooled.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 2000 --features 400 --labels 30 --row-features 15
quick=(--hidden 32 --epochs 3 --lr 0.02 --dropout 0)
ok "train" train P_train.txt -o m "${quick[@]}"
ok "predict" predict m P_test.txt
cp out want
rows=$(wc -l <want)
sed 1d P_test.txt >bare
pack() { # KIND: stdin to stdout
    case $1 in
    plain) cat ;;
    gzip) gzip -c ;;
    zstd) /usr/bin/python3 -c '
import ctypes, sys
z = ctypes.CDLL("libzstd.so.1")
z.ZSTD_compressBound.restype = z.ZSTD_compress.restype = ctypes.c_size_t
z.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
z.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
d = sys.stdin.buffer.read()
out = ctypes.create_string_buffer(z.ZSTD_compressBound(len(d)))
n = z.ZSTD_compress(out, len(out), d, len(d), 3)
sys.stdout.buffer.write(out.raw[:n])' ;;
    esac
}

# predict -: packed (U8), with its header (U20), cut anywhere
for kind in plain gzip zstd; do
    for what in bare P_test.txt; do
        pack $kind <$what >packed
        "$wisp" predict m - <packed >out 2>err
        rc=$?
        check "$kind, $what: success" [ $rc = 0 ]
        same "$kind, $what: as from a file" out want
        /usr/bin/python3 -c '
import sys
d = open("packed", "rb").read()
for i in range(0, len(d), 997):
    sys.stdout.buffer.write(d[i:i + 997])
    sys.stdout.flush()' | "$wisp" predict m - >out 2>err
        rc=$?
        same "$kind, $what: in pieces" out want
    done
    { pack $kind <bare; pack $kind <bare; } | "$wisp" predict m - >out 2>err
    rc=$?
    check "$kind: two after each other" [ $rc = 0 -a "$(wc -l <out)" = $((2 * rows)) ]
done
pack gzip <bare | head -c -100 | "$wisp" predict m - >out 2>err
rc=$?
check "gzip, cut: exit code 3" [ $rc = 3 ]
check "gzip, cut: said" grep -q 'stdin: the gzip data ends too early' err
check "gzip, cut: the whole lines before are answered" cmp <(head -n "$(wc -l <out)" want) out
{ pack gzip <bare; echo nonsense; } | "$wisp" predict m - >out 2>err
rc=$?
check "gzip, and other bytes: exit code 3" [ $rc = 3 ]
same "gzip, and other bytes: answered up to there" out want
printf '\n1 2 3\n' | "$wisp" predict m - >out 2>err
rc=$?
check "a header that is not first is a bad line" [ $rc = 3 ]
check "its number" grep -q '^wisp: stdin:2: ' err
printf '3 400 30\n1 5:1\nx\n' | "$wisp" predict m - >out 2>err
rc=$?
check "lines are counted with the header" grep -q '^wisp: stdin:3: ' err

# a line in, a line out; '(' and 'P' could begin packed text, but do not
check "one line at a time" timeout 60 /usr/bin/python3 -c '
import subprocess, sys
p = subprocess.Popen([sys.argv[1], "predict", "m", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
want = open("want", "rb").read().splitlines()
for line, answer in list(zip(open("bare", "rb"), want))[:40]:
    p.stdin.write(line)
    p.stdin.flush()
    assert p.stdout.readline().rstrip() == answer, line
p.stdin.close()
assert p.wait() == 0' "$wisp"
for i in $(seq 40); do printf '__label__a (one two\n__label__b Three four\n'; done >words
ok "train on words" train words -o mw "${quick[@]}"
check "words that begin like packed text" timeout 60 /usr/bin/python3 -c '
import subprocess, sys
p = subprocess.Popen([sys.argv[1], "predict", "mw", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in (b"(\n", b"P\n", b"P*\n", b"(one two\n", b"3 4 5\n"):
    p.stdin.write(line)
    p.stdin.flush()
    assert p.stdout.readline().count(b":") == 2, line
p.stdin.close()
assert p.wait() == 0' "$wisp"

# spooled (U21)
before=$(ls /tmp /var/tmp | grep -c wisp-)
ok "train, as a file" train P_train.txt -o f "${quick[@]}" --valid P_test.txt --json
cat P_train.txt | "$wisp" train - -o s "${quick[@]}" --valid P_test.txt >out 2>err
rc=$?
check "train -: success" [ $rc = 0 ]
tensors() { /usr/bin/python3 -c '
import json, struct, sys
d = open(sys.argv[1], "rb").read()
n = 8 + struct.unpack("<Q", d[:8])[0]
end = json.loads(d[8:n])["__integrity__"]["data_offsets"][0]
sys.stdout.buffer.write(d[n:n + end])' "$1"; }
check "train -: the same weights" cmp <(tensors f) <(tensors s)
"$wisp" train - -o s2 "${quick[@]}" --valid P_test.txt <P_train.txt >out 2>err
check "train - of a plain file: the same weights" cmp <(tensors f) <(tensors s2)
"$wisp" train <(gzip -c P_train.txt) -o s3 "${quick[@]}" --valid <(cat P_test.txt) >out 2>err
rc=$?
check "train <(...) --valid <(...): success" [ $rc = 0 ]
check "train <(...): the same weights" cmp <(tensors f) <(tensors s3)
ok "eval" eval m P_test.txt --json
cp out json
gzip -c P_test.txt | "$wisp" eval m - --json >out 2>err
rc=$?
judge "eval M -" "d['p@1'] == json.load(open('json'))['p@1'] and d['rows'] == $rows"
cat bare | "$wisp" eval m - --json >out 2>err
judge "eval M - without header" "d['p@1'] == json.load(open('json'))['p@1'] and d['rows'] == $rows"
"$wisp" predict m <(gzip -c bare) >out 2>err
rc=$?
same "predict M <(...)" out want
cat P_test.txt | "$wisp" convert - c.svm >out 2>err
rc=$?
ok "convert" convert P_test.txt d.svm
same "convert - OUT" c.svm d.svm
printf '' | "$wisp" train - -o e >out 2>err
rc=$?
check "an empty stdin" [ $rc = 3 ]
check "is said" grep -q 'stdin:1: empty, expected rows' err
printf '1 1:x\n' | "$wisp" eval m - >out 2>err
rc=$?
check "a bad line" grep -q "stdin:1: '1:x': expected" err
refuse "stdin twice" 2 "'-' is given 2 times" train - -o e --valid -
mkfifo pipe
refuse "a pipe that nobody writes to" 5 'pipe: a pipe that nobody writes to' eval m pipe
{ sleep 0.3; cat P_test.txt >pipe; } &
ok "a writer that comes a little later" eval m pipe --json
judge "is heard" "d['rows'] == $rows"
check "no cache, no temporary is left" [ -z "$(find . -name '*stdin*' -o -name '-*')" -a "$(ls /tmp /var/tmp | grep -c wisp-)" -le "$((before + 8))" ]
head -c 300000 P_train.txt | sed '$d' | sed 1d | "$wisp" train - --no-header -o e --memory 100k >out 2>err
rc=$?
check "--memory holds for streams" [ $rc = 6 ]
# A spool has a number and no name: it is opened by /proc.
if nm "$wisp" 2>/dev/null | grep -q __asan_init; then
    skip "without /proc" "a sanitizer needs it"
elif unshare -m umount -l /proc 2>/dev/null; then
    unshare -m sh -c 'umount -l /proc; exec "$@"' - "$wisp" train - -o e <P_train.txt >out 2>err
    rc=$?
    check "without /proc" [ $rc = 5 ]
    check "is said" grep -q 'cannot be opened, as /proc is not there; expected it mounted' err
else
    skip "without /proc" "no namespace of its own may be made here"
fi
end
