#!/usr/bin/env bash
# Joint models: --ensemble, what it leaves, what kills and threads change (nothing), and what it refuses.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 2500 --features 400 --labels 40 --row-features 10 --test-rows 400 --seed 4 >out 2>err || bad synth "the set was not made"
options=(S_train.txt --hidden 24 --epochs 3 --batch 64 --holdout 0.2 --seed 5)

ok "three nets" train "${options[@]}" --ensemble 3 -o m --json
cp out m.json
cp err m.said
judge "the report" 'd["members"] == 3 and d["valid_p@1"] > 0 and d["parameters"] == 3 * (24 * 401 + 25 * 40)' m.json
check "the plan comes first" grep -q '^joint     3 members, one after the other: 3 nets' <(head -n 1 m.said)
check "members have seeds of their own" [ "$(grep -cE '^training .* seed (5|6|7)$' m.said)" = 3 ]
check "and the same held-out rows" [ "$(grep '^rows ' m.said | sort -u | wc -l)" = 1 ]
check "nothing else is left" [ "$(echo m*)" = "m m.json m.said" ]
ok "evaluates" eval m S_test.txt --json
cp out joint.json
for seed in 5 6 7; do
    ok "one net, seed $seed" train "${options[@]:0:9}" --seed $seed --split-seed 5 -o one.$seed
    check "the same rows held out" grep -q "$(grep '^rows ' m.said | head -n 1)" err
    ok "it evaluates" eval one.$seed S_test.txt --json
    cp out one.$seed.json
done
check "better than the mean of its members" /usr/bin/python3 -c '
import json
one = [json.load(open(f"one.{s}.json"))["p@1"] for s in (5, 6, 7)]
all = json.load(open("joint.json"))["p@1"]
assert all > sum(one) / 3, (one, all)'
ok "predicts" predict m S_test.txt
cp out whole
head -n 7 S_test.txt | tail -n 3 >three.txt
ok "some rows" predict m - --format xc <three.txt
ok "is described" inspect m --json
judge "a card for each member" 'd["net"] == "joint" and d["1/card"]["seed"] == 6 and d["2/net"].startswith("input") and d["card"]["tried"] == 3'
ok "is described for a person" inspect m

# Threads, kills, and a run that is finished.
for threads in 1 3; do
    ok "with $threads threads" train "${options[@]}" --ensemble 3 -o threads --threads $threads
    check "the same bytes with $threads threads" cmp m threads
