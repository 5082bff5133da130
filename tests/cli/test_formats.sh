#!/usr/bin/env bash
# What a model remembers of its data (format, first id, kind), one line out for every line in, ids that are far apart,
# labels that are words.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
quick=(--hidden 32 --epochs 6 --lr 0.02 --dropout 0 --loss softmax)
synth P --rows 600 --features 300 --labels 20 --row-features 20
# rows without a header and without feature 0: only the model knows that they are XC text
sed 1d P_test.txt | sed -E 's/ 0:[^ ]+//' >bare
{ echo "$(wc -l <bare) 300 20"; cat bare; } >headed
ok "train on xc text" train P_train.txt -o m "${quick[@]}"
ok "convert to libsvm" convert P_train.txt P.svm
ok "convert the test rows" convert headed bare.svm
ok "train on libsvm text" train P.svm -o ms "${quick[@]}"

# the model's format and first id (U3)
ok "eval of rows with their header" eval m headed --json
cp out want
ok "eval of bare rows" eval m bare --json
check "bare rows are read as the model's were" /usr/bin/python3 -c '
import json
a, b = (json.loads(open(f).read()) for f in ("want", "out"))
assert a["rows"] == b["rows"] and a["p@1"] == b["p@1"], (a, b)'
ok "eval: rows that say by their ending what they are" eval m bare.svm --json
judge "libsvm by its ending" "d['p@1'] == json.load(open('want'))['p@1']"
ok "predict of rows with their header" predict m headed
cp out lines
ok "predict of bare rows" predict m bare
same "predictions of bare rows" out lines
ok "a model of libsvm text, rows of libsvm text" eval ms bare.svm --json
cp out want
ok "a model of libsvm text, rows with a header" eval ms headed --json
judge "the header says it" "d['p@1'] == json.load(open('want'))['p@1']"
cp bare.svm bare1
ok "a model of libsvm text, bare rows" eval ms bare1 --json
judge "ids from 1" "d['p@1'] == json.load(open('want'))['p@1']"
ok "an explicit format wins" eval m bare1 --json --format libsvm
printf '4 3 3\n1 1:1\n2 2:1\n3 3:1\n1 1:2\n' >one.txt
ok "ids from 1: train" train one.txt -o one --net linear --index-base 1
ok "ids from 1: predict" predict one one.txt -k 1
same "ids from 1: the labels of the text" <(printf '%s\n' 1 2 3 1) <(cut -d: -f1 out)
ok "ids from 1: eval" eval one one.txt --json
judge "ids from 1: all right" 'd["p@1"] == 100'
ok "ids from 1: explain" explain one one.txt -k 1 --json
check "ids from 1: labels and features as the text says" /usr/bin/python3 -c '
import json
first = json.loads(open("out").readline())
label = first["labels"][0]
assert label["label"] == 1 and label["features"][0]["feature"] == 1, first'
ok "ids from 1: convert" convert one.txt one.svm --index-base 1
same "ids from 1: labels in LibSVM text" <(printf '%s\n' '1 1:1' '2 2:1' '3 3:1' '1 1:2') one.svm
printf '4 10 3000000\n1 1:1\n2 2:1\n3000000 3:1\n1 1:2\n' >far1.txt
ok "ids from 1: the header's last label" convert far1.txt far1.svm --index-base 1
check "ids from 1: keeps its number" [ "$(sed -n 3p far1.svm)" = '3000000 3:1' ]
check "ids from 1: and is not far" [ "$(grep -c 'far apart' err)" = 0 ]
refuse "a label beyond the header" 3 "label 4: expected an id in 1..3, as the header says" convert <(printf '1 3 3\n4 1:1\n') x.svm --index-base 1
refuse "label 0 of ids from 1" 3 "label 0: expected an id in 1..3, as the header says" convert <(printf '1 3 3\n0 1:1\n') x.svm --index-base 1
refuse "an explicit first id wins" 3 "label 0: expected an id in 1" eval m bare1 --json --index-base 1
ok "validation rows are read as the training rows" train P_train.txt -o v "${quick[@]}" --epochs 1 --valid bare --json
cp out one
ok "validation rows with their header" train P_train.txt -o v "${quick[@]}" --epochs 1 --valid headed --json
judge "the same validation" "d['valid_p@1'] == json.load(open('one'))['valid_p@1']"
ok "--init: rows are read as the model's" train bare -o v2 --init m --epochs 1 --json
judge "no feature was added" 'd["features"] == 300 if "features" in d else True'

# words and numbers (U16)
for i in $(seq 60); do
    echo "__label__even two four $((i % 7))x"
    echo "__label__odd one three $((i % 5))y"
