#!/usr/bin/env bash
# wisp challenge: the three modes on official and generated networks, its JSON, and what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

refuse "no folder" 2 "^wisp: --data: missing: the folder of the official files" challenge
refuse "an empty folder" 5 "n64-l1.tsv|sparse-images-64.tsv" challenge --data "$work" --neurons 64 --layers 2
refuse "an unknown mode" 2 "mode" challenge --data "$work" --mode fast
refuse "random without --generate" 2 "add --generate" challenge --data "$work" --topology random
refuse "--memory without a card" 2 "add --device cuda" challenge --data "$work" --memory 1G

# A network in the official format, small enough to check by hand: 64 neurons, i feeds i and i + 1, weight 0.75.
/usr/bin/python3 - <<'END'
import os, random
random.seed(5)
n, layers, inputs = 64, 7, 500
os.makedirs("net/neuron64")
for k in range(1, layers + 1):
    with open(f"net/neuron64/n64-l{k}.tsv", "w") as f:
        for i in range(n):
            for o in sorted({i, (i + k) % n}):
                print(i + 1, o + 1, 0.75, sep="\t", file=f)
images = [sorted(random.sample(range(n), random.choice([0, 3, 20, 64]))) for _ in range(inputs - 1)] + [[0]]
with open("net/sparse-images-64.tsv", "w") as f:
    for i, image in enumerate(images):
        for j in image:
            print(i + 1, j + 1, 1, sep="\t", file=f)
ends = []
for i, image in enumerate(images):
    y = [1.0 if j in image else 0.0 for j in range(n)]
    for k in range(1, layers + 1):
        z = [0.0] * n
        for j in range(n):
            for o in {j, (j + k) % n}: z[o] += 0.75 * y[j]
        y = [min(32, max(0, v - 0.3)) for v in z]
    if any(y): ends.append(i + 1)
assert 10 < len(ends) < inputs - 10
open("ends.txt", "w").write("".join(f"{i}\n" for i in ends))
END
for mode in raw exact merged; do
    for isa in scalar avx2 avx512; do
        WISP_ISA=$isa "$wisp" synth isa --rows 9 --features 9 --labels 3 2>/dev/null || continue # this machine has none
        WISP_ISA=$isa ok "$mode, $isa" challenge --data net --neurons 64 --layers 7 --mode $mode -o categories --json
        same "$mode, $isa: the rows that end non-zero" categories ends.txt
    done
done
judge "no truth is known" "d['truth'] == 'unknown' and d['neurons'] == 64 and d['layers'] == 7 and d['mode'] == 'merged' and d['device'] == 'cpu'"
cp ends.txt net/neuron64-l7-categories.tsv
ok "against a list" challenge --data net --neurons 64 --layers 7 --json
judge "it matches" "d['truth'] == 'match' and d['categories'] == $(wc -l <ends.txt) and d['seconds'] > 0 and d['analysis_seconds'] >= 0"
sed -i '$d' net/neuron64-l7-categories.tsv
run challenge --data net --neurons 64 --layers 7 --json
check "against another list: exit code 1" [ $rc = 1 ]
judge "it does not match" "d['truth'] == 'mismatch'"
run challenge --data net --neurons 64 --layers 7
check "in words: exit code 1" [ $rc = 1 ]
check "they say so" grep -q 'truth: mismatch' out
check "and stderr, too" grep -q 'wisp: the categories are not the official ones' err

real "official networks" graphchallenge mnist
for mode in raw exact merged; do
    ok "official, $mode" challenge --data "$data/graphchallenge" --mode $mode --json
    judge "official, $mode: truth" "d['truth'] == 'match' and d['categories'] == 1812"
done
judge "merged: 64 classes" "d['merged_width'] == 64 and 4.6 < d['live_layers'] < 4.9"
for net in "1024 480 1812" "4096 120 1801"; do
    read -r neurons layers count <<<"$net"
    for mode in exact merged; do
        ok "generated $neurons x $layers, $mode" challenge --data "$data/mnist" --generate --neurons "$neurons" --layers "$layers" --mode $mode --json
        judge "generated $neurons x $layers, $mode: $count" "d['truth'] == 'match' and d['categories'] == $count"
    done
done
ok "a depth that no official network has" challenge --data "$data/mnist" --generate --layers 20 --mode merged --json
judge "its truth is unknown" "d['truth'] == 'unknown'"
ok "a random topology" challenge --data "$data/mnist" --generate --topology random --layers 5 --mode merged --json
judge "nothing is equal in it" "d['truth'] == 'unknown' and d['merged_edges'] == d['edges']"
check "and it says so" grep -q 'nothing was merged' err
end
