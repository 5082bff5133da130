#!/usr/bin/env bash
# Training: the defaults learn; the same bytes for any number of threads, on every ISA; --init.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 3000 --features 2000 --labels 300
synth S --rows 800 --features 600 --labels 80 --row-features 30
synth W --rows 20000 --features 500 --labels 50 --row-features 8 --row-labels 2 --test-rows 10

ok "the defaults" train P_train.txt -o m --json
judge "they learn" 'd["valid_p@1"] > 80'
judge "train --json has its keys" 'all(k in d for k in ("samples_per_s", "epochs", "active_mean", "scored_mean", "retrieval_recall", "valid_p@1", "seconds"))'
for word in rows data net training memory machine saved; do check "the plan is printed: $word" grep -qE "^$word " err; done
ok "eval" eval m P_test.txt --json
judge "it generalises" 'd["p@1"] > 80'
check "no state is left" [ ! -e m.state ]

# thrice NAME DATA OPTIONS...: the model's bytes do not depend on the number of threads
thrice() {
    local n
    for n in 1 2 4; do
        ok "$1, $n threads" train "$2" -o "t$n" --threads $n --epochs 2 --hidden 24 --batch 64 "${@:3}"
    done
    same "$1: 2 threads as 1" t1 t2
    same "$1: 4 threads as 1" t1 t4
}
thrice "the defaults" S_train.txt
cp t1 plain
ok "again" train S_train.txt -o t1 --epochs 2 --hidden 24 --batch 64
same "the same run twice" t1 plain
thrice "another seed" S_train.txt --seed 2
check "another seed, other bytes" not cmp -s t1 plain
thrice "softmax" S_train.txt --loss softmax
thrice "bce" S_train.txt --loss bce
thrice "adagrad" S_train.txt --optimizer adagrad
thrice "sgd" S_train.txt --optimizer sgd --momentum 0.5
thrice "moments of bf16" S_train.txt --moments bf16
check "moments of bf16: it is told" grep -q 'adam lr 0.016, moments in bf16,' err
check "moments of bf16, other bytes" not cmp -s t1 plain
thrice "moments and rows of bf16" S_train.txt --moments bf16 --rows bf16
thrice "two hidden layers" S_train.txt --hidden 24,16
thrice "dropout" S_train.txt --dropout 0.5 --input-dropout 0.2
thrice "no dropout" S_train.txt --dropout 0 --input-dropout 0
thrice "--net" S_train.txt --hidden "" --net "input 20, relu, dense 12, relu, dropout 0.1"
thrice "averaging" S_train.txt --average 0.5
check "averaging, other bytes" not cmp -s t1 plain
thrice "a validation file" S_train.txt --valid S_test.txt
thrice "windows" W_train.txt --memory 64k --epochs 1 --batch 512
cp t1 windows
ok "one window" train W_train.txt -o t1 --epochs 1 --batch 512 --hidden 24
check "windows, other bytes" not cmp -s t1 windows
cp t1 whole
ok "--threads 0.3e1" train W_train.txt -o t1 --epochs 1 --batch 512 --hidden 24 --threads 0.3e1
check "--threads is read one way" grep -q '3 threads' err
ok "without a cache" train W_train.txt -o t1 --epochs 1 --batch 512 --hidden 24 --cache -
same "with or without a cache" t1 whole
refuse "--memory without a cache" 6 "W_train.txt: .*do not fit --memory 64k without a cache" \
    train W_train.txt -o t1 --epochs 1 --memory 64k --cache -

"$wisp" info --json >isas.json
for isa in $(/usr/bin/python3 -c 'import json; print(*json.load(open("isas.json"))["kernels"])'); do
    export WISP_ISA=$isa
    run train S_train.txt -o t1 --epochs 1
    if [ $rc = 2 ] && grep -q "no '$isa' kernels" err; then
        skip "$isa" "this machine has no such kernels"
        continue
    fi
    check "$isa: it is told" grep -qE "$isa kernels" err
    thrice "$isa, softmax" S_train.txt --loss softmax --hidden 24,17
    thrice "$isa, bce" S_train.txt --loss bce --optimizer adagrad
done
unset WISP_ISA

# --init
ok "a first run" train S_train.txt -o a --hidden 64 --epochs 3 --json --log log
cp out first
head -n 1 log >first-epoch
ok "--init" train S_train.txt -o b --hidden 64 --epochs 3 --init a --json --log log
head -n 1 log >next-epoch
check "it goes on from there" /usr/bin/python3 -c '
import json
a, b = (json.loads(open(f).read())["valid_p@1"] for f in ("first", "out"))
c, d = (json.loads(open(f).read())["loss"] for f in ("first-epoch", "next-epoch"))
assert b >= a and d < c, (a, b, c, d)'
refuse "--init: other hidden width" 4 "--init a: .*input 64.*input 32" train S_train.txt -o c --hidden 32 --init a
refuse "--init: another depth" 4 "--init a: " train S_train.txt -o c --hidden 64,32 --init a
ok "--init: more features and labels" train P_train.txt -o more --hidden 64 --init a --epochs 1
check "they are added" grep -q "80 old labels kept, 220 new; 600 old features, 1400 new" err
ok "--init: fewer of both" train S_train.txt -o fewer --init more --epochs 1
check "all are kept" grep -q "300 old labels kept, 0 new; 2000 old features, 0 new" err
refuse "--init: no such model" 5 "none" train S_train.txt -o c --init none
check "no model was made" [ ! -e c ]

printf '1 1 1\n0 0:1\n' >one.txt

# A run that ends where it could have begun says so; few rows of many labels learn all the same.
synth Q --rows 3000 --features 3000 --labels 5000 --row-features 20 --row-labels 2 --test-rows 300 --seed 9
printf '2 3000 5000\n4990 1:1 2:1\n4991 3:1\n' >rare.txt
ok "a rate of nearly nothing" train Q_train.txt --valid rare.txt -o q --lr 1e-9 --epochs 1 --hidden 64
check "it says that nothing was learnt" grep -qE '^warning   validation P@1 [0-9.]+: no better than naming the most frequent label always \([0-9.]+\); try more --epochs' err
ok "the loss by default" train Q_train.txt -o q --epochs 4 --hidden 64 --json
check "is softmax there" grep -q 'softmax loss' err
check "and nothing is wrong" not grep -q '^warning' err
judge "it has learnt something" 'd["valid_p@1"] > 2'
ok "one label" train one.txt -o o --valid one.txt
check "is always right, and no reason to warn" not grep -q '^warning' err

# odd sizes
ok "one row, one feature, one label" train one.txt -o o --holdout 0
ok "one row: predicted" predict o one.txt
check "one row: its label" grep -qE '^0:[01]\.[0-9]{4}$' out
printf '0 5 5\n' >none.txt
run train none.txt -o o2
check "no rows: refused" [ $rc = 2 -o $rc = 3 ]
printf '4 3 2\n0 0:1\n 1:1\n1 2:1\n 0:1 1:1\n' >some.txt
ok "rows without labels" train some.txt -o o3 --epochs 2 --holdout 0
ok "a width above a batch's" train S_train.txt -o o4 --epochs 1 --batch 1 --hidden 8
ok "a batch above the rows" train S_train.txt -o o5 --epochs 1 --batch 5000 --hidden 8
end
