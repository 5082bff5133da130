#!/usr/bin/env bash
# --net auto, which is the default for rows of words and their like: when it is meant, what it leaves, kills, budgets, and wisp tune.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 900 --features 400 --labels 40 --row-features 10 --test-rows 400 --seed 4 >out 2>err || bad synth "the set was not made"
data=(S_train.txt --holdout 0.2 --seed 5)

ok "by default" train "${data[@]}" -o m --json
cp out m.json
cp err m.said
check "the plan comes first" grep -q '^auto      a linear model, then 3 nets; ' <(head -n 1 m.said)
judge "the report" 'd["tried"] >= 4 and d["kind"] in ("joint", "linear", "net") and d["valid_p@1"] > 0' m.json
check "nothing else is left" [ "$(echo m*)" = "m m.json m.said" ]
check "the linear model learns the held-out rows at the end" grep -q '^trial .*: linear, all rows$' m.said
ok "it is described" inspect m --json
judge "what was tried is in the card" 'd["card"]["tried"] >= 4 and d["card"]["trial_0"].startswith("linear; validation P@1") and "effort=normal" in d["options"]'
ok "predicts" predict m S_test.txt
ok "evaluates" eval m S_test.txt --json
cp out auto.json
for one in linear "input 512, relu, dropout 0.5"; do
    ok "alone: $one" train "${data[@]}" --net "$one" -o one
    ok "evaluates: $one" eval one S_test.txt --json
    check "not behind $one by more than noise" /usr/bin/python3 -c '
import json
a, b = json.load(open("auto.json")), json.load(open("out"))
assert a["p@5"] > b["p@5"] - 2, (a["p@5"], b["p@5"])'
done
# So are rows of words and their counts; too few of them are for a net.
/usr/bin/python3 - <<'PY'
import random
draw = random.Random(3)
with open("words", "w") as f:
    for _ in range(400):
        label = draw.randrange(20)
        words = [f"own{label}", f"more{label}"] + [f"any{draw.randrange(360)}" for _ in range(6)]
        f.write(f"__label__l{label} " + " ".join(draw.sample(words, 6)) + "\n")
PY
ok "words" train words --tokens blanks -o w --effort low
check "are tried by both kinds" grep -q '^auto      a linear model, then' err
check "as counts of words" grep -q 'values tfidf' err
ok "few rows of words" train <(head -n 150 words) --tokens blanks -o few --epochs 2
check "are for a net" not grep -q '^auto' err

