#!/usr/bin/env bash
# Nets that are no chain, and layers with state of their own: they learn, threads and stops do not show, and models of them
# are loaded, gone on from, made smaller.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth S --rows 2000 --features 1000 --labels 100
options=(S_train.txt --valid S_test.txt --epochs 6 --batch 64 --patience 0 --lr 0.01 --threads 1 --json)
residual="input 64, bn, relu, 2 x block (as x, dense 64, bn, relu, dense 64, bn, add x, relu)"
branches="input 48 as left, relu as a, from rows, sparse random 32 8 as right, relu, dropout 0.1, concat a, dense 64, relu"

# whole NAME NET: learns, and its model is what it says
whole() {
    local n
    ok "$1" train "${options[@]}" -o m --net "$2"
    judge "$1: it learns" 'd["valid_p@1"] > 60'
    ok "$1: eval" eval m S_test.txt --json
    judge "$1: the model on disk is as good" 'd["p@1"] > 60'
    for n in 2 4; do
        ok "$1: $n threads" train "${options[@]}" -o t --net "$2" --threads $n
        same "$1: $n threads, the same bytes" m t
    done
    rm -f r r.state
    stopped_after 2 train "${options[@]}" -o r --net "$2"
    check "$1: it was stopped" [ $rc = 130 ]
    ok "$1: resumed" train "${options[@]}" -o r --net "$2" --resume
    same "$1: resumed, the same bytes" m r
    ok "$1: gone on from" train S_train.txt --init m -o g --epochs 1 --json
    refuse "$1: not from another net" 4 "its net is" train S_train.txt --init m -o g --epochs 1 --net "input 64, relu"
    ok "$1: made smaller" convert m q --quantize bf16
    ok "$1: smaller, eval" eval q S_test.txt --json
    judge "$1: smaller, about as good" 'd["p@1"] > 55'
    ok "$1: averaged" train "${options[@]}" -o v --net "$2" --average 0.3
}
# stopped_after N ARGS...: the command, interrupted after N epochs
stopped_after() {
    local epochs=$1 pid
    shift
    : >err
    "$wisp" "$@" >out 2>err &
    pid=$!
    for _ in $(seq 4000); do
        kill -0 $pid 2>/dev/null || break
        [ "$(grep -c '^epoch' err)" -ge "$epochs" ] && kill -s INT $pid 2>/dev/null
        sleep 0.005
    done
    wait $pid
    rc=$?
}

whole "residual" "$residual"
whole "two branches" "$branches"
ok "names in the file" inspect m --json
ok "a chain with names" train "${options[@]}" -o named --net "input 32 as first, relu, dense 16 as second, relu" --epochs 1
ok "inspect" inspect named --json
judge "tensors have them" '{"first.weight", "first.bias", "second.weight", "second.bias", "4.output.weight"} <= {t["name"] for t in d["tensors"]}'

# The loss, said by the head: the same model as by the option, which must not say another.
quick=(S_train.txt --valid S_test.txt --epochs 1 --threads 1)
chain="input 32, relu"
for loss in softmax bce; do
    ok "$loss, said by the net" train "${quick[@]}" -o head --net "$chain, output loss=$loss"
    check "$loss, said by the net: the plan" grep -qE "^net  .*; 100 outputs, $loss loss;" err
    ok "$loss, by the option" train "${quick[@]}" -o option --net "$chain" --loss $loss
    for m in head option; do
        ok "$loss, $m: inspect" inspect $m --json
        judge "$loss, $m: the model's loss" "d['loss'] == '$loss'"
        ok "$loss, $m: predict" predict $m S_test.txt --scores raw
        cp out $m.txt
    done
    same "$loss: the same answers" head.txt option.txt
    ok "$loss, by both" train "${quick[@]}" -o both --net "$chain, output loss=$loss" --loss $loss
    ok "$loss: gone on from" train S_train.txt --init head -o g --epochs 1
    ok "$loss: inspect what went on" inspect g --json
    judge "$loss: it goes on with it" "d['loss'] == '$loss'"
done
refuse "two losses" 2 "^wisp: --net:1:17: 'output' has loss=bce, but --loss is softmax; leave out one of them$" train "${quick[@]}" -o x --net "$chain, output loss=bce" --loss softmax
printf 'input 32\nrelu # and then\n  output loss=softmax\n' >two.net
refuse "two losses, in a file" 2 "^wisp: two.net:3:3: 'output' has loss=softmax, but --loss is bce" train "${quick[@]}" -o x --net two.net --loss bce
refuse "two losses, gone on from" 2 "'output' has loss=bce, but --loss is softmax" train S_train.txt --init head -o x --epochs 1 --loss softmax
stopped_after 1 train "${options[@]}" -o r --net "$chain, output loss=softmax"
ok "resumed" train "${options[@]}" -o r --net "$chain, output loss=softmax" --resume
ok "left alone" train "${options[@]}" -o m --net "$chain, output loss=softmax"
same "resumed, the same bytes" r m

# Zeros skipped by dense layers (wide ones, narrow ones, one that fills no block of 16 columns): not a bit of the model differs, by
# force or by count; rows without a gradient have their momentum and decay.
zeros="input 64, relu, dropout 0.5, dense 1040, relu, dropout 0.5, dense 272, relu, dense 84, relu"
for optimizer in adam "sgd --momentum 0.9 --weight-decay 0.001"; do
    # shellcheck disable=SC2086
    for how in "off --threads 1" "force --threads 1" "force --threads 3" "auto --threads 2"; do
        ok "$optimizer: zeros $how" train "${options[@]}" -o "z${how%% *}" --epochs 1 --net "$zeros" --optimizer $optimizer --zeros $how
        numbers "z${how%% *}"
        same "$optimizer: zeros $how, the same weights" zoff.numbers "z${how%% *}.numbers"
    done
done
end
