#!/usr/bin/env bash
# Sampled training: every sampler trains and tells what it did; the same bytes for any number of threads and after a
# stop; recall where it is known; what --sampling refuses.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
labels=300
synth S --rows 700 --features 600 --labels $labels --row-features 30 --row-labels 3
synth W --rows 4000 --features 500 --labels 200 --row-features 8 --row-labels 2 --test-rows 10
"$wisp" train W_train.txt -o w --epochs 1 --hidden 4 --batch 512 2>err # makes the cache

# one line a way to sample; the first word is --sampling
ways=(
    "random --random 40"
    "frequency --frequent 40 --correct 1"
    "neighbours --carry 30"
    "features"
    "ivf"
    "lsh --hash simhash"
    "lsh --hash wta --replace reservoir --bucket 16"
    "lsh --hash dwta --strategy vanilla"
    "lsh --hash minhash --strategy threshold --votes 1"
    "neighbours+random --random 30 --carry 30"
    "features+neighbours+random --random 30 --active-max 120"
    "ivf+frequency+random --frequent 20 --random 20 --correct 0.5 --active-min 100"
    "lsh+neighbours+ivf+random --rescore no --random 20 --active-min 90"
    "neighbours+random --active-per example --random 30 --carry 30"
)
# and the rows of the tables that are not among them
for name in $(names samplers); do
    [[ $name = full || " ${ways[*]} " = *" $name "* ]] || ways+=("$name")
done
for hash in $(names hashes); do
    [[ " ${ways[*]} " = *" --hash $hash "* ]] || ways+=("lsh --hash $hash")
done

# ---- every way: it trains, tells, and does not depend on threads ----

for way in "${ways[@]}"; do
    read -ra words <<<"$way"
    for n in 1 2 4; do
        ok "$way, $n threads" train S_train.txt -o "t$n" --threads $n --epochs 2 --hidden 24 --batch 64 \
            --json --log log --sampling "${words[@]}"
    done
    same "$way: 2 threads as 1" t1 t2
    same "$way: 4 threads as 1" t1 t4
    check "$way: --json and --log tell" /usr/bin/python3 -c '
import json, sys
log = [json.loads(l) for l in open("log")]
out = json.loads(open("out").read().splitlines()[-1])
assert len(log) == 2, log
for d in log + [out]:
    assert 0 < d["active_mean"] <= int(sys.argv[1]) and d["scored_mean"] > 0, d
    assert 0 <= d["retrieval_recall"] <= 1 and 0 <= d["recall_union"] <= 1, d
    # a ceiling may cut own rows; else the union has them all
    assert "active-max" in sys.argv[2] or d["retrieval_recall"] <= d["recall_union"], d
keys = "active_mean", "scored_mean", "retrieval_recall", "recall_union"
assert all(abs(out[k] - log[-1][k]) < 0.06 for k in keys), (log, out)' $labels "$way"
    check "$way: the plan names it" grep -qE "^training .*sampling ${words[0]//+/\\+}[, ]" err
done
ok "another seed" train S_train.txt -o t2 --epochs 2 --hidden 24 --batch 64 --sampling random --random 40 --seed 2
ok "the same way" train S_train.txt -o t1 --epochs 2 --hidden 24 --batch 64 --sampling random --random 40
check "another seed, other bytes" not cmp -s t1 t2
ok "features by votes" train S_train.txt -o t1 --epochs 2 --hidden 24 --batch 64 --sampling features --rescore no --keep 40 --json
judge "features by votes: votes below 1 count" "d['retrieval_recall'] > 0.1"
ok "neighbours, no re-scoring" train S_train.txt -o t1 --epochs 2 --hidden 24 --batch 64 --sampling neighbours+random --rescore no --log a
ok "neighbours, re-scoring" train S_train.txt -o t2 --epochs 2 --hidden 24 --batch 64 --sampling neighbours+random --log b
check "neighbours scores its rows in any case" /usr/bin/python3 -c '
import json
a, b = ([json.loads(l) for l in open(f)] for f in "ab")
assert all(x[k] == y[k] for x, y in zip(a, b) for k in ("loss", "scored_mean", "retrieval_recall")), (a, b)'
ok "full" train S_train.txt -o t1 --epochs 1 --hidden 24 --batch 64 --sampling full --json
judge "full: all rows, all found" "d['active_mean'] == d['scored_mean'] == $labels and d['retrieval_recall'] == d['recall_union'] == 1"
cp t1 full
ok "auto, few labels" train S_train.txt -o t1 --epochs 1 --hidden 24 --batch 64 --json
judge "auto, few labels: all rows" "d['active_mean'] == $labels"

# ---- bounds ----

