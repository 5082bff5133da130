#!/usr/bin/env bash
# Using a model: eval, predict from files and from stdin, inspect, info.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 1000 --features 800 --labels 60 --row-features 30
for i in $(seq 0 59); do echo "Name of $i \"q\" \\ é"; done >names.txt
quick=(--hidden 64 --epochs 12 --lr 0.01 --dropout 0 --loss softmax)
ok "train" train P_train.txt -o m "${quick[@]}"
ok "train with names" train P_train.txt -o named "${quick[@]}" --labels names.txt
rows=$(($(wc -l <P_test.txt) - 1))
sed 1d P_test.txt >lines # without the header

# eval
ok "eval" eval m P_test.txt
for word in P R nDCG PSP 'P head' 'P middle' 'P tail'; do check "the table has $word" grep -qE "^$word +[0-9]" out; done
check "the table has its cut-offs" grep -qE '@1 +@3 +@5$' out
ok "eval --json" eval m P_test.txt --json
cp out json
check "one line" [ "$(wc -l <out)" = 1 ]
judge "its keys" 'list(d) == ["%s@%d" % (w, k) for w in ("p", "r", "ndcg", "psp") for k in (1, 3, 5)] + ["p@%d_%s" % (k, g) for g in ("head", "middle", "tail") for k in (1, 3, 5)] + [w + raw for raw in ("_raw", "") for w in ("ece", "micro_precision", "micro_recall", "micro_f1")] + ["macro_precision", "macro_recall", "macro_f1", "macro_labels", "rows_cut", "calibrated", "rows", "rows_unlabelled", "seconds", "weight_bytes"]'
judge "percentages" 'all(0 <= v <= 100.0001 for k, v in d.items() if "@" in k)'
judge "rows" "d['rows'] == $rows and d['rows_unlabelled'] == 0"
judge "P falls, R rises with k" 'd["p@1"] >= d["p@3"] >= d["p@5"] and d["r@1"] <= d["r@3"] <= d["r@5"]'
judge "the groups sum to the whole, at most" 'd["ndcg@1"] == d["p@1"]'
ok "eval of the training rows" eval m P_train.txt --json
judge "far above chance (one of 60 labels, some 5 per row)" 'd["p@1"] > 50'
ok "eval --k" eval m P_test.txt --json --k 10,1
judge "--k 10,1: its keys, in order" '[k for k in d if k[:2] == "p@" and "_" not in k] == ["p@1", "p@10"]'
check "--k does not change P@1" /usr/bin/python3 -c '
import json
a, b = (json.loads(open(f).read()) for f in ("json", "out"))
assert all(a[k] == b[k] for k in ("p@1", "r@1", "ndcg@1", "psp@1", "rows")), (a, b)'
ok "eval -k" eval m P_test.txt -k 1000
ok "eval --propensity" eval m P_test.txt --json --propensity 0.5,0.4
check "--propensity changes psp, and nothing else" /usr/bin/python3 -c '
import json
a, b = (json.loads(open(f).read()) for f in ("json", "out"))
for k in a:
    if k != "seconds": assert (a[k] != b[k]) == k.startswith("psp"), k'
for v in 0 1.5 x 1,,2 -1 10001 1,x nan 1,1; do refuse "eval --k $v" 2 "k: " eval m P_test.txt "--k=$v"; done
for v in 1 1,2,3 a,b -1,1 1,-1 1,0 nan,1 ""; do refuse "eval --propensity '$v'" 2 "propensity" eval m P_test.txt "--propensity=$v"; done
printf '3 800 60\n1 0:1\n 1:1\n2 2:1\n' >some.txt
ok "eval with an unlabelled row" eval m some.txt --json
judge "it is counted" 'd["rows"] == 3 and d["rows_unlabelled"] == 1'
for n in 1 2 4; do
    "$wisp" eval m P_test.txt --json --threads $n 2>err | sed 's/,"seconds.*//' >eval$n
    "$wisp" predict m P_test.txt --threads $n >predict$n 2>err
done
check "eval: the same for any number of threads" [ -s eval1 -a "$(cat eval1)" = "$(cat eval2)" -a "$(cat eval1)" = "$(cat eval4)" ]
same "predict: 2 threads as 1" predict1 predict2
same "predict: 4 threads as 1" predict1 predict4

