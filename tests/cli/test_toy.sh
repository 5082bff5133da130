#!/usr/bin/env bash
# A first try: some lines of text, a table, no options.  The answers are right, and sure.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

for i in $(seq 40); do
    echo "__label__fruit apple w$((i % 7)) pear x$((i % 5))"
    echo "__label__tool hammer w$((i % 6)) saw x$((i % 4))"
    echo "__label__animal dog w$((i % 5)) cat x$((i % 3))"
done >lines.txt
for seed in 1 2 3; do
    ok "120 lines, seed $seed" train lines.txt -o m --seed $seed --log log
    ok "predicted" predict m lines.txt -k 1
    check "each gets its label, by 0.9 or more" /usr/bin/python3 -c '
truth = [line.split()[0][len("__label__"):] for line in open("lines.txt")]
found = [line.split()[0].rsplit(":", 1) for line in open("out")]
assert len(found) == 120 and all(t == name and float(score) >= 0.9 for t, (name, score) in zip(truth, found)), found'
done
check "the log has the loss that chooses the epoch" grep -q '"valid_loss":' log

# a table: whole numbers in every column are no counts of words
/usr/bin/python3 -c '
import random
random.seed(3)
for name, rows in ("table", 1200), ("more", 400):
    with open(name + ".svm", "w") as f:
        for _ in range(rows):
            x = [random.randint(1, 49) for _ in range(4)]
            f.write("%d %s\n" % (x.index(max(x)), " ".join("%d:%d" % (i + 1, v) for i, v in enumerate(x))))'
ok "a table" train table.svm -o m --format libsvm
check "the plan says what it is taken for" grep -qE '^data .*; values standard \(a table: its columns are filled in 100 % of the rows\)$' err
ok "a table: evaluated" eval m more.svm --json
judge "a table: it is learnt" 'd["p@1"] > 92'
ok "a table: one row at a time" predict m more.svm -k 1
cp out whole
head -n 1 more.svm >one.svm
ok "a table: a single row" predict m one.svm -k 1
check "a table: the same answer" cmp -s out <(head -n 1 whole)
ok "a table: narrow weights" convert m small --quantize int8
ok "a table: narrow weights, evaluated" eval small more.svm --json
judge "a table: as good" 'd["p@1"] > 92'
ok "values that are asked for" train table.svm -o m --format libsvm --values raw --epochs 1
check "no reason is given then" grep -qE '; values raw$' err
end
