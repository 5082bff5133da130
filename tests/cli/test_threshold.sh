#!/usr/bin/env bash
# wisp threshold: what is chosen, kept and used; F1 of eval and tables of labels against a plain computation, and against
# scikit-learn where it is.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 3000 --features 800 --labels 60 --row-features 20 --row-labels 3 --test-rows 1200
ok "train" train P_train.txt -o m --hidden 64 --epochs 8 --lr 0.01 --dropout 0 --loss bce --index yes --quiet
{ echo "600 800 60"; sed -n 2,601p P_test.txt; } >valid.txt
{ echo "600 800 60"; sed -n 602,1201p P_test.txt; } >test.txt

# ---- choosing ----
ok "f1" threshold m valid.txt -o t --json
judge "f1: the report" 'd["for"] == "f1" and d["per"] == "label" and d["rows"] == 600 and d["labels"] == 60 and 0 < d["threshold_least"] <= d["threshold_median"] <= d["threshold_most"] < 1 and d["labels_never"] == 0'
judge "f1: better than 1/2, and the rows that it was fitted on say more than others do" 'd["macro_f1"] > d["half_macro_f1"] and d["same_rows_macro_f1"] >= d["macro_f1"]'
cp out f1
ok "again, with other threads" threshold m valid.txt -o again --json --threads 3
same "the same bytes" t again
ok "for a person" threshold m valid.txt -o t2 --for cost=1:4 --per one
check "for a person: a table, and where it is" grep -qE '^chosen, on rows held out( +[0-9.]+){5}$' out
check "for a person: the file" grep -q '^saved     t2$' out
ok "one" threshold m valid.txt -o one --per one --json
judge "one: all are alike" 'd["threshold_least"] == d["threshold_most"] and d["micro_f1"] >= d["half_micro_f1"] - 0.5'
ok "precision" threshold m valid.txt -o p --for precision=0.8 --per one --json
judge "precision: it is reached" 'd["same_rows_micro_precision"] >= 80 and d["micro_precision"] > 75'
ok "recall" threshold m valid.txt -o r --for recall=0.7 --per one --json
judge "recall: it is reached" 'd["same_rows_micro_recall"] >= 70 and d["micro_recall"] > 66'
ok "cost" threshold m valid.txt -o c --for cost=1:10 --json
judge "cost: less than at 1/2" 'd["cost"] < d["half_cost"]'
ok "a model with thresholds is taken like any other" threshold t valid.txt -o t3 --json
same "and gets the same again" t3 t
ok "inspect" inspect t --json
judge "inspect: what they were chosen for" 'd["threshold"]["for"] == "f1" and d["threshold"]["rows"] == 600'

# ---- using ----
ok "predict" predict t test.txt --threshold model --json
cp out some
ok "predict all" predict t test.txt -k 60 --json
cp out all
check "predict: each label by its own threshold" /usr/bin/python3 - <<'P'
import json, struct
b = open("t", "rb").read()
n = 8 + struct.unpack("<Q", b[:8])[0]
at = json.loads(b[8:n])["threshold"]["data_offsets"]
t = struct.unpack("<60f", b[n + at[0]:n + at[1]])
labels = 0
for whole, given in zip(open("all"), open("some"), strict=True):
    want = [l for l in json.loads(whole)["labels"] if l["score"] >= t[l["label"]] - 1e-6]
    got = json.loads(given)["labels"]
    assert [l["label"] for l in want] == [l["label"] for l in got], (want, got)
    labels += len(got)
assert labels > 300 and len(set(t)) > 3, (labels, len(set(t)))
P
ok "-k bounds it" predict t test.txt --threshold model -k 1 --json
judge "by one" 'len(d["labels"]) <= 1'
ok "a smaller model" convert t small --quantize int8
ok "keeps them" predict small test.txt --threshold model
refuse "no thresholds" 2 "has no thresholds" predict m test.txt --threshold model
refuse "raw scores" 2 "calibrated scores" predict t test.txt --threshold model --scores raw
refuse "another word" 2 "threshold: 'own' is not a number" predict t test.txt --threshold own
refuse "beyond 1" 2 "0\.\.1\|model" predict t test.txt --threshold 1.5

# ---- eval ----
ok "eval" eval t test.txt --json --per-label table.tsv
cp out said
cat >plain.py <<'P'
import json, sys
truth = []
for line in open("test.txt").read().splitlines()[1:]:
    first = line.split(" ")[0]
    truth.append({int(x) for x in first.split(",")} if first and ":" not in first else set())
rows = [json.loads(line)["labels"] for line in open(sys.argv[1])]
half = float(sys.argv[2]) if len(sys.argv) > 2 else 0
given = [{l["label"] for l in r if l["score"] >= half} for r in rows]
def figures(labels):
    out, sums = [], [0, 0, 0]
    for l in labels:
        tp = sum(l in g and l in t for g, t in zip(given, truth))
        fp = sum(l in g and l not in t for g, t in zip(given, truth))
        n = sum(l in t for t in truth)
        sums = [sums[0] + tp, sums[1] + fp, sums[2] + n]
        if tp + fp + n:
            out.append((tp / max(1, tp + fp), tp / max(1, n), 2 * tp / (tp + fp + n)))
    tp, fp, n = sums
    micro = (tp / max(1, tp + fp), tp / max(1, n), 2 * tp / max(1, tp + fp + n))
    return micro, tuple(sum(x[i] for x in out) / len(out) for i in range(3)), len(out)
