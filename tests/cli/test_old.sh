#!/usr/bin/env bash
# Files of wisp 0.1.0 (tests/golden/0.1.0): models load, answer as they did, can be gone on from and made smaller; a
# checkpoint is refused by name where its run would go on, and its memory is taken where another run begins.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
old=$root/tests/golden/0.1.0
export WISP_ISA=scalar # so were the answers made
cp "$old"/rows.* .
for f in "$old"/*.b64; do base64 -d "$f" | gzip -d >"$(basename "$f" .b64)"; done

# answers NAME: every way to predict that its text has, against what 0.1.0 said
answers() {
    local how words
    grep '^#' "$old/$1.txt" >ways
    check "$1: there are answers" [ "$(wc -l <ways)" -ge 2 ]
    while read -r _ how; do
        read -ra words <<<"$how"
        awk -v how="# $how" '/^#/ { on = $0 == how; next } on' "$old/$1.txt" >want
        for n in 1 3; do
            ok "$1: predict $how, $n threads" predict "$1" "${words[@]}" --threads $n
            check "$1: predict $how, $n threads: as 0.1.0 said" diff want out
        done
    done <ways
}

for model in dense radix random sampled half int8; do
    rows=rows.xc
    case $model in half | int8) rows=rows.txt ;; esac
    answers $model
    ok "$model: inspect" inspect $model --json
    judge "$model: it is of 0.1.0" 'd["engine"] == "wisp 0.1.0" and d["format"] == "wisp-model 1"'
    ok "$model: eval" eval $model $rows --json
    judge "$model: it is good" 'd["p@1"] > 40'
    ok "$model: go on" train $rows -o next --init $model --epochs 1 --holdout 0
    ok "$model: what that predicts" predict next $rows
    if [ $model = int8 ]; then
        refuse "int8: smaller" 2 "is I8 already" convert int8 small --quantize int8
    else
        ok "$model: smaller" convert $model small --quantize int8
        ok "$model: what that predicts" predict small $rows
    fi
done

check "there is a state" [ -s dense.state ]
cp dense kept
refuse "a checkpoint of 0.1.0" 4 "dense.state: .*'wisp-state 1'.*; train without --resume" \
    train rows.xc -o dense --resume --net "input 8, relu, dropout 0.1, dense 6, relu"
same "the model is as it was" dense kept
ok "the state of a model to go on from" train rows.xc -o next --init dense --optimizer adagrad --epochs 1 --holdout 0
check "the optimizer's memory is taken" grep -q "^init .*optimizer state kept" err
end
