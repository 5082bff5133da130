#!/usr/bin/env bash
# wisp explain: lines add up to the logit, the logit is that of the score, names, rows from anywhere, what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

# ---- text ----
/usr/bin/python3 - <<'P'
import random
random.seed(1)
words = {"bread": ["flour", "dough", "knead"], "soup": ["broth", "salt", "pot"], "cake": ["sugar", "sponge", "cream"]}
with open("train.txt", "w") as f:
    for i in range(400):
        l = random.choice(list(words))
        w = random.choices(words[l], k=4) + random.choices(["the", "how", "long", "is"], k=4)
        random.shuffle(w)
        f.write(f"__label__{l} {' '.join(w)}\n")
P
ok "train" train train.txt -o m --epochs 8 --loss bce --chars 0 --quiet
cat >sums.py <<'P'
import json, math, sys
n = 0
for line in open(sys.argv[1]):
    for l in json.loads(line)["labels"]:
        total = sum(f["part"] for f in l["features"]) + l["more_part"] + l["bias"] + l["remainder"]
        mass = sum(abs(f["part"]) for f in l["features"]) + abs(l["bias"]) + 1e-9
        assert abs(total - l["logit"]) < 1e-6 * (1 + mass), (total, l)
        assert abs(l["remainder"]) < 1e-5 * mass, l
        if len(sys.argv) > 2:  # raw scores of a loss that looks at each label alone
            assert abs(l["score"] - 1 / (1 + math.exp(-l["logit"]))) < 1e-5, l
        n += 1
assert n > 0
P
ok "a row" explain m "Why is the DOUGH so long?" --json
check "parts, biases and remainder are the logit" /usr/bin/python3 sums.py out
judge "three labels, and words by name" 'len(d["labels"]) == 3 and d["labels"][0]["name"] == "bread" and {f["name"] for f in d["labels"][0]["features"]} <= {"is", "the", "dough", "long"} and d["labels"][0]["features"][0]["name"] == "dough"'
ok "raw scores" explain m train.txt --json --scores raw -k 2
check "are those of the logit" /usr/bin/python3 sums.py out raw
check "a line for every row" [ "$(wc -l <out)" = 400 ]
cp out all
head -n 3 train.txt >three
"$wisp" explain m - --json --scores raw -k 2 <three >out 2>err
check "rows from stdin are those of the file" cmp out <(head -n 3 all)
"$wisp" explain m --json --scores raw -k 2 <three >out 2>err
check "stdin is read where no row is given" cmp out <(head -n 3 all)
ok "threads" explain m train.txt --json --scores raw -k 2 --threads 3
same "do not change a digit" out all
ok "one label" explain m three --label soup --features 2 --json
judge "is the one asked for, with its two largest parts" 'len(d["labels"]) == 1 and d["labels"][0]["name"] == "soup" and len(d["labels"][0]["features"]) == 2 and d["labels"][0]["more"] > 0'
ok "all features" explain m three --label soup --features 0 --json
judge "none is left over" 'd["labels"][0]["more"] == 0 and d["labels"][0]["more_part"] == 0'
ok "for a person" explain m "the broth is in the pot" -k 1
check "lines of a label add up" /usr/bin/python3 -c '
lines = open("out").read().splitlines()
head = float(lines[0].split("logit ")[1])
total = sum(float(l.split()[0]) for l in lines[2:])
assert lines[0].startswith("row 1: soup ") and abs(head - total) < 1e-3, (head, total)
assert [l.split()[-1] for l in lines[-2:]] == ["biases", "remainder"], lines'
ok "a row without known words" explain m "zzz yyy" -k 1 --json
judge "is made of biases" 'd["labels"][0]["features"] == [] and abs(d["labels"][0]["bias"] - d["labels"][0]["logit"]) < 1e-5'
ok "one word that is no file" explain m broth -k 1
check "it is said that it is taken for a row" grep -q "no file 'broth'" err
ok "--quiet" explain m broth -k 1 --quiet
check "then not" [ ! -s err ]
printf 'the broth\n\nthe dough\n' >blank
ok "an empty line" explain m blank --json -k 1
check "is a row of its own" [ "$(wc -l <out)" = 3 ]

