#!/usr/bin/env bash
# Linear models from the command: what they know, what threads and kills change (nothing), what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 2500 --features 400 --labels 40 --row-features 10 --test-rows 400 --seed 4 >out 2>err || bad synth "the set was not made"
"$wisp" synth W --rows 3000 --features 900 --labels 5000 --row-features 12 --test-rows 300 --seed 5 >out 2>err || bad synth "the wide set was not made"

# All rows are negatives.
few=(S_train.txt --net linear --seed 5)
ok "few labels" train "${few[@]}" -o m --json
judge "the report" 'd["valid_p@1"] > 50 and d["parameters"] > 0 and d["epochs"] == 2'
check "the plan says what it is" grep -q '^model     linear; 40 labels, squared-hinge loss, cost 0.3' err
check "and what teaches it" grep -q '^negatives all rows' err
check "and that it goes over them twice" grep -q '^training  twice' err
check "the model is alone" [ "$(echo m*)" = m ]
ok "evaluates" eval m S_test.txt --json
cp out linear.json
judge "well" 'd["p@1"] > 55'
ok "a net of the same rows" train S_train.txt --hidden 32 --epochs 10 -o net
ok "evaluates" eval net S_test.txt --json
check "a linear model is about as good" /usr/bin/python3 -c '
import json
net, linear = json.load(open("out"))["p@1"], json.load(open("linear.json"))["p@1"]
assert linear > net - 5, (net, linear)'
ok "predicts" predict m S_test.txt
cp out whole
ok "row by row" predict m S_test.txt --threads 1
check "the same answers" cmp whole out
ok "is described" inspect m --json
judge "with a card" 'd["net"] == "linear" and d["card"]["negatives"] == "all" and d["card"]["linear_loss"] == "squared-hinge" and d["card"]["refit"] == "yes"'
judge "weights by feature" '{t["name"] for t in d["tensors"]} >= {"linear.start", "linear.label", "linear.weight", "linear.bias"}'
for loss in hinge logistic; do
    ok "$loss" train "${few[@]}" --loss $loss -o "m.$loss" --json
    judge "$loss learns" 'd["valid_p@1"] > 40'
done
ok "once only" train "${few[@]}" --refit no -o once --json
judge "one time" 'd["epochs"] == 1'
check "other bytes" not cmp -s once m
ok "larger weights only" train "${few[@]}" --drop-below 0.2 --cost 0.1 -o large
check "the model is smaller" [ "$(stat -c %s large)" -lt "$(stat -c %s m)" ]
ok "options of nets" train "${few[@]}" --lr 0.1 --epochs 3 -o unused
check "are said to be unused" grep -q '^unused    --epochs, --lr: options of nets, or of --net auto; a linear model has no such thing$' err

# Votes name negatives and candidates.
many=(W_train.txt --net linear --seed 5)
ok "many labels" train "${many[@]}" -o w --json
check "the plan says votes" grep -q '^negatives by votes of features: of each row 40 labels and 20 %' err
ok "evaluates" eval w W_test.txt --json
cp out exact.json
ok "sparse prediction" eval w W_test.txt --inference sparse --json
judge "scores few labels" '0 < d["scored_mean"] <= 20 and d["p@1"] > 0.9 * d["exact_p@1"] > 0'
ok "all rows" train "${many[@]}" --negatives all -o all
ok "evaluates" eval all W_test.txt --json
check "about as good as all rows" /usr/bin/python3 -c '
import json
all, votes = json.load(open("out"))["p@1"], json.load(open("exact.json"))["p@1"]
assert votes > all - 5, (all, votes)'
ok "more labels than candidates" predict w W_test.txt -k 200
check "200 of them" [ "$(head -n 1 out | wc -w)" = 200 ]

# Narrow weights.
for type in bf16 int8; do
    for model in m w; do
        ok "$model in $type" convert $model "$model.$type" --quantize $type
        check "$model in $type is smaller" [ "$(stat -c %s "$model.$type")" -lt "$(stat -c %s $model)" ]
        ok "$model in $type evaluates" eval "$model.$type" "$([ $model = m ] && echo S || echo W)_test.txt" --json
        judge "$model in $type is as good" 'd["p@1"] > '"$(/usr/bin/python3 -c "import json; print(json.load(open('$([ $model = m ] && echo linear || echo exact).json'))['p@1'] - 1.5)")"
    done