done >words
ok "train on words" train words -o mw "${quick[@]}"
for cmd in eval predict; do
    refuse "$cmd: numbers for a model of words" 3 'numbers.*words' $cmd mw headed
    refuse "$cmd: bare numbers for a model of words" 3 'numbers.*words' $cmd mw bare
    refuse "$cmd: words for a model of numbers" 3 'words.*numbers' $cmd m words
done
printf '12:30 two\nat 7:15 four\n' >times
ok "words that look like features here and there" predict mw times
check "are words" [ "$(wc -l <out)" = 2 ]

# one line out for every line in (U4)
printf '1:1 5:1\n\n# nothing\n2:1\r\n\n3:1' >q.svm
printf '1:1 5:1\n\n\n2:1\r\n\n3:1' >q.xc
printf 'one\n\n \ntwo\r\n\nthree' >q.txt
gzip -k q.svm q.xc q.txt
for m in "ms q.svm" "m q.xc" "mw q.txt"; do
    set -- $m
    "$wisp" predict "$1" - <"$2" >want 2>err
    rc=$?
    check "$1: six lines from stdin" [ "$(wc -l <want)" = 6 ]
    check "$1: blank lines are equal" [ "$(sed -n 2p want)" = "$(sed -n 5p want)" -a "$(sed -n 2p want)" = "$(sed -n 3p want)" ]
    for cache in . -; do
        for again in 1 2; do
            for ending in "" .gz; do
                ok "$1, $2$ending, --cache $cache, time $again" predict "$1" "$2$ending" --cache $cache
                same "$1, $2$ending, --cache $cache, time $again: a line out for every line in" out want
            done
        done
    done