small=(S_train.txt -o b --epochs 1 --hidden 24 --batch 16 --json)
ok "a floor" train "${small[@]}" --sampling random --random 5 --active-min 150
judge "a floor is kept" "150 <= d['active_mean'] < 152"
ok "a ceiling" train "${small[@]}" --sampling random --random 250 --active-max 80
judge "a ceiling is kept" "79 < d['active_mean'] <= 80.5"
ok "a ceiling below the labels" train "${small[@]}" --sampling random --active-max 1
judge "labels are never cut" "10 < d['active_mean'] < 60"
ok "all rows by the floor" train "${small[@]}" --sampling random --active-min 100000
judge "all rows by the floor: all" "d['active_mean'] == d['scored_mean'] == $labels and d['recall_union'] == 1"
ok "all rows, one per sample" train "${small[@]}" --sampling random --random $labels --batch 1
judge "all rows, one per sample: all" "d['active_mean'] == $labels"

# ---- recall where it is known ----

ok "as many random rows as labels" train "${small[@]}" --sampling random --random $labels
judge "they are all rows: the union has everything, samples have nothing of their own" \
    "d['recall_union'] == 1 and d['retrieval_recall'] == 0 and d['active_mean'] == $labels"
ok "half of the rows" train S_train.txt -o b --epochs 3 --hidden 24 --batch 4 --json --sampling random --random 150
judge "about 0.4 of what is looked for is found" "0.3 < d['recall_union'] < 0.55"
synth R --rows 2000 --features 1000 --labels 600 --row-features 30 --row-labels 3
ok "neighbours learn" train R_train.txt -o b --epochs 6 --hidden 32 --dropout 0 --batch 16 --lr 0.03 --loss softmax \
    --sampling neighbours+random --random 20 --carry 20 --patience 0 --log log
check "their recall rises" /usr/bin/python3 -c '
import json
r = [json.loads(l)["retrieval_recall"] for l in open("log")]
assert len(r) == 6 and r[-1] > 0.8 and r[-1] > r[0], r'
ok "the exact finder: all lists" train "${small[@]}" --sampling ivf --lists 8 --probes 8
judge "all lists: everything is found" "d['retrieval_recall'] > 0.999"

# ---- as full, to rounding ----

as_full=(S_train.txt -o a --epochs 1 --hidden 24 --batch 64 --lr 0.01)
ok "all rows by the floor, one epoch" train "${as_full[@]}" --sampling random --active-min $labels --log log
ok "full, one epoch" train "${as_full[@]}" --sampling full --log log2
check "the same loss and validation" /usr/bin/python3 -c '
import json
a, b = (json.loads(open(f).readline()) for f in ("log", "log2"))
assert abs(a["loss"] - b["loss"]) < 1e-4 * b["loss"] and abs(a["valid_p@1"] - b["valid_p@1"]) < 1.3, (a, b)'

# ---- stopped and resumed ----

# stop_and_go NAME OPTIONS...: stopped twice on the way, by a signal, then to the end
stop_and_go() {
    local n pid stops=0 options=("${@:2}") began=$EPOCHREALTIME epochs
    rm -f r r.state
    ok "$1: a short run" train "${options[@]}" --epochs 2 -o whole
    # as many epochs as take some 0.5 s here: fewer are over before a signal comes
    epochs=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { n = 0.5 / (b - a) * 2; printf("%d", n < 3 ? 3 : n) }')
    options+=(--epochs "$epochs")
    ok "$1: left alone" train "${options[@]}" -o whole
    for n in 1 2; do
        local more=()
        [ -e r.state ] && more=(--resume)
        "$wisp" train "${options[@]}" -o r "${more[@]}" >out 2>err &
        pid=$!
        for _ in $(seq 1000); do # the plan is printed: signals are heeded now
            grep -qE '^(machine|epoch)' err && break
            sleep 0.01
        done
        sleep 0.$((RANDOM % 2))$((RANDOM % 10)) # where an epoch takes more than 0.2 s, within it
        kill -s INT $pid 2>/dev/null
        wait $pid
        rc=$?
        [ $rc = 130 ] && stops=$((stops + 1))
    done
    check "$1: it was stopped" [ $stops -gt 0 ]
    [ $rc = 0 ] || ok "$1: resumed" train "${options[@]}" -o r --resume
    same "$1: the same bytes" r whole
    check "$1: the state is gone" [ ! -e r.state ]
}
long=(W_train.txt --hidden 16 --batch 4 --patience 0)
for way in "neighbours+random --random 20 --carry 20" "random+frequency --random 20 --frequent 20" "ivf --lists 12" \
    "features+neighbours --carry 10" "neighbours --active-per example" \
    "lsh --hash simhash --tables 8" "lsh --hash wta --tables 8 --replace reservoir --bucket 8" \
    "lsh --hash dwta --tables 8 --rebuild 20 --redraw 2" "lsh+ivf --hash minhash --tables 8 --rebuild 20 --redraw 1"; do
    read -ra words <<<"$way"
    stop_and_go "$way" "${long[@]}" --sampling "${words[@]}"
