#!/usr/bin/env bash
# Nets of 'sparse' layers that become smaller: units of them go (--group-penalty), or single weights of any layer (--magnitude,
# prune --unstructured), and what is left has its connections in the model.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 3000 --features 300 --labels 12 --row-features 12 --test-rows 300 --seed 4 >out 2>err || bad synth "the set was not made"
common=(S_train.txt --sampling full --epochs 6 --batch 64 --lr 0.05 --optimizer sgd --holdout 0.2 --seed 3)

for ((o = 1; o <= 60; o++)); do for ((i = 0; i < 10; i++)); do echo "$(((o * 7 + i * 29) % 300 + 1)) $o"; done; done >mask

# kill_at PATTERN COMMAND...: runs it in the background until a line of its messages matches, and kills it.
kill_at() {
    local pattern=$1 pid i
    shift
    "$wisp" "$@" >out 2>err &
    pid=$!
    for ((i = 0; i < 2000; i++)); do
        grep -q "$pattern" err && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.005
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
}

# ---- units of sparse layers ----
options=("${common[@]}" --net "sparse radix 128, relu, sparse random 128 8, bn, relu, sparse radix 64, relu" --group-penalty 0.08)
ok "units of 'sparse' go" train "${options[@]}" -o small
check "it says so" grep -q '^smaller   [0-9]* of [0-9]* parameters are left: sparse form=kept width=' err
run inspect small --json
check "all three are left, with connections of their own" /usr/bin/python3 -c '
import json
net = json.load(open("out"))["net"]
assert net.count("sparse form=kept width=") == 3 and "radix" not in net, net
widths = [int(x.split("width=")[1].split(",")[0]) for x in net.split("sparse ")[1:]]
assert sum(widths) < 300, net'
ok "it predicts" eval small S_test.txt
ok "with two threads" train "${options[@]}" -o threads --threads 2
check "the same bytes with two threads" cmp small threads
kill_at '^smaller' train "${options[@]}" -o r --checkpoint-steps 10
ok "killed and resumed" train "${options[@]}" -o r --resume
check "the bytes of a run that was left alone" cmp small r
ok "goes on from it" train S_train.txt --init small --epochs 1 --sampling full -o more
net=$("$wisp" inspect small --json | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["net"])')
ok "and says its net" train S_train.txt --init small --net "$net" --epochs 1 --sampling full -o named
run predict more S_test.txt
cp out more.txt
run predict named S_test.txt
check "which is the same" cmp more.txt out
refuse "connections of no model" 2 "has the connections of a model, and there is none" train S_train.txt --net "sparse kept 64" -o x

# ---- single weights ----
options=("${common[@]}" --net "input 64, relu, dense 48, bn, relu, sparse random 48 12, relu" --magnitude 0.9)
ok "weights go one by one" train "${options[@]}" -o thin
check "matrices become sparse" grep -q '^smaller   [0-9]* of [0-9]* parameters are left.*: sparse form=kept width=[0-9]*, relu, sparse form=kept' err
run inspect thin --json
check "a tenth of the weights is left" /usr/bin/python3 -c '
import json
r = json.load(open("out"))
assert r["net"].count("sparse form=kept width=") == 3 and "input" not in r["net"], r["net"]
assert all(int(x.split(",")[0]) % 4 == 0 for x in r["net"].split("width=")[1:]), r["net"]  # as cards have them
cut, other = 300 * 64 + 64 * 48 + 48 * 12, 3 * 64 + 4 * 48 + 49 * 12
assert 0.05 * cut < r["parameters"] <= 0.1 * cut + other, r["parameters"]'
ok "it is evaluated" eval thin S_test.txt --json
check "it has learnt" /usr/bin/python3 -c '
import json
assert json.load(open("out"))["p@1"] > 60, open("out").read()'
for threads in 2 3; do
    ok "with $threads threads" train "${options[@]}" -o threads --threads $threads
    check "the same bytes with $threads threads" cmp thin threads
done
# Stopped while weights go, when all are gone, and after the layers have become sparse.
for at in 'epoch 2' 'epoch 4' '^smaller' 'epoch 5'; do
    rm -f r r.*
    kill_at "$at" train "${options[@]}" -o r --checkpoint-steps 7
    ok "killed and resumed ($at)" train "${options[@]}" -o r --resume
    check "the bytes of a run that was left alone ($at)" cmp thin r
done
ok "adam and adagrad have it too" train "${options[@]}" --optimizer adam --lr 0.002 -o adam
ok "even less" train S_train.txt --init thin --magnitude 0.5 --epochs 3 --sampling full -o thinner
check "half of that" grep -q '^smaller' err
ok "a mask of a file to begin with" train "${common[@]}" --net "sparse mask=$PWD/mask, relu" --magnitude 0.5 -o masked
run inspect masked --json
check "half of the file's" /usr/bin/python3 -c '
import json
r = json.load(open("out"))
assert "mask" not in r["net"] and r["parameters"] <= 300 + 60 + 61 * 12, r'
refuse "no epoch is left" 2 'what is left has to be trained' train "${options[@]}" --magnitude-epochs 6 -o x
refuse "two ways at once" 2 'whole groups are to go too' train "${options[@]}" --group-penalty 0.1 -o x
refuse "means of weights" 2 'nets of different sizes have no mean' train "${options[@]}" --average 0.5 -o x
refuse "sampled rows" 2 'use --sampling full' train "${options[@]}" --sampling neighbours+random -o x

# ---- prune ----
options=(S_train.txt --net "dense 64, relu, dense 64, relu" --epochs 6 --batch 64 --holdout 0.2 --seed 3 --target-accuracy-drop 3 --unstructured)
ok "prunes" prune "${options[@]}" -o best --json
cp out best.json
check "every one is told of" grep -q '^prune     share 0.8: validation P@1' err
check "a smaller net, and how much" /usr/bin/python3 -c '
import json
r = json.load(open("best.json"))
assert r["weights_ratio"] > 3 and r["accuracy_drop"] <= 3 and r["time_ratio"] > 0, r
rungs = r["frontier"]
assert rungs[0]["share"] == 0 and rungs[1]["share"] == 0.8 and len(rungs) >= 3, rungs'
ok "it predicts" eval best S_test.txt
ok "with a first share" prune "${options[@]}" -o again --magnitude 0.9 --json
check "the first share is the one that was asked for" /usr/bin/python3 -c '
import json
assert json.load(open("out"))["frontier"][1]["share"] == 0.9'
end
