#!/usr/bin/env bash
# Files of a command line, looked at before any work: options that name none or do not fit the data, files that are both
# read and written, model and data in the wrong order, endings, closed descriptors, paths that would move a terminal.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
quick=(--hidden 16 --epochs 1 --batch 64)
synth P --rows 300 --features 200 --labels 40 --row-features 20
for i in $(seq 0 39); do echo "name $i"; done >names.txt
printf '__label__x some words\n__label__y other words\n__label__x more words\n' >t.txt
ok "train" train P_train.txt -o m "${quick[@]}"

# ---- options that name a file (U11): told at once, before training, whatever the data is ----
for data in P_train.txt t.txt; do
    for option in labels vocab valid init config weights class-weight; do
        refuse "--$option nofile, $data" 5 "nofile: cannot be opened: No such file" train $data -o x --$option nofile "${quick[@]}"
        check "--$option nofile, $data: before training" not grep -qE '^(epoch|rows) ' err
    done
done
refuse "--config nofile" 5 "nofile: cannot be opened" eval m P_test.txt --config nofile
refuse "--valid of a folder without images" 3 "home: no pictures: expected folders, one for each label" train P_train.txt -o x --valid home
ok "a word that stands for no file" train P_train.txt -o x --class-weight none "${quick[@]}"
for option in labels vocab; do
    refuse "--$option of text" 2 "^wisp: --$option: t.txt has names of its own" train t.txt -o y --$option names.txt "${quick[@]}"
done
refuse "--pairs of ids" 2 "^wisp: --pairs: P_train.txt has ids" train P_train.txt -o y --pairs "${quick[@]}"
refuse "--min-count of ids" 2 "^wisp: --min-count: P_train.txt has ids" convert P_train.txt y.npz --min-count 2
check "no model was made" [ ! -e y -a ! -e y.npz ]

# ---- files that are both read and written (F17) ----
cp P_train.txt keep.txt
ln -s keep.txt link
ln keep.txt hard
cp names.txt names.keep
for other in keep.txt ./keep.txt link hard home/../keep.txt; do
    refuse "train: -o $other is the data" 2 "would be overwritten" train keep.txt -o $other "${quick[@]}"
    refuse "train: --log $other is the data" 2 "would be overwritten" train keep.txt -o x --log $other "${quick[@]}"
    refuse "predict: -o $other is the data" 2 "would be overwritten" predict m keep.txt -o $other
    refuse "convert: OUT $other is the data" 2 "would be overwritten" convert keep.txt $other
done
same "the data is as it was" keep.txt P_train.txt
cp m kept
refuse "predict: -o is the model" 2 "would be overwritten" predict m P_test.txt -o m
refuse "convert: OUT is the model" 2 "would be overwritten" convert m m --quantize int8
refuse "train: -o is the validation data" 2 "would be overwritten" train keep.txt -o P_test.txt --valid P_test.txt
refuse "train: -o is a file of names" 2 "would be overwritten" train keep.txt -o names.txt --labels names.txt
refuse "train: --log is a file of names" 2 "would be overwritten" train keep.txt -o x --labels names.txt --log names.txt
refuse "train: --log is -o" 2 "written by -o, too" train keep.txt -o new --log ./new
refuse "train: --log is the checkpoint" 2 "written by -o, too" train keep.txt -o new --log new.state
cp keep.txt new.state
refuse "train: the data is where the checkpoint goes" 2 "would be overwritten" train new.state -o new
same "the model is as it was" m kept
same "the names are as they were" names.txt names.keep
printf 'seed = 5\n' >S_train.txt
refuse "synth: over its file of options" 2 "would be overwritten" synth S --rows 9 --features 9 --labels 3 --config S_train.txt
refuse "train: -o is the model to start from" 2 "would be overwritten" train keep.txt -o m --init m "${quick[@]}"

# ---- model and data in the wrong order (U15) ----
for command in predict eval; do
    refuse "$command DATA MODEL" 4 "^wisp: P_test.txt: found data in the format xc, expected a model; the model comes first: wisp $command m P_test.txt$" \
        $command P_test.txt m
    refuse "$command DATA DATA" 4 "^wisp: P_test.txt: found data in the format xc, expected a model$" $command P_test.txt P_train.txt
done
refuse "inspect DATA" 4 "^wisp: P_test.txt: found data in the format xc, expected a model$" inspect P_test.txt

# ---- endings that name no format (U36) ----
for out in y.json y y.parquet .txtx; do
    refuse "convert to $out" 2 "$out: its ending names no format that can be written; expected one of .txt .xc" convert P_test.txt $out
    check "convert to $out: nothing was made" [ ! -e $out ]
done
for out in y.txt y.xc y.svm y.libsvm y.npz; do
    ok "convert to $out" convert P_test.txt $out --json
    judge "convert --json: $out" "d == {'path': '$out', 'rows': 30, 'features': 200, 'labels': 40, 'values': d['values']}"
done

# ---- closed descriptors (F19): what is said lands nowhere, least of all in a file ----
for fds in '0<&-' '1>&-' '2>&-' '0<&- 1>&- 2>&-'; do
    rm -f ./*.wispcache log l
    eval "\"\$wisp\" train P_train.txt -o l --log log ${quick[*]} $fds" 2>/dev/null
    rc=$?
    check "train with $fds" [ $rc = 0 ]
    check "train with $fds: the log has its lines only" [ "$(grep -vc '^{.*}$' log)" = 0 ]
    ok "train with $fds: the model is whole" eval l P_test.txt
done

# ---- paths that would move a terminal, or make several lines (F20) ----
odd=$'no\nsuch\033[31m file'
refuse "an odd path" 5 '^wisp: no.{1,2}such.{1,4}\[31m file: ' eval "$odd" P_test.txt
check "an odd path: one line" [ "$(wc -l <err)" = 1 ]
refuse "an odd option" 2 "unknown option '--fly.n.x1b" train P_train.txt -o x $'--fly\n\033'
refuse "an odd command" 2 "no command 'fly.x07'" $'fly\007'
cp P_test.txt "odd
name.txt"
ok "an odd file converts" convert $'odd\nname.txt' y.npz
ok "an odd model" train P_train.txt -o $'m\nodd' "${quick[@]}"
check "an odd model: no line begins with the rest of its name" not grep -q '^odd' err
end