done

# other settings are another run
"$wisp" train "${long[@]}" -o r --epochs 50 --sampling neighbours+random >out 2>err &
pid=$!
for _ in $(seq 500); do grep -q '^epoch' err && break || sleep 0.02; done
kill -s INT $pid
wait $pid
check "there is a state" [ -s r.state ]
refuse "another way to sample" 4 "r.state: .*--sampling was 'neighbours\+random' and is 'random'" \
    train "${long[@]}" -o r --epochs 50 --sampling random --resume
refuse "other numbers of rows" 4 "r.state: .*--random was '.*' and is '20'" \
    train "${long[@]}" -o r --epochs 50 --sampling neighbours+random --random 20 --resume
refuse "another seed" 4 "r.state: .*seed" train "${long[@]}" -o r --epochs 50 --sampling neighbours+random --seed 4 --resume

# ---- what is refused ----

bad_names=("" "+" "random+" "+random" "random++lsh" "nonsense" "random+nonsense" "Random" "random,lsh" "auto+random")
for names in "${bad_names[@]}"; do
    refuse "--sampling '$names'" 2 "^wisp: --sampling: no '.*' in '.*wisp info" train S_train.txt -o x --sampling "$names"
done
refuse "full and more" 2 "--sampling: 'full' is all rows" train S_train.txt -o x --sampling full+random
refuse "more and full" 2 "--sampling: 'full' is all rows" train S_train.txt -o x --sampling random+full
refuse "a finder twice" 2 "--sampling: 'lsh' twice" train S_train.txt -o x --sampling lsh+lsh
refuse "a floor above the ceiling" 2 "--active-min: 50 is more than --active-max 40" train S_train.txt -o x --sampling random --active-min 50 --active-max 40
refuse "a floor for each sample" 2 "--active-min: .*not with --active-per example" train S_train.txt -o x --sampling random --active-min 50 --active-per example
refuse "too long" 2 "--sampling: '.*' is too long" train S_train.txt -o x --sampling "$(printf 'random+%.0s' {1..30})random"
refuse "--keep 0" 2 "--keep: 0 is not in" train S_train.txt -o x --sampling ivf --keep 0
refuse "--hash md5" 2 "--hash: 'md5' is not one of" train S_train.txt -o x --sampling lsh --hash md5
refuse "--correct 2" 2 "--correct: 2 is not in" train S_train.txt -o x --sampling random --correct 2
refuse "--random many" 2 "--random: 'many' is not a whole number" train S_train.txt -o x --sampling random --random many
check "no model was made" [ ! -e x ]

ok "info" info
for name in $(names samplers); do
    check "info lists $name" [ "$(sed -n '/^samplers/,/^$/p' out | grep -cE "^  $name +[a-z]")" = 1 ]
done
ok "info --json" info --json
judge "info --json has the samplers" "set(d['samplers']) >= {'full', 'random', 'frequency', 'neighbours', 'features', 'ivf', 'lsh'}"

# ---- odd data ----

printf '1 1 1\n0 0:1\n' >one.txt
for names in $(names samplers | sed 's/full//') lsh+neighbours+ivf+random; do
    ok "one row, one label: $names" train one.txt -o o --holdout 0 --sampling $names --epochs 3 --json
    judge "one row, one label: $names: the label" "d['active_mean'] == 1"
done
printf '4 3 2\n0 0:1\n 1:1\n1 2:1\n 0:1 1:1\n' >some.txt
for names in neighbours features ivf lsh neighbours+random; do
    ok "rows without labels, one at a time: $names" \
        train some.txt -o o --epochs 3 --holdout 0 --batch 1 --sampling $names --carry 0 --random 0
    ok "rows without labels, bce: $names" \
        train some.txt -o o --epochs 3 --holdout 0 --batch 1 --sampling $names --carry 0 --random 0 --loss bce
done
{
    echo 3 2 40
    echo "$(seq -s, 0 39)" 0:1
    printf '1 1:1\n2 0:1 1:1\n'
} >all.txt
ok "a row with all labels" train all.txt -o o --holdout 0 --sampling neighbours+random --random 3 --epochs 4 \
    --active-max 5 --batch 2 --json
judge "a row with all labels: never cut" "20 < d['active_mean'] <= 40"
end
