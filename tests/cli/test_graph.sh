#!/usr/bin/env bash
# wisp graph: what docs/graphs.md shows, graphs in both forms of files, training one, and what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
page=$root/docs/graphs.md
# The indented blocks of the page: 2 is the graph, 3 the rows, 4 what is printed.
block() { awk -v want="$1" '/^    /{ if (!in_block) n++; in_block = 1; if (n == want) print substr($0, 5); next } { in_block = 0 }' "$page"; }
block 2 >xor.txt
block 3 >rows.svm
block 4 >want
check "the page has a graph, rows and values" [ "$(wc -l <xor.txt) $(wc -l <rows.svm) $(wc -l <want)" = "10 4 4" ]
ok "the page's graph" graph run xor.txt rows.svm
check "gives the page's values" cmp out want
ok "as objects" graph run xor.txt rows.svm --json
check "one for each row" /usr/bin/python3 -c '
import json
v = [json.loads(l)["outputs"]["out"] for l in open("out")]
assert len(v) == 4 and [round(x, 3) for x in v] == [0, 1, 1, 0], v'
ok "with tabs" graph run xor.txt rows.svm --tsv --threads 1
check "row, node and value" [ "$(sed -n 3p out | cut -c1-10)" = "3	out	0.99" ]
"$wisp" graph run xor.txt - <rows.svm >out
check "the same values from stdin" cmp out want

printf '0\n1 1:1\n\n1 2:1\n0 1:1 2:1\n' >blank.svm
ok "a blank line" graph run xor.txt blank.svm
same "is a row" <(sed -n 1,2p want; sed -n 1p want; sed -n 3,4p want) out
ok "or is left out" graph run xor.txt blank.svm --blank-lines skip
same "if so asked" want out
printf '{"text":"y x","label":"a"}\n{"text":"x","label":"a"}\n' >words.jsonl
refuse "words are no inputs" 3 "words.jsonl: found text, expected rows of numbers: feature i is input i of xor.txt" graph run xor.txt words.jsonl
echo '1 7000000:1' >far.svm
refuse "nor are features made compact" 3 "far.svm: features far beyond the 2 inputs of xor.txt" graph run xor.txt far.svm

ok "what is in it" graph info xor.txt
check "in words" grep -q "4 nodes, of which 2 inputs and 1 output; 5 edges" out
ok "what is in it, as JSON" graph info xor.txt --json
check "in numbers" /usr/bin/python3 -c '
import json
r = json.load(open("out"))
assert (r["nodes"], r["inputs"], r["outputs"], r["edges"], r["levels"], r["longest_path"], r["idle"]) == (4, 2, 1, 5, 2, 2, 0), r
assert r["widths"] == [1, 1] and r["functions"] == {"sigmoid": 2}, r'

# The same net as a matrix, without biases: nodes 1 and 2 are inputs, 3 is between, 4 the output.
printf '%%%%MatrixMarket matrix coordinate real general\n4 4 5\n3 1 20\n3 2 20\n4 1 2\n4 2 2\n4 3 -1\n' >net.mtx
ok "a matrix" graph run net.mtx rows.svm --function tanh
check "its values" [ "$(tr '\n' ' ' <out)" = "4:0 4:1 4:1 4:3 " ]
ok "another function" graph run net.mtx rows.svm
check "other values" [ "$(tr '\n' ' ' <out)" = "4:0 4:-18 4:-18 4:-36 " ]

# A graph that has to learn: exclusive or, which no sum of x and y is.
cat >start.txt <<'P'
input x y
node wave sin 0.3
node bump gauss -0.4
node bend tanh 0.1
node top identity
x wave 0.7
y wave 0.6
x bump 0.5
y bump 0.8
x bend -0.4
wave bend 0.9
bump top 1
bend top 0.5
y top 0.2
output top bump bend
P
for _ in $(seq 50); do cat rows.svm; done >many.svm
train=(train many.svm --net "dag file=start.txt" --values raw --epochs 80 --lr 0.05 --holdout 0 --seed 1)
ok "training" "${train[@]}" -o m --threads 2
ok "on one thread" "${train[@]}" -o m1 --threads 1
check "the same bytes" cmp m m1
rm start.txt
ok "predicting without the file" predict m rows.svm -k 1
check "has learnt it" [ "$(cut -c1 out | tr -d '\n')" = 0110 ]
ok "a model with a graph" inspect m --json

# Other layers become smaller; the graph stays, whether its file is there or not.
synth S --rows 1500 --features 30 --labels 5 --row-features 8 --row-labels 1 --test-rows 200 --seed 4 >/dev/null
/usr/bin/python3 - <<'P' >wide.txt
import random
random.seed(3)
names = [f"i{k}" for k in range(30)]
print("input", *names)
for k in range(40):
    print(f"node h{k} {random.choice(['tanh', 'relu', 'sin', 'gauss', 'abs'])} {random.uniform(-.3, .3):.3f}")
    for s in random.sample(names, 5):
        print(s, f"h{k} {random.uniform(-.6, .6):.3f}")
    names.append(f"h{k}")
print("output", *names[-25:])
P
ok "a smaller net behind a graph" prune S_train.txt --net "dag file=wide.txt, dense 64, relu" -o small --epochs 4 --seed 1 --threads 2 --json
check "is smaller" /usr/bin/python3 -c '
import json
assert json.loads(open("out").read().splitlines()[-1])["weights_ratio"] > 1.5'
ok "its P@1" eval small S_test.txt --json
cp out before
rm wide.txt
ok "and without the file" eval small S_test.txt --json
check "the same" /usr/bin/python3 -c '
import json
a, b = (json.load(open(f)) for f in ("before", "out"))
assert a["p@1"] == b["p@1"] > 40, (a["p@1"], b["p@1"])'

refuse "nothing to do" 2 "expected 'info' or 'run' first" graph
refuse "another part" 2 "expected 'info' or 'run' first, found 'runs'" graph runs xor.txt
refuse "no data" 2 "run: the data is missing" graph run xor.txt
refuse "too many files" 2 "info: one file too many: 'rows.svm'" graph info xor.txt rows.svm
refuse "two forms at once" 2 "expected one of them" graph run xor.txt rows.svm --json --tsv
refuse "no such file" 5 "none: cannot be opened" graph info none
refuse "functions twice" 2 "leave out 'function'" graph info xor.txt --function relu
printf 'input a\nnode b relu\nnode c relu\na b 1\nb c 1\nc b 1\noutput c\n' >cycle.txt
refuse "a cycle" 3 "a cycle of 2 nodes: c -> b -> c" graph info cycle.txt
printf 'input a\nnode b relu\na b 1e30\noutput b\n' >large.txt
printf '0 1:1e30\n' >large.svm
refuse "an infinite value" 7 "row 1: the value of output 'b' is inf" graph run large.txt large.svm
refuse "more features than inputs" 2 "the rows have 2 features, but large.txt has 1 inputs" graph run large.txt rows.svm
refuse "training: another number of inputs" 2 "large.txt: 1 input nodes, but 2 features in the data" train rows.svm --net "dag file=large.txt" -o x
printf 'input a b\nnode c step\na c 1\noutput c\n' >step.txt
refuse "a function that cannot learn" 2 "node 'c' has the function 'step'" train rows.svm --net "dag file=step.txt" -o x
ok "which can be run" graph run step.txt rows.svm
check "as it is" [ "$(tr '\n' ' ' <out)" = "c:0 c:1 c:0 c:1 " ]
end