done
refuse "narrow already" 2 "'linear.weight' is I8 already" convert m.int8 q --quantize int8
refuse "codes" 2 "which becomes bf16 or int8, not c64" convert m q --quantize c64
check "no model was left" [ ! -e q ]

# Threads, kills, and a run that is finished.
for threads in 1 3; do
    ok "few labels, $threads threads" train "${few[@]}" -o t --threads $threads
    check "the same bytes" cmp m t
    ok "many labels, $threads threads" train "${many[@]}" -o t --threads $threads
    check "the same bytes" cmp w t
done
second() { # waits until the model of the first time and a checkpoint of the second are there, or the run has ended
    until [ r -nt r.state.1 ] && [ r.state -nt r ]; do kill -0 $pid 2>/dev/null || break; done
}
killed_after() { # NAME SECONDS|second OPTIONS...
    rm -f r r.*
    "$wisp" train "${@:3}" -o r --checkpoint-steps 1 >out 2>err &
    pid=$!
    if [ "$2" = second ]; then second; else sleep "$2"; fi
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    ok "resumed after: $2" train "${@:3}" -o r --resume
    check "the bytes of a run that was left alone" cmp "$1" r
}
for s in 0.02 0.1 0.2; do killed_after m $s "${few[@]}"; done
for s in 0.1 0.3 0.6 second; do killed_after w $s "${many[@]}"; done
check "in the second time" grep -q 'of the second time' err
ok "a finished run is finished" train "${few[@]}" -o m --resume
check "it says so" grep -q 'the run is finished' err
ok "a checkpoint" train "${few[@]}" -o s
refuse "another cost is another run" 4 "cost was '0' and is '2'" train "${few[@]}" --cost 2 -o s --resume

# Weights of rows: a row of weight 2 is two rows; one of weight 0 is none.
ok "weighted by class" train S_train.txt --net linear --class-weight balanced -o cw
check "the plan says so" grep -q 'training (weighted)' err
check "other bytes" not cmp -s cw m

# Text, and other values.
printf '__label__a red apple\n__label__b blue sky\n__label__a apple pie\n__label__b sky high\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 >t.txt
ok "text" train t.txt --net linear -o t
printf 'an apple\nthe sky\n' >lines
"$wisp" predict t lines -k 1 >out 2>err
check "names" grep -q '^a:' <(head -n 1 out)
for values in raw unit standard; do
    ok "values $values" train "${few[@]}" --values $values -o v --json
    judge "values $values: it learns" 'd["valid_p@1"] > 40'
done

# What is refused.
refuse "a net's loss" 2 "softmax is for nets" train "${few[@]}" --loss softmax -o n
refuse "a linear model's loss" 2 "hinge is for linear models" train S_train.txt --loss hinge -o n
refuse "a card" 2 "linear models are trained on processors" train "${few[@]}" --device cuda -o n
refuse "a width" 2 "says all layers" train "${few[@]}" --hidden 9 -o n
refuse "too little memory" 2 "all rows in memory" train "${few[@]}" --memory 64k -o n
refuse "a card to predict" 2 "found a linear model, expected a net" predict m S_test.txt --device cuda
refuse "weights for PyTorch" 2 "found a linear model, expected a net" convert m q.safetensors
refuse "errors" 2 "found a linear model, expected a net" inject m --rate 1e-3 -o n
for net in linear linear+net ""; do
    refuse "how cards exchange, without a card: '$net'" 2 "^wisp: --exchange: says how cards exchange; add --device cuda" train "${few[@]}" --net "$net" --exchange host -o x
    check "before any work: '$net'" [ ! -e x.0 -a ! -e x ]
done
refuse "sparse prediction without an index" 2 "has no index; train it with --negatives votes$" eval m S_test.txt --inference sparse
ok "what it says" train "${few[@]}" --negatives votes -o voted
ok "gives it one" eval voted S_test.txt --inference sparse
end