# predict; scores as probabilities: test_scores.sh
ok "predict --scores raw" predict m P_test.txt --scores raw
check "raw scores of a softmax are shares" /usr/bin/python3 -c '
for line in open("out"): assert sum(float(p.rsplit(":", 1)[1]) for p in line.split()) <= 1.001, line'
ok "predict" predict m P_test.txt
cp out file
check "one line per row" [ "$(wc -l <out)" = "$rows" ]
check "five labels per line, best first" /usr/bin/python3 -c '
for line in open("out"):
    pairs = [p.rsplit(":", 1) for p in line.split()]
    s = [float(v) for _, v in pairs]
    assert len(s) == 5 and s == sorted(s, reverse=True) and 0 <= min(s) and max(s) <= 1 and all(0 <= int(l) < 60 for l, _ in pairs), line'
"$wisp" predict m - <lines >out 2>err
rc=$?
same "stdin as the file" out file
head -c -1 lines | "$wisp" predict m - >out 2>err
rc=$?
same "stdin without the last newline" out file
sed 's/$/\r/' lines | "$wisp" predict m - >out 2>err
rc=$?
same "stdin with CRLF" out file
"$wisp" predict m - </dev/null >out 2>err
rc=$?
check "empty stdin: nothing, and no error" [ $rc = 0 -a ! -s out ]
"$wisp" predict m - <. >out 2>err
rc=$?
check "stdin that cannot be read" [ $rc = 5 ]
sed 's/^[^ ]*//' lines | "$wisp" predict m - >out 2>err
rc=$?
same "rows without labels" out file
ok "-k 2" predict m P_test.txt -k 2
check "-k 2: the first two of five" [ "$(cat out)" = "$(cut -d' ' -f1-2 file)" ]
ok "--k=2" predict m P_test.txt --k=2
check "--k=2 is -k 2" [ "$(cat out)" = "$(cut -d' ' -f1-2 file)" ]
ok "-k 9999" predict m P_test.txt -k 9999
check "-k above the labels: all of them" [ "$(head -n 1 out | wc -w)" = 60 ]
for v in 0 -1 x 1,3 1.5 10001; do refuse "predict -k $v" 2 "-k" predict m P_test.txt -k "$v"; done
ok "--threshold" predict m P_test.txt --threshold 0.2
cp out above
ok "-k 60" predict m P_test.txt -k 60
check "--threshold: all labels above it" /usr/bin/python3 -c '
for whole, some in zip(open("out"), open("above"), strict=True):
    whole, some = whole.split(), some.split()
    assert some == whole[:len(some)], (whole, some)
    assert all(float(p.split(":")[1]) >= 0.2 for p in some) and all(float(p.split(":")[1]) <= 0.2 for p in whole[len(some):]), some'
ok "a bce model" train P_train.txt -o each "${quick[@]}" --loss bce
ok "a bce model predicts" predict each P_train.txt -k 60
check "its scores are of each label alone" /usr/bin/python3 -c '
sums = [sum(float(p.split(":")[1]) for p in line.split()) for line in open("out")]
assert max(sums) > 1.5 and 3 < sum(sums) / len(sums) < 8, sums[:9]'
ok "--threshold 1" predict m P_test.txt --threshold 1
check "--threshold 1: one empty line per row" [ "$(wc -l <out)" = "$rows" ]
ok "--json" predict m P_test.txt --json
check "--json: an object a row, as the text says" /usr/bin/python3 -c '
import json
for row, line in zip(open("out"), open("file"), strict=True):
    d = json.loads(row)
    assert " ".join("%d:%.4f" % (l["label"], l["score"]) for l in d["labels"]).split(":")[0] == line.split(":")[0]
    assert len(d["labels"]) == 5 and all(set(l) == {"label", "score"} for l in d["labels"])'
ok "names" predict named P_test.txt -k 1
check "names stand for numbers" /usr/bin/python3 -c '
names = open("names.txt", encoding="utf8").read().splitlines()
for line, plain in zip(open("out", encoding="utf8"), open("file"), strict=True):
    label, score = plain.split()[0].split(":")
    assert line == "%s:%s\n" % (names[int(label)], score), line'
ok "names in --json" predict named P_test.txt -k 3 --json
check "names in --json are whole" /usr/bin/python3 -c '
import json
names = open("names.txt", encoding="utf8").read().splitlines()
for row in open("out", encoding="utf8"):
    for l in json.loads(row)["labels"]: assert l["name"] == names[l["label"]], l'