done
# training and eval skip them: they have no label to learn or to hit
{ cat P.svm; printf '\n\n'; } >blank.svm
ok "training skips blank lines" train blank.svm -o b "${quick[@]}"
tensors() { /usr/bin/python3 -c '
import json, struct, sys
d = open(sys.argv[1], "rb").read()
n = 8 + struct.unpack("<Q", d[:8])[0]
end = json.loads(d[8:n])["__integrity__"]["data_offsets"][0]
sys.stdout.buffer.write(d[n:n + end])' "$1"; }
check "the same model" cmp <(tensors b) <(tensors ms)
ok "eval" eval ms P.svm --json
cp out want
ok "eval skips blank lines" eval ms blank.svm --json
judge "rows" "d['rows'] == json.load(open('want'))['rows'] and d['p@1'] == json.load(open('want'))['p@1']"
ok "eval --blank-lines rows" eval ms blank.svm --json --blank-lines rows
judge "two rows without labels" "d['rows'] == json.load(open('want'))['rows'] + 2 and d['rows_unlabelled'] == 2"
ok "predict after eval" predict ms blank.svm
check "and the cache of eval does not serve predict" [ "$(wc -l <out)" = "$(wc -l <blank.svm)" ]

# ids far apart (F1, U6): memory and disk in proportion to the file
# small NAME ARGS...: runs, must succeed within 100 MB and leave no more than 12 MB behind (counts of 2^20 ids in a cache)
small() {
    rm -rf ./*.wispcache home/.cache
    /usr/bin/python3 -c '
import resource, subprocess, sys
rc = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=open("out", "wb"), stderr=open("err", "wb"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=open("peak", "w"))
sys.exit(rc)' "$wisp" "${@:2}"
    rc=$?
    if [ $rc = 0 ]; then pass; else bad "$1" "expected success"; fi
    check "$1: $(cat peak) kB of memory" [ "$(cat peak)" -lt 100000 ]
    check "$1: little is left on disk" [ "$(du -sk --exclude=P_t\* . | cut -f1)" -lt 12000 ]
}
printf '1 1000000000 5\n1 999999999:1\n' >far.xc
printf '1 5 1000000000\n999999999 1:1\n' >far2.xc
for i in $(seq 100); do
    echo "5 1:0.5 2000000000:$((i % 3 + 1))"
    echo "2000000000 7:1 1999999999:2"
done >far.svm
small "features far apart" convert far.xc farout.xc
same "and nothing is lost" farout.xc far.xc
small "labels far apart" convert far2.xc farout.xc
same "and no label is lost" farout.xc far2.xc
small "hashed ids" convert far.svm far3.svm
same "ids as they were" far.svm far3.svm
small "packed" convert far.svm far.npz
small "training" train far.svm -o far "${quick[@]}"
check "it says so" grep -q 'feature ids are far apart: numbered anew (4 different ones)' err
small "eval" eval far far.svm --json
judge "what was learnt" 'd["p@1"] == 100'
printf '1:0.5 2000000000:1\n\n7:1 1999999999:2\n1999999998:1\n' >far.q
small "predict" predict far far.q -k 1
check "old ids" [ "$(sed -n '1s/:.*//p;3s/:.*//p' out | tr '\n' ' ')" = "5 2000000000 " -a "$(wc -l <out)" = 4 ]
check "an id that the model does not know is said" grep -q 'left out 1 feature value that' err
cp out want
"$wisp" predict far - -k 1 <far.q >out 2>err
rc=$?
same "the same from stdin" out want
for i in $(seq 100); do echo "77 1:0.5 1500000000:3"; done >more.svm
small "--init with further ids" train more.svm -o far2 --init far --epochs 3 --valid far.svm
printf '1:0.5 1500000000:3\n' | "$wisp" predict far2 - -k 3 >out 2>err
check "the label is new" grep -q '77:' out
small "labels far apart for a model of numbers" eval ms far.svm --json
judge "they are misses" 'd["rows"] == 200'
refuse "names of ids, and ids far apart" 3 'out of proportion' train far.svm -o f --labels words --epochs 1
# ids that a model knows are not far, however short a text is that has them
for i in $(seq 200); do echo "$((i % 4)) $((1100000 + i % 4)):1 $((1200000 + i % 50)):1"; done >high
{ echo "200 1300000 4"; cat high; } >high.xc
head -n 8 high >few
{ echo "8 1300000 4"; cat few; } >few.xc
ok "features from 2^20 on, which a header says" train high.xc -o high --net linear --valid few.xc --json
judge "validation rows have them" 'd["valid_p@1"] == 100'
check "none are left out" [ "$(grep -c 'left out' err)" = 0 ]
ok "eval of a short text" eval high few --json
judge "has them, too" 'd["p@1"] == 100'
ok "predict" predict high few -k 1
check "the right labels" [ "$(sed 's/:.*//' out | tr -d '\n')" = 12301230 ]
cp out want
"$wisp" predict high - -k 1 <few >out 2>err
same "the same from stdin" out want
ok "--init" train few -o higher --init high --epochs 1 --valid few --json
judge "has them" 'd["valid_p@1"] == 100'
rm -f high higher
printf '1 999999999 4\n0 1100000:2\n' >claim
small "validation rows whose header claims a thousand million features" train P_train.txt -o v "${quick[@]}" --epochs 1 --valid claim
cp far.svm wide.svm
for n in 1 4; do ok "$n threads" train wide.svm -o "w$n" "${quick[@]}" --threads $n --cache -; done
same "the same model for any number of threads" w1 w4

# labels of LibSVM text that are no ids (U19)
for i in $(seq 80); do
    echo "-1 1:1 3:$((i % 4 + 1))"
    echo "+1 2:1 4:$((i % 3 + 1))"
done >pm.svm
sed 's/^-1/spam,bad/; s/^+1/ham/' pm.svm >word.svm
ok "-1 and +1" train pm.svm -o pm "${quick[@]}"
printf '1:1 3:1\n2:1 4:1\n-1 1:1 3:2\n' >pm.q
ok "predict" predict pm pm.q -k 1
check "-1 and 1 are names" [ "$(sed 's/:.*//' out | tr '\n' ' ')" = "-1 1 -1 " ]
ok "eval" eval pm pm.svm --json
judge "all right" 'd["p@1"] == 100'
ok "predict --json" predict pm pm.q -k 1 --json
check "with names" grep -q '"name":"-1"' out
ok "words as labels" train word.svm -o word "${quick[@]}" --valid word.svm
ok "predict" predict word pm.q -k 1 --format libsvm
ok "eval" eval word word.svm --json
judge "all right" 'd["p@1"] == 100 and d["rows"] == 160'
ok "convert" convert word.svm word2.svm
same "words stay" word.svm word2.svm
ok "convert" convert pm.svm pm2.svm
check "-1 and +1 stay" cmp pm2.svm <(sed 's/^+//' pm.svm)
ok "convert to xc" convert pm.svm pm.xc
check "ids there" [ "$(sed -n 2p pm.xc)" = "0 0:1 2:2" ]
echo 'other 1:1' >>word.svm
ok "a word that the model does not know" eval word word.svm --json
judge "is a miss" 'd["rows"] == 161 and d["p@1"] < 100'
check "and is said" grep -q '1 label that the model does not know counts as a miss' err
printf '1 1:1\nspam 2:1\n' >mix.svm
refuse "numbers and words" 3 "mix.svm:2: 'spam': a label that is a name, but on line 1 there is a number" convert mix.svm mix2.svm
end
