#!/usr/bin/env bash
# Scores as probabilities: what training says, eval's figures against a plain computation, --threshold, --scores; models
# without a calibration.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 3000 --features 800 --labels 60 --row-features 20 --row-labels 3 --test-rows 1000
quick=(--hidden 64 --epochs 8 --lr 0.01 --dropout 0)
for loss in softmax bce; do
    ok "$loss: train" train P_train.txt -o $loss "${quick[@]}" --loss $loss --index yes --json
    cp out report
    check "$loss: training says it" grep -qE '^scores    calibrated: expected calibration error [0-9.]+ %, raw [0-9.]+$' err
    check "$loss: and of sparse prediction" grep -qE '^scores    calibrated \(--inference sparse\): expected' err
    judge "$loss: the report" '0 < d["valid_ece"] < d["valid_ece_raw"] and 0 < d["valid_ece_sparse"] < d["valid_ece_sparse_raw"] and d["calibration_seconds"] < d["seconds"]' report
    for how in exact sparse; do
        ok "$loss, $how: eval" eval $loss P_test.txt --json --inference $how
        cp out eval
        judge "$loss, $how: nearer to probabilities" 'd["calibrated"] == 1 and d["ece"] < d["ece_raw"] / 2 and d["ece"] < 5'
        for scores in calibrated raw; do
            # of sparse prediction eval looks at as many labels as its cut-offs ask for
            ok "$loss, $how, $scores: predict" predict $loss P_test.txt --json -k $([ $how = exact ] && echo 64 || echo 5) --inference $how --scores $scores
            cp out $scores.json
            /usr/bin/python3 "$root/tests/golden/scores.py" P_test.txt <out >plain
            check "$loss, $how, $scores: eval's figures are those of the plain computation" /usr/bin/python3 -c '
import json, sys
e, p = (json.loads(open(f).read()) for f in ("eval", "plain"))
for k in p: assert abs(e[k + sys.argv[1]] - p[k]) < 1e-3, (k, e, p)' "$([ $scores = raw ] && echo _raw)"
        done
        check "$loss, $how: labels and their order are the same" cmp <(sed 's/"score":[^}]*//g' calibrated.json) <(sed 's/"score":[^}]*//g' raw.json)
        check "$loss, $how: scores fall along a row" /usr/bin/python3 -c '
import json
for line in open("calibrated.json"):
    s = [l["score"] for l in json.loads(line)["labels"]]
    assert s == sorted(s, reverse=True) and 0 <= s[-1] and s[0] <= 1, s'
    done
    "$wisp" predict $loss P_test.txt --json >all 2>err
    ok "$loss: --threshold" predict $loss P_test.txt --json --threshold 0.5 -k 5
    check "$loss: --threshold takes calibrated scores" /usr/bin/python3 -c '
import json
n = 0
for whole, some in zip(open("all"), open("out"), strict=True):
    whole, some = (json.loads(x)["labels"] for x in (whole, some))
    assert some == [l for l in whole if l["score"] >= 0.5], (whole, some)
    n += len(some)
assert n > 500, n'
    check "$loss: nothing to say" [ ! -s err ]
done
ok "the table" eval softmax P_test.txt
check "the table has both" grep -qE '^scores, calibrated  ECE [0-9.]+; 0.5 or more: precision [0-9.]+, recall [0-9.]+, F1 [0-9.]+$' out
check "and raw" grep -qE '^scores, raw         ECE ' out
refuse "--scores cooked" 2 "scores: 'cooked'" predict softmax P_test.txt --scores cooked

# a model without: none held out
ok "no validation rows" train P_train.txt -o none "${quick[@]}" --holdout 0 --epochs 2
check "training says it" grep -qE '^scores    raw: there were no validation rows' err
ok "eval" eval none P_test.txt --json
judge "eval: raw" 'd["calibrated"] == 0 and d["ece"] == d["ece_raw"] and d["micro_f1"] == d["micro_f1_raw"]'
ok "eval says it" eval none P_test.txt
check "in words" grep -q 'no calibration: scores stay raw' out
ok "raw" predict none P_test.txt --scores raw --threshold 0.1
cp out raw
check "asked for: nothing to say" [ ! -s err ]
ok "calibrated" predict none P_test.txt --threshold 0.1
same "there is only one kind" out raw
check "a threshold on raw scores is mentioned" grep -q 'scores    the model has no calibration for --inference exact' err

# a smaller model keeps it
ok "quantize" convert softmax small --quantize int8
ok "eval" eval small P_test.txt --json
judge "it is still calibrated" 'd["calibrated"] == 1 and d["ece"] < d["ece_raw"] / 2'
end
