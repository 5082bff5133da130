#!/usr/bin/env bash
# --group-penalty: nets that become smaller while they train, what is left of them, and what it refuses.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 3000 --features 300 --labels 12 --row-features 12 --test-rows 300 --seed 4 >out 2>err || bad synth "the set was not made"
options=(S_train.txt --net "input 48, bn as a, relu, dense 48, relu, dense 48, add a, relu" --sampling full --epochs 9 --batch 64 --lr 0.05
    --optimizer sgd --holdout 0.2 --seed 3)

ok "without a penalty" train "${options[@]}" -o whole
ok "with one" train "${options[@]}" --group-penalty 0.03 -o small
check "it says so" grep -q '^smaller   [0-9]* of 19836 parameters are left: input width=' err
run inspect small --json
cp out small.json
run inspect whole --json
check "fewer parameters" /usr/bin/python3 -c '
import json, sys
a, b = json.load(open("small.json")), json.load(open("out"))
assert a["parameters"] < 0.8 * b["parameters"], (a["parameters"], b["parameters"])
assert "dense width=" in a["net"], a["net"]'
ok "predicts" predict small S_test.txt
ok "as accurate as chance at least" eval small S_test.txt --json
for threads in 2 3; do
    ok "with $threads threads" train "${options[@]}" --group-penalty 0.03 -o threads --threads $threads
    check "the same bytes with $threads threads" cmp small threads
done
ok "goes on from the smaller net" train S_train.txt --init small --epochs 1 --sampling full -o more

# Stopped where an epoch ends, before and after the net became smaller, and in the middle of one.
for stop in 40 80 150; do
    rm -f r r.*
    "$wisp" train "${options[@]}" --group-penalty 0.03 -o r --checkpoint-steps $stop >out 2>err &
    pid=$!
    for ((i = 0; i < 1000; i++)); do
        [ "$(grep -c '^smaller' err)" -ge $((stop / 40)) ] && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.005
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    ok "resumed ($stop)" train "${options[@]}" --group-penalty 0.03 -o r --resume
    check "the bytes of a run that was left alone ($stop)" cmp small r
done
ok "a finished run is finished" train "${options[@]}" --group-penalty 0.03 -o small --resume
check "it says so" grep -q 'the run is finished' err

# Sampled rows: indexes of the rows' weights are made anew for narrower rows; threads and kills change nothing.
"$wisp" synth W --rows 1600 --features 400 --labels 5000 --row-features 10 --test-rows 300 --seed 5 >out 2>err || bad synth "the wide set was not made"
wide=(W_train.txt --epochs 4 --batch 32 --optimizer adagrad --loss softmax --holdout 0.2 --seed 3 --group-penalty 0.03)
for sampling in neighbours+features+random neighbours+lsh ivf+random; do
    rm -f w v
    ok "sampled by $sampling" train "${wide[@]}" --hidden 48 --sampling $sampling -o w --threads 1
    check "some units are gone ($sampling)" grep -q '^smaller   [0-9]* of 264248 parameters are left: input width=' err
    ok "with three threads" train "${wide[@]}" --hidden 48 --sampling $sampling -o v --threads 3
    check "the same bytes with three threads ($sampling)" cmp w v
    rm -f v v.*
    "$wisp" train "${wide[@]}" --hidden 48 --sampling $sampling -o v >out 2>err &
    pid=$!
    for ((i = 0; i < 1000; i++)); do
        grep -q '^smaller' err && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.005
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    ok "resumed" train "${wide[@]}" --hidden 48 --sampling $sampling -o v --resume
    check "the bytes of a run that was left alone ($sampling)" cmp w v
    ok "predicts sparsely" predict w W_test.txt --inference sparse
