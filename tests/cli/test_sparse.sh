#!/usr/bin/env bash
# Sparse prediction: the index in the model, 'eval' and 'predict' with --inference sparse, and what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
labels=2000 rows=300
synth S --rows 4000 --features 1500 --labels $labels --row-features 20 --row-labels 3 --test-rows $rows
train=(S_train.txt --epochs 4 --hidden 32 --batch 64 --lr 0.01 --sampling features+random)
ok "train --index yes" train "${train[@]}" -o m --index yes
ok "train --index no" train "${train[@]}" -o none --index no
ok "train, few labels" train "${train[@]}" -o auto
ok "inspect" inspect m --json
check "the index is in the file" grep -q '"votes.start"' out
ok "inspect the other" inspect none --json
check "no index is in the other" not grep -q 'votes[.]' out

# ---- eval ----

ok "eval, exact" eval m S_test.txt --json
cp out exact.json
judge "exact: nothing about sparse" "not any(k.startswith(('exact', 'recall', 'scored')) for k in d)"
ok "eval, sparse" eval m S_test.txt --inference sparse --json
cp out sparse.json
for k in 1 3 5; do
    judge "p@$k, exact_p@$k and recall@$k" "0 <= d['p@$k'] <= 100 and 0 <= d['exact_p@$k'] <= 100 and 0 < d['recall@$k'] <= 1"
done
judge "counts and times" "d['labels'] == $labels and d['rows'] == $rows and d['exact_seconds'] > 0 and d['seconds'] > 0"
judge "few rows are scored" "0 < d['scored_mean'] <= 256 + 0.001"
judge "nearly as good as exact" "d['p@1'] >= 0.9 * d['exact_p@1'] and d['exact_p@1'] > 5 and d['recall@1'] > 0.8"
check "exact is exact, however asked" /usr/bin/python3 -c '
import json
a, b = (json.load(open(f + ".json")) for f in ("exact", "sparse"))
for k in "135": assert a["p@" + k] == b["exact_p@" + k], (a, b)'
ok "eval, one thread" eval m S_test.txt --inference sparse --json --threads 1
check "the same for 1 thread" /usr/bin/python3 -c '
import json
a, b = json.load(open("sparse.json")), json.loads(open("out").read())
for d in a, b: del d["seconds"], d["exact_seconds"]
assert a == b, (a, b)'
ok "other cut-offs" eval m S_test.txt --inference sparse --json -k 2,400
judge "other cut-offs: more than candidates" "0 < d['recall@400'] <= 1 and d['scored_mean'] >= 400 and 'p@1' not in d"
ok "eval, in words" eval m S_test.txt --inference sparse
check "a line of exact precision" grep -qE '^P exact( +[0-9.]+){3}$' out
check "a line of recall" grep -qE '^recall( +[0-9.]+){3}$' out
check "a line of rows" grep -qE "^sparse: [0-9]+ of $labels rows scored \([0-9.]+ %\); exact prediction takes [0-9.]+ s$" out
ok "eval, exact, in words" eval m S_test.txt --inference exact
check "exact says nothing of sparse" not grep -qE 'sparse|^recall|exact' out

# ---- predict ----

ok "predict, exact" predict m S_test.txt --json
cp out exact.json
ok "predict, sparse" predict m S_test.txt --inference sparse --json
cp out sparse.json
check "every row answered, mostly as exact" /usr/bin/python3 -c '
import json, sys
a, b = ([[(x["label"], x["score"]) for x in json.loads(l)["labels"]] for l in open(f + ".json")] for f in ("exact", "sparse"))
assert len(a) == len(b) == int(sys.argv[1]), (len(a), len(b))
for r in a + b:
    assert len(r) == 5 == len({l for l, _ in r}) and r == sorted(r, key=lambda x: -x[1]), r
same = sum(x[0][0] == y[0][0] for x, y in zip(a, b)) / len(a)
assert same > 0.8, same' $rows
ok "predict, three threads" predict m S_test.txt --inference sparse --json --threads 3
same "the same for 3 threads" out sparse.json
tail -n +2 S_test.txt >rows.txt
"$wisp" predict m - --inference sparse --json --no-header <rows.txt >out 2>err
rc=$?
same "the same from stdin" out sparse.json
ok "as many answers as labels" predict m S_test.txt --inference sparse -k $labels
check "as many answers as labels: all are there" [ "$(awk '{ print NF }' out | sort -u)" = $labels ]
printf '2 1500 2000\n \n 1499:1\n' >odd.txt
ok "a row without features" predict m odd.txt --inference sparse -k 3
check "a row without features: answered" [ "$(awk 'NF == 3' out | wc -l)" = 2 ]

# ---- refused ----

no_index="^wisp: --inference sparse: the model has no index; train it with --index yes$"
for m in none auto; do
    refuse "eval without index: $m" 2 "$no_index" eval $m S_test.txt --inference sparse
    refuse "predict without index: $m" 2 "$no_index" predict $m S_test.txt --inference sparse
done
for command in eval predict; do
    refuse "$command: another value" 2 "--inference: 'fast' is not one of exact\|sparse" $command m S_test.txt --inference fast
    refuse "$command: no value" 2 "--inference" $command m S_test.txt --inference
done
refuse "train has no --inference" 2 "inference" train S_train.txt -o x --inference sparse
refuse "--index maybe" 2 "--index: 'maybe' is not one of auto\|no\|yes" train S_train.txt -o x --index maybe
end
