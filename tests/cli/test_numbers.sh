#!/usr/bin/env bash
# Rows whose scores overflow: exit code 7 and a line that names the row, whichever way they come.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

for ((i = 0; i < 40; i++)); do echo "$((i % 3)) $((i % 3)):1 3:$((i % 5)).5"; done >rows
form=(--format xc --no-header)
ok "a model of values as they are" train rows "${form[@]}" --values raw --epochs 20 --lr 0.5 --optimizer adam --loss softmax -o m
printf '%s\n' "0 0:1 3:2" "1 0:-3.4e38 1:3.4e38 2:-3.4e38 3:3.4e38" "2 2:1" >big
refuse "eval" 7 '^wisp: .*row 2: its scores are not numbers' eval m big "${form[@]}"
refuse "predict" 7 '^wisp: .*row 2: its scores are not numbers' predict m big "${form[@]}"
"$wisp" predict m - "${form[@]}" <big >out 2>err
rc=$?
check "predict from stdin: the exit code" [ $rc = 7 ]
check "predict from stdin: the line" grep -q '^wisp: .*stdin:2: its scores are not numbers' err
check "predict from stdin: the line before is answered" [ "$(wc -l <out)" = 1 ]
end