done
going=(train "${options[@]}" --ensemble 3 --checkpoint-steps 5)
killed m '^trial' 1 "${going[@]}"
killed m 'epoch 2/3' 1 "${going[@]}"
killed m '^trial' 2 "${going[@]}"
killed m 'epoch 1/3' 2 "${going[@]}"
killed m 'epoch 3/3' 3 "${going[@]}"
killed m '^joint     net' 3 "${going[@]}"
ok "a finished run is finished" train "${options[@]}" --ensemble 3 -o m --resume
check "it says so" grep -q 'the run is finished' err
echo mine >r.5
ok "a finished run leaves others' files alone" train "${options[@]}" --ensemble 3 -o r --resume
refuse "a new one does not write over them" 5 "r.5: is there, and the models that are tried are written to such files; move it away" train "${options[@]}" --ensemble 7 -o r --epochs 1
check "they are still there" [ "$(cat r.5)" = mine ]
rm -f r.* && ok "again" train "${options[@]}" --ensemble 3 -o r
cp r kept
refuse "other options are another run" 4 "r: belongs to another run: --ensemble was '3' and is '2'; there is no run to go on with; train without --resume to replace it" train "${options[@]}" --ensemble 2 -o r --resume
refuse "so is one model" 4 "r: belongs to another run: --ensemble was '3' and is '1'" train "${options[@]}" -o r --resume
head -n 2000 S_train.txt | sed '1s/2500/1999/' >fewer.txt
refuse "so are other rows" 4 "r: was trained on other data" train fewer.txt "${options[@]:1}" --ensemble 3 -o r --resume
same "the model is left alone" r kept
head -c 5000 kept >r
refuse "half a model is none" 4 "train without --resume to replace it" train "${options[@]}" --ensemble 3 -o r --resume
ok "without --resume it is replaced" train "${options[@]}" --ensemble 2 -o r
check "it was trained" grep -q '^trial     2 of 2' err
# A run that was stopped is not for another one to end.
stop() { # OPTIONS...: SIGTERM once it has begun
    rm -f s s.*
    "$wisp" train "${options[@]}" --epochs 4000 --patience 0 "$@" -o s >out 2>err </dev/null &
    pid=$!
    until [ -e s.state ] || [ -e s.0.state ]; do kill -0 $pid 2>/dev/null || break; done
    kill -9 $pid
    wait $pid 2>/dev/null
}
stop
check "one net was stopped" [ -e s.state ]
cp s.state kept
refuse "an ensemble is another run" 4 "s.state: belongs to a run of one model that was stopped; give its options to go on with it, or train without --resume" train "${options[@]}" --ensemble 2 -o s --resume
same "the checkpoint is left alone" s.state kept
stop --ensemble 2
check "an ensemble was stopped" [ -e s.0.state ]
refuse "other options are another run" 4 "s.tried: belongs to another run of several models that was stopped" train "${options[@]}" --epochs 4000 --patience 0 --ensemble 3 -o s --resume
refuse "one net is another run" 4 "s.tried: belongs to a run of several models that was stopped; give its options to go on with it, or train without --resume" train "${options[@]}" -o s --resume
ok "one net, anew" train "${options[@]}" -o s
check "nothing of the ensemble is left" [ "$(echo s*)" = s ]
ok "it is finished" train "${options[@]}" -o s --resume
check "and says so" grep -q 'the run is finished' err
echo hello >s.0
ok "whatever lies beside it" train "${options[@]}" -o s --resume
stop
ok "an ensemble, anew, over one net that was stopped" train "${options[@]}" --ensemble 2 -o s
check "nothing of the net is left" [ "$(echo s*)" = s ]
kill_at '^trial' 3 train "${options[@]}" --ensemble 3 -o s
check "several trials were left" [ -e s.1 ]
ok "several, anew" train "${options[@]}" --ensemble 2 -o s
check "no checkpoint of a trial is left" [ "$(echo s*)" = s ]
refuse "a net that is none" 2 "there is no layer 'dens'" train "${options[@]:0:1}" --ensemble 2 --net "dens 3" -o f
check "leaves nothing" [ "$(echo f*)" != "f.tried" ]
ok "tune" tune S_train.txt --holdout 0.2 --seed 5 --budget 1s -o t
refuse "another tune beside its list" 4 "t: (belongs to another run|was trained on other data)" tune S_train.txt --holdout 0.3 --seed 5 --budget 1s -o t --resume
rm -f s s.*

ok "options of a search, for an ensemble" train "${options[@]}" --ensemble 2 -o e --budget 1s --effort high
check "are said to be unused" grep -q '^unused    --budget, --effort: options of --net auto' err
ok "and for a net" train "${options[@]}" -o e --budget 1s --cost 3 --tried list
check "likewise" grep -q '^unused    --cost, --budget, --tried: options of linear models, or of --net auto; this is a net$' err

# Many labels: sparse prediction.
"$wisp" synth W --rows 1500 --features 400 --labels 6000 --row-features 10 --test-rows 200 --seed 5 >out 2>err || bad synth "the wide set was not made"
ok "many labels" train W_train.txt --hidden 16 --epochs 2 --ensemble 2 -o w
ok "sparse prediction" eval w W_test.txt --inference sparse --json
judge "scores few labels" '0 < d["scored_mean"] < 3000 and d["p@1"] > 0.8 * d["exact_p@1"]'

# Text from Python and from the command.
printf '__label__a red apple\n__label__b blue sky\n__label__a apple pie\n__label__b sky high\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 >t.txt
ok "text" train t.txt --hidden 8 --epochs 8 --ensemble 2 -o t
printf 'an apple\nthe sky\n' >lines
"$wisp" predict t lines -k 1 >out 2>err
check "names" grep -q '^a:' <(head -n 1 out)

