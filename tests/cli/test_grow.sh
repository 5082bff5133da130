#!/usr/bin/env bash
# Going on from a model with new rows, words and labels: names merge, ids stay, old answers stay what they were.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
/usr/bin/python3 - <<'P'
import random
random.seed(5)
topics = {"cats": "purr meow whiskers claws kitten", "dogs": "bark leash fetch puppy kennel",
          "ships": "sail anchor harbour deck mast", "stars": "orbit nova comet dwarf galaxy", "bread": "flour yeast oven crust dough"}
common = "the a of and to in it is with".split()
def rows(names, n, every):
    for i in range(n):
        labels = random.sample(names, 1 + (i % every == 0))
        words = [w for l in labels for w in random.sample(topics[l].split(), 3)] + random.sample(common, 4)
        random.shuffle(words)
        yield labels, words
old, new = ["cats", "dogs", "ships"], ["stars", "bread"]
for name, n, names in (("old", 400, old), ("new", 240, new + ["ships"]), ("old-test", 100, old), ("new-test", 100, new)):
    made = list(rows(names, n, 5))
    with open(name + ".txt", "w") as f:
        for labels, words in made:
            f.write(" ".join("__label__" + l for l in labels) + " " + " ".join(words) + "\n")
    # the same as numbers, each file with numbers and names of its own
    ids = random.sample(sorted(topics), 5) if name.startswith("new") else old
    vocab = sorted({w for _, ws in made for w in ws}, reverse=name.startswith("new"))
    with open(name + ".xc", "w") as f:
        f.write("%d %d %d\n" % (n, len(vocab), len(ids)))
        for labels, words in made:
            count = {vocab.index(w): words.count(w) for w in words}
            f.write(",".join(map(str, sorted(ids.index(l) for l in labels))) + " " + " ".join("%d:%d" % x for x in sorted(count.items())) + "\n")
    open(name + ".labels", "w").write("".join(x + "\n" for x in ids))
    open(name + ".vocab", "w").write("".join(x + "\n" for x in vocab))
P
quick=(--hidden 32 --epochs 12 --lr 0.02 --dropout 0 --holdout 0.1)
names() { /usr/bin/python3 -c '
import json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]; h = json.loads(f.read(n)); a, b = h[sys.argv[2]]["data_offsets"]
f.seek(8 + n + a); print(f.read(b - a).decode(), end="")' "$@"; }

# ---- text ----
ok "a first model" train old.txt -o m "${quick[@]}" --chars 0
ok "its answers" predict m old-test.txt -k 2 --scores raw
cp out before
ok "go on" train new.txt -o g --init m --epochs 40 --lr 0.02 --holdout 0.1
check "the plan says so" grep -qE "^init +m: 3 old labels kept, 2 new; 24 old features, 10 new; optimizer state fresh, old rows do not move" err
names m vocab >old-words
names g vocab >words
check "the model's words come first" cmp -n "$(wc -c <old-words)" old-words words
check "each word once" [ "$(sort words | uniq -d | wc -l)" = 0 ]
check "all words" [ "$(wc -l <words)" = 34 ]
names m labels >old-labels
names g labels >labels
check "the model's labels come first" cmp -n "$(wc -c <old-labels)" old-labels labels
check "all labels" [ "$(wc -l <labels)" = 5 ]
ok "what it learnt" eval g new-test.txt --json
judge "new labels are known" 'd["p@1"] > 90'
ok "what it knew" eval g old-test.txt --json
judge "old labels are still known" 'd["p@1"] > 90'
ok "old labels' scores" predict g old-test.txt -k 5 --scores raw
check "are the same numbers" /usr/bin/python3 -c '
for a, b in zip(open("before"), open("out"), strict=True):
    was, now = (dict(x.rsplit(":", 1) for x in l.split()) for l in (a, b))
    assert all(now[k] == v for k, v in was.items()), (a, b)'