done
ok "a sampled hidden layer" train "${wide[@]}" --net "input 48, relu, sampled 64, relu" --hidden-sampling lsh -o h --threads 1
check "units of both layers are gone" grep -qE '^smaller .*: input width=([1-3]?[0-9]|4[0-7]), relu, sampled width=([1-5]?[0-9]|6[0-3]),' err
ok "again with two threads" train "${wide[@]}" --net "input 48, relu, sampled 64, relu" --hidden-sampling lsh -o h2 --threads 2
check "the same bytes" cmp h h2
# A share of the units, the weakest.
cut=(W_train.txt --epochs 4 --batch 32 --optimizer adagrad --loss softmax --holdout 0.2 --seed 3)
ok "a share of the units is cut" train "${cut[@]}" --hidden 48 --group-cut 0.75 --penalty-epochs 2 -o k --threads 1
check "three quarters of them" grep -q '^smaller .*: input width=12, relu' err
check "at once, when the last are cut" [ "$(grep -c '^smaller' err)" = 1 ]
ok "with three threads" train "${cut[@]}" --hidden 48 --group-cut 0.75 --penalty-epochs 2 -o k3 --threads 3
check "the same bytes" cmp k k3
for when in 'epoch 1/4' '^smaller'; do
    rm -f k3 k3.*
    "$wisp" train "${cut[@]}" --hidden 48 --group-cut 0.75 --penalty-epochs 2 -o k3 --checkpoint-steps 7 >out 2>err &
    pid=$!
    for ((i = 0; i < 1000; i++)); do
        grep -q "$when" err && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.005
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    ok "resumed ($when)" train "${cut[@]}" --hidden 48 --group-cut 0.75 --penalty-epochs 2 -o k3 --checkpoint-steps 7 --resume
    check "the bytes of a run that was left alone ($when)" cmp k k3
done
# Moments of 2^26 weights and more are in bf16 by themselves, and stay so when there are fewer.
"$wisp" synth L --rows 200 --features 70000 --labels 5 --row-features 5 --row-labels 1 --test-rows 10 --seed 5 >out 2>err || bad synth "the long set was not made"
ok "a net that had many weights" train L_train.txt --hidden 1000 --epochs 3 --batch 64 --optimizer sgd --lr 0.1 --holdout 0.1 --group-cut 0.5 --penalty-epochs 1 -o l
check "goes on with few" grep -q '^smaller .*: input width=500, relu' err
check "and had its moments in bf16" grep -q '^training .*moments in bf16' err
rm -f L_* l l.*
ok "of every layer, also without a ReLU, which learns again between two cuts" train "${cut[@]}" --net "input 40, relu, dense 20" --group-cut 0.5 -o k2
check "half of both" grep -q '^smaller .*: input width=20, relu, dense width=10' err
refuse "no epoch left" 2 "4 of 4 epochs, expected fewer" train "${cut[@]}" --group-cut 0.5 --penalty-epochs 4 -o x
refuse "two ways at once" 2 'whole groups are to go too' train "${cut[@]}" --group-cut 0.5 --magnitude 0.5 --sampling full -o x

ok "prunes with the choices of a wide set" prune W_train.txt --epochs 2 --hidden 32 --batch 64 --holdout 0.2 --group-penalty 0.01 --target-accuracy-drop 100 -o pw
check "sampled, as 'train' would" grep -q 'sampling neighbours+features+random' err
check "down to one unit, and an end" grep -qE '^prune     penalty [0-9.]*: .*, 1[0-9]{4} parameters' err
ok "prunes units by their strength" prune W_train.txt --epochs 3 --hidden 32 --batch 64 --holdout 0.2 --target-accuracy-drop 100 -o pu
check "half of them, and half again" grep -qE '^prune     share 0.5: .*' err
run inspect pu --json
check "down to one unit" grep -q '"net":"input width=1,' out

refuse "rows of bf16" 2 'rows of bf16 have no penalty; use --rows fp32' train "${options[@]}" --group-penalty 0.1 --rows bf16 -o x
refuse "means of weights" 2 'nets of different sizes have no mean' train "${options[@]}" --group-penalty 0.03 --average 0.5 -o x
end
