#!/usr/bin/env bash
# Raw text with labels (fastText style), from training to names in predictions; conversions between formats.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
/usr/bin/python3 - <<'P'
import random
random.seed(5)
topics = {"cats": "purr meow whiskers claws kitten", "dogs": "bark leash fetch puppy kennel",
          "naïve-ships": "sail anchor harbour deck mast", "stars": "orbit nova comet dwarf galaxy"}
common = "the a of and to in it is with".split()
def row(labels):
    words = [w for l in labels for w in random.sample(topics[l].split(), 3)] + random.sample(common, 4)
    random.shuffle(words)
    return " ".join(words)
for name, n in (("train.txt", 600), ("test.txt", 100)):
    with open(name, "w", encoding="utf8") as f, open("raw-" + name, "w", encoding="utf8") as raw:
        for i in range(n):
            labels = random.sample(sorted(topics), 1 + (i % 5 == 0))
            text = row(labels)
            f.write(" ".join("__label__" + l for l in labels) + " " + text + "\n")
            raw.write(text + "\n")
# order matters: only pairs of words tell these two apart
with open("order.txt", "w") as f:
    for i in range(600):
        a, b = random.sample(["red", "green", "blue", "grey"], 2)
        f.write("__label__%s %s %s\n" % ("up" if a < b else "down", a, b))
    f.write("__label__up onlyonce green grey\n")
P
quick=(--hidden 32 --epochs 15 --lr 0.02 --loss softmax --dropout 0)
ok "train" train train.txt -o m "${quick[@]}"
ok "eval" eval m test.txt --json
judge "it learns" 'd["p@1"] > 95'
ok "predict" predict m test.txt -k 1
cp out file
check "names without their prefix" /usr/bin/python3 -c '
hits = [any(l == "__label__" + p.rsplit(":", 1)[0].strip() for l in t.split()) for p, t in zip(open("out"), open("test.txt"), strict=True)]
assert sum(hits) > 95, sum(hits)'
"$wisp" predict m - -k 1 <raw-test.txt >out 2>err
rc=$?
same "raw lines without labels, from stdin" out file

# other files of text are read with the first one's ids
shuf --random-source=train.txt train.txt >shuffled.txt
ok "text to validate with" train train.txt -o v --valid shuffled.txt "${quick[@]}" --json
judge "it is read with the training text's ids" 'd["valid_p@1"] > 95'
ok "text to go on with" train shuffled.txt -o w --init m --epochs 1 --lr 1e-9 --valid test.txt --json
judge "it is read with the first model's ids" 'd["valid_p@1"] > 95'
ok "the model that went on" predict w test.txt -k 1
check "it has the names" grep -q '^cats:' out
"$wisp" predict w - -k 1 <raw-test.txt >again 2>err
same "and reads raw lines" again out
ok "raw lines without labels, from a file" predict m raw-test.txt -k 1
same "raw lines without labels, from a file: the same" out file
printf 'purr meow nonesuch whiskers\n\nzzz yyy\n' | "$wisp" predict m - -k 1 >out 2>err
rc=$?
check "unknown words" [ "$(wc -l <out)" = 3 ]
check "unknown words are dropped" grep -qE '^cats:' out
check "unknown words are counted" grep -qE 'left out' err
echo "kitten purr" | "$wisp" predict m - -k 1 --json >out 2>err
rc=$?
judge "a name in JSON" 'd["labels"][0]["name"] == "cats"'
for n in 1 2; do ok "train with $n threads" train train.txt -o t$n "${quick[@]}" --threads $n; done
same "the same bytes for any number of threads" t1 t2

ok "train without --pairs" train order.txt -o bag "${quick[@]}" --json
judge "a bag of words cannot tell" 'd["valid_p@1"] < 75'
ok "train with --pairs" train order.txt -o pairs "${quick[@]}" --pairs --chars 0 --min-count 1 --json
judge "pairs can" 'd["valid_p@1"] > 95'
printf 'blue red\nred blue\n' | "$wisp" predict pairs - -k 1 >out 2>err
rc=$?
check "the model keeps --pairs, stdin" [ "$(sed 's/:.*//' out | paste -sd' ')" = "up down" ]
ok "the model keeps --pairs, a file" eval pairs order.txt --json
judge "the model keeps --pairs, eval" 'd["p@1"] > 95'
ok "--min-count" train order.txt -o rare "${quick[@]}" --pairs --chars 0 --min-count 5
ok "inspect" inspect rare --json
judge "--min-count drops the rare word and its pair" 'd["features"] == 16'
ok "inspect without it" inspect pairs --json
judge "without it they are there" 'd["features"] == 18'
echo "onlyonce blue red" | "$wisp" predict rare - -k 1 >out 2>err
rc=$?
check "the model keeps --min-count" grep -qE '^up:' out