ok "the same text without --init" train new.txt -o plain "${quick[@]}" --memory 1G # so that it has a cache
names plain labels >labels
check "has ids of its own" [ "$(wc -l <labels)" = 3 ]
ok "and again with it" train new.txt -o g2 --init m --epochs 40 --lr 0.02 --holdout 0.1
same "gives the same model" g g2
ok "and with a cache" train new.txt -o g2 --init m --epochs 1 --memory 1G
check "from its own cache" [ "$(ls new.txt*.wispcache | wc -l)" = 2 ]
ok "validation text is read with all names" train new.txt -o v --init m --epochs 40 --lr 0.02 --valid new-test.txt --json
judge "new labels count there" 'd["valid_p@1"] > 90'
ok "rare new words are dropped" train new.txt -o r --init m --epochs 1 --min-count 100000
names r vocab >words
same "and only those" words old-words
ok "twice grown" train old.txt -o twice --init g --epochs 1
check "nothing new" grep -qE "5 old labels kept, 0 new; 34 old features, 0 new; optimizer state fresh$" err

# ---- numbers with names ----
ok "a first model of numbers" train old.xc -o n --labels old.labels --vocab old.vocab "${quick[@]}"
ok "go on by name" train new.xc -o ng --init n --labels new.labels --vocab new.vocab --epochs 40 --lr 0.02 --holdout 0.1
check "names are matched" grep -qE "3 old labels kept, 2 new; 24 old features, 10 new" err
names ng labels >labels
check "old labels first" cmp -n "$(wc -c <old.labels)" old.labels labels
names ng vocab >words
for f in new old; do
    /usr/bin/python3 - "$f" <<'P'
import sys
f = sys.argv[1]
words, labels = open("words").read().split("\n"), open("labels").read().split("\n")
vocab, names = open(f + "-test.vocab").read().split("\n"), open(f + "-test.labels").read().split("\n")
lines = open(f + "-test.xc").read().splitlines()
with open(f + "-mapped.xc", "w") as o:
    o.write("%s %d %d\n" % (lines[0].split()[0], len(words) - 1, len(labels) - 1))
    for l in lines[1:]:
        y, *x = l.split(" ")
        y = sorted(labels.index(names[int(i)]) for i in y.split(","))
        x = sorted((words.index(vocab[int(i.split(":")[0])]), i.split(":")[1]) for i in x)
        o.write(",".join(map(str, y)) + " " + " ".join("%d:%s" % p for p in x) + "\n")
P
    ok "eval $f" eval ng $f-mapped.xc --json
    judge "$f labels are known" 'd["p@1"] > 90'
done
cat old.labels >longer
printf 'stars\nbread\n' >>longer
{ cat old.vocab; printf 'zzz1\nzzz2\n'; } >longer-vocab
sed '1s/.*/400 26 5/' old.xc >same.xc
ok "names that begin with the model's" train same.xc -o l --init n --labels longer --vocab longer-vocab --epochs 1
check "just extend it" grep -qE "3 old labels kept, 2 new; 24 old features, 2 new" err
names l labels >labels
same "in their order" labels longer
refuse "fewer names than labels" 2 "old.labels: has 3 names, the data has 5 labels" train new.xc -o c --init n --labels old.labels --vocab new.vocab
refuse "new labels without names" 2 "init: has 3 names, the data has 5 labels; give the names" train new.xc -o c --init n --vocab new.vocab
refuse "other ids under --memory" 2 "--memory: new.xc: other ids" train new.xc -o c --init n --labels new.labels --vocab new.vocab --memory 64M

# ---- numbers alone ----
synth S --rows 1500 --features 300 --labels 50 --seed 3
synth T --rows 600 --features 340 --labels 60 --seed 4
ok "numbers" train S_train.txt -o p --hidden 24 --epochs 3
refuse "text for a model of numbers" 3 "found words, but these rows go with numbers" train new.txt -o c --init p
for how in full "neighbours+random" "lsh" "ivf+features+random"; do
    args=(train T_train.txt --init p --epochs 2 --batch 64 --index yes --sampling "$how")
    ok "$how" "${args[@]}" -o s1 --threads 1
    check "$how: the plan" grep -qE "50 old labels kept, 10 new; 300 old features, 40 new" err
    ok "$how, 3 threads" "${args[@]}" -o s3 --threads 3
    same "$how: the same bytes for any number of threads" s1 s3
    ok "$how: sample by sample" "${args[@]}" -o s4 --active-per example
    ok "$how: eval" eval s1 T_test.txt