ok "the same by name" train "${data[@]}" --net auto -o named
numbers m && numbers named
check "the same numbers" cmp m.numbers named.numbers
rm -f ./*.numbers

# When it is not meant: any option of a net, few rows, few or filled columns, images.
head -n 200 S_train.txt | tail -n 199 | sed '1i 199 400 40' >few.txt
head -n 201 S_train.txt | tail -n 200 | sed '1i 200 400 40' >enough.txt
"$wisp" synth N --rows 2500 --features 120 --labels 40 --row-features 10 --test-rows 10 --seed 4 >out 2>err || bad synth "the narrow set was not made"
/usr/bin/python3 -c '
import random
random.seed(1)
for i in range(2100): print(i % 3, *("%d:%.3f" % (j + 1, random.gauss(i % 3, 1)) for j in range(30)))' >dense.svm
not_meant() { # NAME ARGS...
    ok "$1" train "${@:2}" --quiet -o n --note x
    run inspect n --json
    judge "$1: a net" 'd["net"].startswith("input")'
}
not_meant "an option of a net" S_train.txt --epochs 1
not_meant "another" S_train.txt --hidden 8 --epochs 1
not_meant "few rows" few.txt
not_meant "few features" N_train.txt
ok "rows enough to hold some out" train enough.txt -o n
check "there it is meant" grep -q '^auto      a linear model, then' err
not_meant "a table" dense.svm

# Weights of rows are the linear model's too, and where there are any nothing is chosen unasked.
yes 2 | head -n 900 >w.txt
for how in "--weights w.txt" "--class-weight balanced"; do
    read -ra weights <<<"$how"
    not_meant "rows with weights: $how" S_train.txt "${weights[@]}"
    ok "asked for: $how" train "${data[@]}" --net auto --effort low "${weights[@]}" -o weighted
    check "$how: every member has them" [ "$(grep -c '^rows .*(weighted)' err)" = "$(grep -c '^trial ' err)" ]
done

# --net linear+net, and efforts.
ok "linear+net" train "${data[@]}" --net linear+net --epochs 3 --hidden 16 -o pair
check "it says so" grep -q '^joint     2 members, one after the other: a linear model and 1 net; ' err
ok "with two nets" train "${data[@]}" --net linear+net --ensemble 2 --epochs 2 --hidden 16 -o pair
check "it says so" grep -q '^joint     3 members, one after the other: a linear model and 2 nets; ' err
ok "little effort" train "${data[@]}" --effort low -o low
check "one net" grep -q '^auto      a linear model, then 1 net; ' err
ok "what is said of nets" train "${data[@]}" --net auto --hidden 16 --epochs 2 --effort high -o said
run inspect said --json
judge "holds for all of them, and no other is tried" 'd["card"]["tried"] in (2, 3, 4, 5) and not any("net of" in str(v) for v in d["card"].values())'
refuse "a time that is none" 2 "budget: found '5 weeks', expected a time: 90s, 5m or 1.5h" train "${data[@]}" --budget "5 weeks" -o n

# Threads and kills.
for threads in 3; do
    ok "with $threads threads" train "${data[@]}" -o threads --threads $threads
    check "the same bytes with $threads threads" cmp m threads
done
killed m 'epoch +5/' 1 train "${data[@]}" --checkpoint-steps 40
killed m '^trial' 5 train "${data[@]}" --checkpoint-steps 40
ok "a finished run is finished" train "${data[@]}" -o m --resume
check "it says so" grep -q 'the run is finished' err

# wisp tune: what was tried, line by line; stopped by time; resumed.
ok "tune" tune "${data[@]}" -o t
cp out tried
check "lines of JSON" /usr/bin/python3 -c '
import json
d = [json.loads(line) for line in open("tried")]
assert d[0]["what"] == "linear" and len(d) >= 10 and [x["trial"] for x in d] == list(range(len(d))), d
assert sum(not x["member"] for x in d) == 6 and abs(sum(x["weight"] for x in d) - 1) < 1e-3, d
assert all((x["valid_p@1"] > 0 or x["what"].endswith("all rows")) and x["seconds"] > 0 for x in d), d'
check "nets share what the linear model has not" /usr/bin/python3 -c '
import json
d = [json.loads(line) for line in open("tried")]
kept = [x for x in d if x["member"] and x["weight"] > 0]
nets = [x["weight"] for x in kept if x["what"].startswith("net")]
linear = [x["weight"] for x in kept if x["what"].startswith("linear")]
assert len(nets) > 1 and len(linear) == 1 and max(nets) - min(nets) < 1e-3, d
assert abs(linear[0] - nets[0]) > 0.02, d'
check "the list is kept" cmp tried t.tried
# shapes NAME WANT: the nets that were looked at for a quarter of the epochs, as they were said
shapes() {
    sed -n 's/^trial .*: \(net.*\), seed 5, [0-9]* epochs$/\1/p' said | head -n 4 >shapes
    check "$1" diff shapes - <<<"$2"
}
sed 's/.*"what":"\([^"]*\)".*/trial : \1/' tried >said
shapes "shapes where labels are few" "net of 1024, dropout 0.7 and 0.1, rate 0.004
net of 2048, dropout 0.8 and 0.1, rate 0.004
net
net of 1024, dropout 0.6 and 0, rate 0.002"
"$wisp" synth L --rows 300 --features 400 --labels 4200 --row-features 10 --test-rows 4 --seed 4 >out 2>err || bad synth "the set of many labels was not made"
kill_at '^trial' 6 tune L_train.txt --holdout 0.2 --seed 5 -o many
cp err said
shapes "shapes where rows are few" "net of 512, dropout 0.5 and 0, rate 0.006
net
net of 1024, dropout 0.7 and 0, rate 0.006
net of 512, dropout 0.5 and 0, rate 0.003"
ok "a budget" tune "${data[@]}" --budget 1s -o b --tried some.jsonl
check "fewer were tried" [ "$(wc -l <some.jsonl)" -lt "$(wc -l <tried)" ]
check "the list is where it was asked for" [ ! -e b.tried ]
rm -f r r.*
kill_at '^trial' 6 tune "${data[@]}" -o r
ok "tune goes on" tune "${data[@]}" -o r --resume
check "what was tried is not tried again" grep -q '^resume    it was tried: ' err
numbers t && numbers r
check "the same model" cmp t.numbers r.numbers
# Time that was spent before a stop counts.
rm -f r r.*
kill_at '^trial' 4 tune "${data[@]}" --budget 10m --tried list -o r
known=$(wc -l <list)
sed -i '1s/"seconds":[0-9.]*/"seconds":100000/' list
ok "a budget that is spent" tune "${data[@]}" --budget 10m --tried list -o r --resume
check "no more nets are tried" [ "$(grep -c '"what":"net' list)" -le "$known" ]
refuse "no model to write" 2 "-o MODEL is missing" tune S_train.txt
end