micro, macro, n = figures(range(60))
names = ("precision", "recall", "f1")
print(json.dumps({**{f"micro_{k}": 100 * v for k, v in zip(names, micro)}, **{f"macro_{k}": 100 * v for k, v in zip(names, macro)}, "macro_labels": n}))
P
/usr/bin/python3 plain.py some >own.json
/usr/bin/python3 plain.py all 0.5 >half.json
check "eval at the model's thresholds is the plain computation" /usr/bin/python3 -c '
import json
said, own, half = (json.loads(open(f).read()) for f in ("said", "own.json", "half.json"))
for k in own: assert abs(said[k + "_model"] - own[k]) < 1e-3, (k, said[k + "_model"], own[k])
for k in half: assert abs(said[k] - half[k]) < 1e-3, (k, said[k], half[k])
assert said["rows_cut"] == 0'
ok "the table for a person" eval t test.txt
check "has micro and macro F1" grep -qE "^labels, at 0.5      micro precision [0-9.]+, recall [0-9.]+, F1 [0-9.]+; macro .* of [0-9]+ labels" out
check "and the model's own" grep -q "^labels, model" out
ok "eval without thresholds" eval m test.txt --json --per-label half.tsv
judge "has none of theirs" '"micro_f1_model" not in d and "macro_f1" in d'

# ---- one line for each label ----
check "the table of labels" /usr/bin/python3 - <<'P'
import json
lines = [l.split("\t") for l in open("table.tsv").read().splitlines()]
assert lines[0] == ["label", "training_rows", "rows", "predicted", "precision", "recall", "f1", "average_precision"], lines[0]
assert len(lines) == 61
said = json.loads(open("said").read())
there = [l for l in lines[1:] if int(l[2]) + int(l[3]) > 0]
assert len(there) == said["macro_labels_model"]
for i, key in ((4, "precision"), (5, "recall"), (6, "f1")):
    mean = sum(float(l[i]) for l in there) / len(there)
    assert abs(mean - said[f"macro_{key}_model"]) < 1e-2, (key, mean, said)
P
if /usr/bin/python3 -c 'import sklearn' 2>/dev/null; then sk=/usr/bin/python3
elif [ -x "${WISP_VENV:-/nonexistent}/bin/python" ] && "$WISP_VENV/bin/python" -c 'import sklearn' 2>/dev/null; then sk=$WISP_VENV/bin/python
else sk=; fi
if [ "$sk" ]; then
    check "scikit-learn says the same" "$sk" - <<'P'
import json
import numpy as np
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score
Y, G, S = (np.zeros((600, 60)) for _ in range(3))
for i, line in enumerate(open("test.txt").read().splitlines()[1:]):
    first = line.split(" ")[0]
    for l in first.split(",") if first and ":" not in first else ():
        Y[i, int(l)] = 1
for i, line in enumerate(open("some")):
    for l in json.loads(line)["labels"]:
        G[i, l["label"]] = 1
for i, line in enumerate(open("all")):
    for l in json.loads(line)["labels"]:
        S[i, l["label"]] = l["score"]
said = json.loads(open("said").read())
there = np.flatnonzero(Y.sum(0) + G.sum(0))
for average in ("micro", "macro"):
    for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        want = 100 * score(Y, G, average=average, labels=there if average == "macro" else None, zero_division=0)
        assert abs(said[f"{average}_{name}_model"] - want) < 1e-3, (average, name, said, want)
for l, line in enumerate(open("table.tsv").read().splitlines()[1:]):
    want = 100 * average_precision_score(Y[:, l], S[:, l]) if Y[:, l].any() else 0
    assert abs(float(line.split("\t")[7]) - want) < 0.5, (l, line, want)  # scores are printed with six digits
P
else skip "scikit-learn says the same" "scikit-learn is not here (WISP_VENV may name a virtual environment that has it)"; fi

# ---- what is refused ----
refuse "no -o" 2 "MODEL2 is missing" threshold m valid.txt
refuse "the model itself" 2 "would be overwritten" threshold m valid.txt -o m
refuse "another goal" 2 "expected f1, precision" threshold m valid.txt -o x --for f2
refuse "a precision beyond 1" 2 "a share above 0" threshold m valid.txt -o x --for precision=90
refuse "half a cost" 2 "cost=1:5" threshold m valid.txt -o x --for cost=3
refuse "per row" 2 "per: 'row'" threshold m valid.txt -o x --per row
check "nothing was written" [ ! -e x ]
{ echo "3 800 60"; sed -n 2,4p P_test.txt | sed 's/^[0-9,]* / /'; } >nolabels.txt
refuse "rows without labels" 2 "has a label that the model knows" threshold m nolabels.txt -o x
{ echo "1 800 60"; sed -n 2p P_test.txt; } >onerow.txt
refuse "one row" 2 "has a label that the model knows" threshold m onerow.txt -o x
refuse "a table that cannot be written" 5 "nofolder" eval t test.txt --per-label nofolder/x.tsv
refuse "a table over the data" 2 "would be overwritten" eval t test.txt --per-label test.txt
end
