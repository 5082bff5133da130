#!/usr/bin/env bash
# A first try: some lines of text, no options.  The answers are right, and sure.
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
end
