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
same "the same model" b ms
ok "eval" eval ms P.svm --json
cp out want
ok "eval skips blank lines" eval ms blank.svm --json
judge "rows" "d['rows'] == json.load(open('want'))['rows'] and d['p@1'] == json.load(open('want'))['p@1']"
ok "eval --blank-lines rows" eval ms blank.svm --json --blank-lines rows
judge "two rows without labels" "d['rows'] == json.load(open('want'))['rows'] + 2 and d['rows_unlabelled'] == 2"
ok "predict after eval" predict ms blank.svm
check "and the cache of eval does not serve predict" [ "$(wc -l <out)" = "$(wc -l <blank.svm)" ]
end