# Smaller weights: of every member.
ok "a linear model and a net" train "${options[@]}" --net linear+net -o pair
for model in m pair; do
    ok "$model: exact" eval $model S_test.txt --json
    cp out exact.json
    if [ $model = pair ]; then # 40 labels: the linear member names all of them
        ok "pair: by the linear member" eval pair S_test.txt --inference sparse --json
        judge "pair: answers as exact prediction does" 'd["p@5"] == d["exact_p@5"] and d["recall@5"] == 1 and d["scored_mean"] == 40'
    else
        refuse "m: nothing names labels" 2 "the model has no index; train it with --index yes$" eval m S_test.txt --inference sparse
    fi
    for type in bf16 int8; do
        ok "$model: $type" convert $model q --quantize $type
        check "$model: $type is smaller" [ "$(stat -c %s q)" -lt "$(stat -c %s $model)" ]
        ok "$model: $type predicts" eval q S_test.txt --json
        check "$model: $type ranks alike" /usr/bin/python3 -c '
import json
a, b = json.load(open("exact.json")), json.load(open("out"))
assert b["weight_bytes"] < 0.75 * a["weight_bytes"], (a["weight_bytes"], b["weight_bytes"])
assert abs(a["p@5"] - b["p@5"]) < 1, (a["p@5"], b["p@5"])'
    done
    refuse "$model: twice the same" 2 "is I8 already" convert q q2 --quantize int8
done
# Votes may be the linear member's alone, whichever member is first.
ok "a linear model by votes, and a net" train "${options[@]}" --net linear+net --negatives votes --index no -o voted
ok "evaluates" eval voted S_test.txt --inference sparse
for model in m pair voted; do
    ok "bench predict: $model" bench predict $model S_test.txt --seconds 0.01
    check "bench predict: $model: no net's width" not grep -q width out
done
refuse "a linear member has no clusters" 2 "found a linear model, which becomes bf16 or int8" convert pair q2 --quantize c64
ok "nets have" convert m q2 --quantize c16
ok "and predict" eval q2 S_test.txt
for type in bf16 int8 c64 c16; do
    ok "nets in $type" convert m q2 --quantize $type
    ok "are gone on from" train S_train.txt --init q2 -o on --epochs 1 --lr 1e-9 --optimizer sgd
    check "and say nearly the same" /usr/bin/python3 -c '
import subprocess, sys
a, b = ([[p.split(":") for p in l.split()] for l in subprocess.run([sys.argv[1], "predict", m, "S_test.txt", "--scores", "raw"], capture_output=True, text=True, check=True).stdout.splitlines()] for m in ("q2", "on"))
assert sum(p[0][0] == q[0][0] for p, q in zip(a, b)) > 390' "$wisp"
done

# Nets on a card, the linear model beside them on processors: that there is no card is said before anything is trained.
if ! "$wisp" info --json | grep -q '"cuda"'; then
    for net in linear+net auto; do
        refuse "$net without a card" 2 "device cuda" train S_train.txt --net $net --device cuda -o n
        check "$net without a card: nothing was trained" [ "$(grep -c '^trial' out err | tr -d '\n')" = "out:0err:0" ]
    done
fi

# What one model alone can do.
refuse "no card" 2 "device cuda: found a joint model, expected a net" predict m S_test.txt --device cuda
refuse "no plan" 2 "found a joint model, expected a net" inspect m --plan
refuse "no errors" 2 "found a joint model, expected a net" inject m --rate 1e-3 -o n
refuse "no pruning" 2 "found a joint model, expected a net" prune S_train.txt --init m -o n
refuse "no weights for PyTorch" 2 "found a joint model, expected a net" convert m q.safetensors
refuse "a net called joint" 2 "use --ensemble" train S_train.txt --net joint -o n
refuse "too many" 2 "ensemble" train S_train.txt --ensemble 17 -o n
end