# ---- other kinds of models ----
for how in "--net linear" "--ensemble 2 --epochs 4"; do
    # shellcheck disable=SC2086
    ok "train $how" train train.txt -o k --chars 0 --quiet $how
    ok "$how: explain" explain k three --json
    check "$how: sums" /usr/bin/python3 sums.py out
    judge "$how: the first reason is a word of the best label" 'd["labels"][0]["features"][0]["name"] in {"flour", "dough", "knead", "broth", "salt", "pot", "sugar", "sponge", "cream"}'
    cp out said
    ok "$how: predict" predict k three -k 1 --json
    judge "$how: the score is that of predict" 'abs(d["labels"][0]["score"] - json.loads(open("said").readlines()[-1])["labels"][0]["score"]) < 1e-4' out
done

# ---- what is refused ----
refuse "no model" 5 "nosuch" explain nosuch "a b"
refuse "a label that is not there" 2 "no label 'nosuch'" explain m "a b" --label nosuch
refuse "no rows of the model's format" 2 "" explain m three --format nosuch
refuse "an option of others" 2 "no option of explain" explain m three --epochs 3
refuse "k" 2 "k" explain m three -k 0
refuse "three files" 2 "too many" explain m a b

# ---- numbers, of files that count from 1 ----
/usr/bin/python3 - <<'P'
import random
random.seed(2)
with open("train.svm", "w") as f:
    for i in range(300):
        x = [random.random() for _ in range(4)]
        f.write(f"{x.index(max(x))} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)) + "\n")
P
ok "train on numbers" train train.svm -o n --epochs 20 --quiet
ok "a row of numbers" explain n "1:0.1 2:0.9 3:0.2 4:0.3" --json -k 1
judge "features are as the file counts them" 'd["labels"][0]["label"] == 1 and d["labels"][0]["features"][0]["feature"] == 2'
check "sums" /usr/bin/python3 sums.py out
ok "a label by its number" explain n "1:0.1 2:0.9" --json --label 3
judge "is that" 'd["labels"][0]["label"] == 3'
refuse "a number that is no label" 2 "no label '4'" explain n "1:0.1 2:0.9" --label 4

# ---- images: regions ----
/usr/bin/python3 - <<'P'
import random, struct
random.seed(3)
n, side = 200, 10
with open("train-images-idx3-ubyte", "wb") as f, open("train-labels-idx1-ubyte", "wb") as g:
    f.write(struct.pack(">IIII", 0x803, n, side, side))
    g.write(struct.pack(">II", 0x801, n))
    for i in range(n):
        y = random.randrange(4)
        x = [[random.randrange(60) for _ in range(side)] for _ in range(side)]
        for r in range(5):
            for c in range(5):
                x[r + 5 * (y // 2)][c + 5 * (y % 2)] += 180
        f.write(bytes(v for row in x for v in row))
        g.write(bytes([y]))
P
ok "train on images" train train-images-idx3-ubyte --net "image, conv 6 3x3, relu, maxpool 2x2, flatten" -o i --epochs 6 --quiet
ok "an image" explain i train-images-idx3-ubyte -k 1 --json
check "regions add up" /usr/bin/python3 -c '
import json
for line in open("out"):
    l = json.loads(line)["labels"][0]
    assert l["region"] == [2, 2] and len(l["parts"]) == 5 and all(len(r) == 5 for r in l["parts"])
    total = sum(map(sum, l["parts"])) + l["bias"] + l["remainder"]
    assert abs(total - l["logit"]) < 1e-4 and abs(l["remainder"]) < 1e-3, l'
ok "for a person, too" explain i train-images-idx3-ubyte -k 1
check "as a table of 5 x 5" [ "$(sed -n 3p out | wc -w)" = 5 ]

# ---- what the page says ----
check "the rows of docs/explain.md add up" /usr/bin/python3 - "$root/docs/explain.md" <<'P'
import re, sys
text = open(sys.argv[1]).read()
blocks = re.findall(r"^ *row (\d+): (\S+) ([\d.]+), logit ([+-][\d.]+)\n((?:(?! *row ) .*\n)+)", text, re.M)
assert len({b[0] for b in blocks}) >= 3, len(blocks)
for row, label, score, logit, lines in blocks:
    parts = [float(l.split()[0]) for l in lines.splitlines() if re.match(r" +[+-]\d", l)]
    assert abs(sum(parts) - float(logit)) < 1e-3, (row, label, sum(parts), logit)
P
end