head -n 59 names.txt >few.txt
refuse "too few names" 2 "few.txt: has 59 names.*60 labels" train P_train.txt -o x --labels few.txt

# odd rows: features the model does not know, none at all
printf '0 5:1 799:1\n0 5:1 799:1 800:3 2000000:1\n\n7\n0 5:1\n' | "$wisp" predict m - >out 2>err
rc=$?
check "odd rows: all answered" [ "$(grep -c ' .*:' out)" = 5 ]
check "unknown features change nothing" [ "$(sed -n 1p out)" = "$(sed -n 2p out)" ]
check "unknown features are counted" grep -qE 'left out 2 feature values that the model does not know' err
check "an empty row is a row without features" [ "$(sed -n 3p out)" = "$(sed -n 4p out)" ]
# a bad line: the rows before it are answered, it is named, nothing follows
for at in 1 2 7; do
    { head -n $((at - 1)) lines; echo "1 oops"; head -n 5 lines; } | "$wisp" predict m - >out 2>err
    rc=$?
    check "bad line $at: exit code" [ $rc = 3 ]
    check "bad line $at: named" grep -q "stdin:$at: .*oops" err
    check "bad line $at: those before it are answered" cmp out <(head -n $((at - 1)) file)
done

# a line without end: time in proportion to its bytes (a search from its beginning at each read would take minutes)
/usr/bin/python3 -c '
import sys
for i in range(64): sys.stdout.write(" 5:1" * (1 << 18))' | timeout 10 "$wisp" predict m - -k 1 >out 2>err
rc=$?
check "a line of 64 MB" [ $rc = 0 -a "$(wc -l <out)" = 1 ]
# names that are no UTF-8: cut characters, surrogates, forms too long, beyond U+10FFFF
/usr/bin/python3 -c '
import sys
odd = [b"a\xffb", b"caf\xe9", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82", "\u20ac \U0001f600 \ud7ff".encode()]
sys.stdout.buffer.write(b"\n".join(odd[i % 8] for i in range(60)))' >odd.txt
ok "train with odd names" train P_train.txt -o odd "${quick[@]}" --epochs 1 --labels odd.txt
ok "odd names in --json" predict odd P_test.txt -k 60 --json
check "odd names in --json: UTF-8, bad bytes as U+FFFD" /usr/bin/python3 -c '
import json
want = ["a\ufffdb", "caf\ufffd", "\ufffd", "\ufffd" * 3, "\ufffd" * 2, "\ufffd" * 4, "\ufffd" * 2, "\u20ac \U0001f600 \ud7ff"]
for line in open("out", "rb"):
    for l in json.loads(line.decode("utf8"))["labels"]: assert l["name"] == want[l["label"] % 8], l'

# streaming: an answer comes before stdin is closed
mkfifo in back
"$wisp" predict m - <in >back 2>err &
pid=$!
exec 3>in 4<back
for i in 1 2 3; do
    sed -n ${i}p lines >&3
    answer=
    read -r -t 20 answer <&4
    check "a line sent, a line answered: $i" [ "$answer" = "$(sed -n ${i}p file)" ]
done
sed -n 4p lines | head -c 20 >&3 # a line in two parts
sleep 0.1
sed -n 4p lines | tail -c +21 >&3
read -r -t 20 answer <&4
check "a line sent in parts" [ "$answer" = "$(sed -n 4p file)" ]
echo "bad:line here" >&3
exec 3>&-
wait $pid
rc=$?
check "a bad line later on: exit code" [ $rc = 3 ]
check "a bad line later on: named" grep -q 'stdin:5: ' err
exec 4<&-

# inspect, info
ok "inspect" inspect named
check "inspect says what it is" grep -qE '^net +input 64' out
ok "inspect --json" inspect named --json
judge "inspect --json" 'int(d["features"]) == 800 and int(d["labels"]) == 60 and any(t["name"] == "labels" for t in d["tensors"])'
ok "info" info
ok "info --json" info --json
judge "info --json" 'd["version"] and "scalar" in d["kernels"] and {"xc", "libsvm", "fasttext", "npz"} <= set(d["formats"]) and {"adam", "adagrad", "sgd"} <= set(d["optimizers"]) and {"fp32", "bf16"} <= set(d["precisions"])'
end