# convert: the same rows through every format
synth P --rows 300 --features 200 --labels 40 --row-features 12
norm() { # a normal form of XC text: header, then labels and features in order, values as 32-bit numbers
    /usr/bin/python3 - "$1" <<'P'
import struct, sys
f32 = lambda v: struct.unpack("f", struct.pack("f", float(v)))[0]
lines = open(sys.argv[1]).read().splitlines()
print(lines[0])
for line in lines[1:]:
    labels, *features = line.split(" ")
    pairs = sorted((int(i), f32(v)) for i, v in (p.split(":") for p in features if p))
    print(sorted(map(int, filter(None, labels.split(",")))), pairs)
P
}
sed '4s/^[^ ]*//' P_train.txt >a.txt # one row without labels
ok "xc to npz" convert a.txt b.npz
check "labels lie beside" [ -s b.y.npz ]
ok "npz to xc" convert b.npz c.txt
ok "xc to svm" convert c.txt d.svm
ok "svm to xc" convert d.svm e.txt
norm a.txt >a
norm c.txt >c
norm e.txt >e
same "xc through npz" a c
same "xc through npz and svm, apart from the header" <(sed 1d a) <(sed 1d e)
ok "xc to xc" convert a.txt f.txt
same "convert is stable" f.txt c.txt
check "svm counts features from 1" [ "$(awk 'NR == 2 { print $2 }' a.txt | cut -d: -f1)" = "$(($(awk 'NR == 1 { print $2 }' d.svm | cut -d: -f1) - 1))" ]
gzip -k a.txt
ok "gzip" convert a.txt.gz g.txt
same "gzip: the same rows" g.txt f.txt
if command -v zstd >/dev/null; then
    zstd -q a.txt
    ok "zstd" convert a.txt.zst z.txt
    same "zstd: the same rows" z.txt f.txt
else
    skip "zstd" "no zstd command to make a file with"
fi
ok "svm and xc train alike: xc" train f.txt -o x1 --hidden 8 --epochs 1
ok "svm and xc train alike: npz" train b.npz -o x2 --hidden 8 --epochs 1
"$wisp" predict x1 f.txt >one
"$wisp" predict x2 f.txt >two
same "xc and npz train alike" one two

# a model keeps how its rows were numbered
ok "libsvm" convert f.txt f.svm
ok "libsvm: train" train f.svm -o s1 --hidden 8 --epochs 3
"$wisp" predict s1 f.svm >one 2>err
"$wisp" predict s1 - <f.svm >two 2>err
same "libsvm: stdin is read as the file is" one two
printf '\n\n' | "$wisp" predict s1 - >two 2>err
check "libsvm: an empty line from stdin is a row" [ "$(grep -c . two)" = 2 ]
awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { l = i % 4; print l " " l + 3 ":1 " 7 + int(rand() * 9) ":1" } }' >zero.svm
ok "ids from 0: train" train zero.svm -o z0 --hidden 16 --epochs 20 --lr 0.05 --dropout 0 --index-base 0
ok "ids from 0: the model knows" eval z0 zero.svm --json
judge "ids from 0: right" 'd["p@1"] > 99'
printf 'a\nb\nc\nd\ne\nf\n' >names
ok "more names than labels seen" train zero.svm -o n6 --hidden 8 --epochs 2 --labels names
ok "more names: predict" predict n6 zero.svm -k 6
check "more names: every label has one" grep -qE '(^| )f:0' out
head -n 3 names >few
refuse "fewer names than labels" 2 "few: has 3 names, the data has 4 labels" train zero.svm -o n3 --labels few
refuse "no packed output" 2 "packed" convert f.txt out.txt.gz
ok "svm" train d.svm -o svm --hidden 8 --epochs 1
ok "svm, a file" predict svm d.svm
cp out file
"$wisp" predict svm - <d.svm >out 2>err
rc=$?
same "svm from stdin as the file" out file
{ sed -n 1p d.svm; echo; echo "# a comment"; sed -n 2p d.svm; } | "$wisp" predict svm - >out 2>err
rc=$?
check "svm from stdin: a line, an answer" [ "$(wc -l <out)" = 4 ]
check "svm from stdin: answers stay with their lines" [ "$(sed -n '1p;4p' out)" = "$(sed -n 1,2p file)" ]

# words read for training and for each model are other rows: their caches lie side by side
rm -f ./*.wispcache
for pass in 1 2; do
    ok "train, $pass" train train.txt -o m "${quick[@]}" --memory 1G # small files have caches with it only
    ok "eval of the same text, $pass" eval m train.txt --memory 1G
    ok "eval by another model, $pass" eval pairs train.txt --memory 1G
    check "eval by another model, $pass: labels are told" grep -qE 'train.txt: [0-9]+ labels that the model does not know count as misses' err
    [ $pass = 1 ] && find . -name 'train.txt*.wispcache' -printf '%p %i %T@\n' | sort >before
done
check "three caches" [ "$(wc -l <before)" = 3 ]
check "none is written again" diff before <(find . -name 'train.txt*.wispcache' -printf '%p %i %T@\n' | sort)
ok "text converts to numbers" convert train.txt text.svm
check "text converts to numbers: one row per line" [ "$(wc -l <text.svm)" = 600 ]

# A cell with several labels that nobody has taken apart is told, with the option that does it.
printf 'text,labels\nhow long does bread keep,bread|storage\na cake that sank,cake\nsalt in the broth,soup\n' >joined.csv
ok "cells that hold several labels" train joined.csv -o joined.m --epochs 1 --hidden 8
check "a hint names the option" grep -q "'bread|storage' is one label; --label-separator '|' makes several of it" err
ok "the same with the option" train joined.csv -o joined.m --epochs 1 --hidden 8 --label-separator '|'
check "no hint any more" not grep -q "is one label" err
printf 'text,labels\nhow long does bread keep,"bread, storage"\nloaves,bread\na cake that sank,cake\n' >joined.csv
ok "commas between labels" train joined.csv -o joined.m --epochs 1 --hidden 8
check "a hint names the comma" grep -q "'bread, storage' is one label; --label-separator ',' makes several of it" err
printf 'text,labels\nhow long does bread keep,"Paris, France"\nloaves,Rome\na cake that sank,"London, England"\n' >joined.csv
ok "commas within labels" train joined.csv -o joined.m --epochs 1 --hidden 8
check "no hint where they are part of a name" not grep -q "is one label" err
end
