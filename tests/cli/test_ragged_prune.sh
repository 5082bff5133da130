#!/usr/bin/env bash
# Nets with 'sparse' layers that become smaller: units of them go, and what is left has its connections in the model.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 3000 --features 300 --labels 12 --row-features 12 --test-rows 300 --seed 4 >out 2>err || bad synth "the set was not made"
common=(S_train.txt --sampling full --epochs 6 --batch 64 --lr 0.05 --optimizer sgd --holdout 0.2 --seed 3)

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
end
