#!/usr/bin/env bash
# What predict prints: how many labels with a threshold, TSV, -o FILE, names that would move a terminal; names of a model.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
quick=(--hidden 16 --epochs 1 --batch 64)
synth P --rows 300 --features 200 --labels 40 --row-features 20
for i in $(seq 0 39); do printf 'a name:%d, no %d\n' "$i" "$i"; done >names.txt
ok "train" train P_train.txt -o m "${quick[@]}" --labels names.txt
ok "-k 40" predict m P_test.txt -k 40 --json
cp out all
rows=$(wc -l <out)

# ---- --threshold without -k: all labels above it, however many (U9) ----
for t in 0.001 0.02 0.1; do
    ok "--threshold $t" predict m P_test.txt --threshold $t --json
    check "--threshold $t gives all labels above it" /usr/bin/python3 -c '
import json, sys
t, most = float(sys.argv[1]), 0
for whole, some in zip(open("all"), open("out"), strict=True):
    whole, some = (json.loads(x)["labels"] for x in (whole, some))
    assert some == [l for l in whole if l["score"] >= t], (whole, some)
    most = max(most, len(some))
assert most > 5, most' $t
done
ok "--threshold with -k 3" predict m P_test.txt --threshold 0.001 -k 3 --json
check "-k cuts" /usr/bin/python3 -c '
import json
assert all(len(json.loads(x)["labels"]) == 3 for x in open("out"))'
ok "--threshold 0" predict m P_test.txt --threshold 0 --json
same "--threshold 0 gives all labels, as -k 40 does" out all
printf 'threshold = 0\n' >options
ok "--threshold 0 of a file of options" predict m P_test.txt --config options --json
same "--threshold 0 of a file of options gives all labels" out all
ok "neither" predict m P_test.txt --json
cp out few
check "neither gives 5" /usr/bin/python3 -c '
import json
assert all(len(json.loads(x)["labels"]) == 5 for x in open("few"))'
ok "--threshold 0 with -k 5" predict m P_test.txt --threshold 0 -k 5 --json
same "-k cuts what --threshold 0 gives" out few
synth W --rows 300 --features 300 --labels 1500 --row-features 20 --test-rows 9
ok "train with many labels" train W_train.txt -o wide "${quick[@]}" --loss bce --sampling full
ok "more labels than the first two steps of k have" predict wide W_test.txt --threshold 0.0000001 --scores raw
check "all 1500 labels of each row" [ "$(tr ' ' '\n' <out | grep -c :)" = 13500 ]
"$wisp" predict wide - --threshold 0.0000001 --scores raw <<<'0 5:1 7:1' >out 2>err
check "all 1500 labels of a line of stdin" [ "$(tr ' ' '\n' <out | grep -c :)" = 1500 ]

# ---- --tsv: a form that can be cut (U22) ----
ok "--tsv" predict m P_test.txt -k 3 --tsv
check "--tsv: row, rank, name, score" /usr/bin/python3 -c '
import json
want = [(row, rank, l["name"], l["score"]) for row, line in enumerate(open("all"), 1) for rank, l in enumerate(json.loads(line)["labels"][:3], 1)]
got = [line.rstrip("\n").split("\t") for line in open("out")]
assert [(int(a), int(b), c, float(d)) for a, b, c, d in got] == want, (got[:3], want[:3])'
check "--tsv can be cut" [ "$(cut -f3 out | grep -cE '^a name:([0-9]+), no \1$')" = $((3 * rows)) ]
cp out tsv
sed 1d P_test.txt >rows
"$wisp" predict m - -k 3 --tsv <rows >out 2>err
same "--tsv from stdin counts rows, too" out tsv
refuse "--tsv and --json" 2 "take one of them" predict m P_test.txt --tsv --json

# ---- -o FILE (U39) ----
ok "-o" predict m P_test.txt -k 3 --tsv -o answers
check "-o: nothing on stdout" [ ! -s out ]
same "-o has the answers" answers tsv
refuse "-o in no folder" 5 "^wisp: -o: none/answers: cannot be written" predict m P_test.txt -o none/answers
"$wisp" predict m P_test.txt -o /dev/full >out 2>err
rc=$?
check "-o on a full disk" [ $rc = 5 ]

# ---- names that would move a terminal (F20) ----
printf 'esc\033[31m red\n' >odd.txt
for i in $(seq 1 39); do printf 'bell\007 %d \302\233\n' "$i"; done >>odd.txt
ok "train with odd names" train P_train.txt -o odd "${quick[@]}" --labels odd.txt
for form in "" --tsv; do
    # shellcheck disable=SC2086
    ok "odd names ${form:-lines}" predict odd P_test.txt -k 40 $form
    check "odd names ${form:-lines}: no control characters" not grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' out
    check "odd names ${form:-lines}: escaped" grep -qF 'esc\x1b[31m red' out
done

# ---- inspect --labels, --vocab (U24) ----
ok "inspect --labels" inspect m --labels
same "inspect --labels: the names" out names.txt
refuse "inspect --vocab of a model without" 2 "m: the model has no names of features" inspect m --vocab
printf '__label__x some words\n__label__y other words\n' >t.txt
ok "train on text" train t.txt -o text "${quick[@]}" --chars 0
ok "inspect --vocab" inspect text --vocab
check "inspect --vocab: the words" [ "$(sort out | tr '\n' ' ')" = "other some words " ]
# ---- text converts to numbers with its names beside it (U24) ----
ok "convert text" convert t.txt n.svm
check "convert text: the names of labels" [ "$(cat n.svm.labels.txt)" = "$(printf 'x\ny')" ]
check "convert text: the words" [ "$(sort n.svm.vocab.txt | tr '\n' ' ')" = "other some words " ]
check "convert text: it is said" [ "$(grep -cE '^n.svm.(labels|vocab).txt: [23] names of (labels|features)' err)" = 2 ]
ok "train on the numbers" train n.svm -o numbers "${quick[@]}" --labels n.svm.labels.txt --vocab n.svm.vocab.txt
ok "inspect --vocab of it" inspect numbers --vocab
same "the same words" out n.svm.vocab.txt
ok "convert numbers" convert P_test.txt p.svm
check "convert numbers: no names" [ ! -e p.svm.labels.txt -a ! -e p.svm.vocab.txt ]

# ---- epoch lines: what is sampled, only when something is (U40); --quiet (U39) ----
ok "full" train P_train.txt -o f "${quick[@]}" --sampling full
check "full: no active, scored, recall" not grep -qE '^epoch.*(active|scored|recall)' err
ok "sampled" train P_train.txt -o f "${quick[@]}" --sampling random
check "sampled: active, scored, recall" grep -qE '^epoch.*active [0-9]+  scored [0-9]+  recall [0-9.]+$' err
ok "train --quiet" train P_train.txt -o f "${quick[@]}" --quiet --json
check "train --quiet says nothing" [ ! -s err ]
judge "train --quiet --json" "d['epochs'] == 1"
for line in "eval f P_test.txt" "predict f P_test.txt --threshold 0.5" "convert P_test.txt q.npz" "synth Q --rows 9 --features 9 --labels 3"; do
    # shellcheck disable=SC2086
    ok "$line --quiet" $line --quiet
    check "$line --quiet says nothing" [ ! -s err ]
done
refuse "--quiet still tells errors" 5 "none" eval f none --quiet
end