done
ok "the state is kept" train S_train.txt -o k --hidden 24 --epochs 3 --keep-state
check "beside the model" [ -s k.state ]
ok "and used" train T_train.txt -o k2 --init k --epochs 2
check "it says so" grep -qE "optimizer state kept, old rows do not move" err
check "the run leaves none" [ ! -e k2.state ]
ok "half the learning rate" train T_train.txt -o k2 --init k --epochs 2 --old-pace 0.5
check "it says that, too" grep -qE "optimizer state kept, old rows at 0.5 of the learning rate" err
refuse "--old-pace 2" 2 "old-pace" train T_train.txt -o c --init k --old-pace 2

# a stopped run goes on, and not from another model
args=(train T_train.txt --init k --epochs 100 --patience 0 --batch 8 --threads 1)
ok "in one go" "${args[@]}" -o whole
cat >stop.py <<'P'
import subprocess, signal, sys
p = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, text=True)
for line in p.stderr:
    if line.startswith("epoch"):
        p.send_signal(signal.SIGINT)
        break
p.stderr.read()
sys.exit(p.wait())
P
/usr/bin/python3 stop.py "$wisp" "${args[@]}" -o part
rc=$?
if [ $rc = 130 ]; then
    "$wisp" train S_train.txt -o other --hidden 24 --epochs 1 2>err
    cp k k.good
    cp other k
    refuse "another model at the same path" 4 "init-checksum was" "${args[@]}" -o part --resume
    cp k.good k
    ok "resumed" "${args[@]}" -o part --resume
    same "the same bytes" whole part
else
    skip "resume" "the run was over before it was stopped"
fi

# ---- sparse prediction knows old and new labels ----
synth V --rows 4000 --features 6000 --labels 300 --row-features 30 --seed 6
/usr/bin/python3 - <<'P'
lines = open("V_train.txt").read().splitlines()
rows = [(l, [int(x) for x in l.split(" ")[0].split(",") if x]) for l in lines[1:]]
for name, part, n in (("early", [l for l, y in rows if all(x < 270 for x in y)], 270), ("late", [l for l, y in rows if any(x >= 270 for x in y)], 300)):
    open(name + ".txt", "w").write("%d 6000 %d\n" % (len(part), n) + "\n".join(part) + "\n")
P
ok "with an index" train early.txt -o e --index yes --hidden 32 --epochs 8
ok "go on" train late.txt -o i --init e --hidden 32 --epochs 8 --index yes
check "the index has the votes of both" /usr/bin/python3 -c '
import array, json, struct
def lists(path):
    b = open(path, "rb").read(); n = struct.unpack("<Q", b[:8])[0]; h = json.loads(b[8:8 + n])
    get = lambda k, t: array.array(t, b[8 + n + h[k]["data_offsets"][0]:8 + n + h[k]["data_offsets"][1]])
    start, label = get("votes.start", "q"), get("votes.label", "i")
    return [set(label[start[f]:start[f + 1]]) for f in range(len(start) - 1)]
e, i = lists("e"), lists("i")
short = [f for f in range(len(e)) if 0 < len(e[f]) and len(i[f]) < 128]
assert len(short) > 20 and all(e[f] <= i[f] for f in short), len(short)
assert any(max(x, default=0) >= 270 for x in i)'
ok "sparse" eval i V_test.txt --inference sparse --json
judge "finds nearly what exact prediction does" 'd["p@1"] > 0.93 * d["exact_p@1"] and d["exact_p@1"] > 20'
end
