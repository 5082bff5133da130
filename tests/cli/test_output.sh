#!/usr/bin/env bash
# What a run tells: progress, logs, JSON; and options from a file.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 500 --features 300 --labels 40 --row-features 12
quick=(--hidden 8 --epochs 4 --patience 0 --loss softmax)

ok "train" train P_train.txt -o m "${quick[@]}" --log log --json
check "stdout is one line" [ "$(wc -l <out)" = 1 ]
judge "and that is JSON" 'd["epochs"] == 4 and d["rows"] == 500'
check "one line per epoch on stderr" [ "$(grep -cE '^epoch [1-4]/4 +loss [0-9.]+ +valid P@1 ' err)" = 4 ]
check "no carriage return when stderr is no terminal" not grep -q $'\r' err
check "no escapes when stderr is no terminal" not grep -q $'\033' err
check "--log: an object an epoch" /usr/bin/python3 -c '
import json
rows = [json.loads(l) for l in open("log")]
assert [r["epoch"] for r in rows] == [1, 2, 3, 4]
assert all(set(r) >= {"epochs", "step", "loss", "lr", "valid_p@1", "best", "rows_per_s", "active_mean", "scored_mean", "seconds"} for r in rows)
assert rows[-1]["loss"] < rows[0]["loss"]
assert [r["last"] for r in rows] == [0, 0, 0, 1] and all(r["peak_bytes"] > 0 for r in rows)'
check "--log: the first line says what the run is" /usr/bin/python3 -c '
import json
rows = [json.loads(l) for l in open("log")]
assert ["run" in r for r in rows] == [True, False, False, False]
run = rows[0]["run"]
assert run["model"] == "m" and run["loss"] == "softmax" and run["features"] == 300 and run["labels"] == 40 and run["parameters"] > 0
assert run["card"]["data"] == "P_train.txt" and run["card"]["epochs"] == 4
assert run["options"] == {"hidden": 8, "epochs": 4, "patience": 0, "loss": "softmax"}'
ok "stopped by --patience" train P_train.txt -o m2 --hidden 8 --epochs 40 --patience 1 --lr 0.5 --log log
check "--log: the last line knows that it is" [ "$(grep -c '"last":1' log)" = 1 -a "$(tail -n 1 log | grep -c '"last":1')" = 1 ]
ok "without validation rows" train P_train.txt -o m2 "${quick[@]}" --holdout 0 --log log --json
judge "the last epoch is kept" 'd["best_epoch"] == 4'
check "--log: begun anew, still JSON" [ "$(/usr/bin/python3 -c 'import json; print(len([json.loads(l) for l in open("log")]))' 2>&1)" = 4 ]
ok "without --json nothing is on stdout" train P_train.txt -o m2 "${quick[@]}"
check "nothing is on stdout" [ ! -s out ]
if script -qec true typescript >/dev/null 2>&1; then # it needs a terminal to give away, too
    script -qec "$wisp train P_train.txt -o m2 --hidden 8 --epochs 3" typescript >/dev/null 2>&1
    check "progress on a terminal stays on one line" grep -q $'\repoch' typescript
else
    skip "progress on a terminal" "no script command, or no terminals here"
fi

# --config
cat >run.conf <<'C'
# a comment
hidden = 8
epochs=4   # another
  patience = 0

loss = softmax
C
ok "--config" train P_train.txt -o m3 --config run.conf
same "--config says the same as flags" m3 m
ok "a flag after --config" train P_train.txt -o m4 --config run.conf --epochs 2
check "a flag after --config wins" grep -q '^epoch 2/2' err
ok "a flag before --config" train --epochs 2 --config run.conf P_train.txt -o m4
check "a flag before --config wins, too" grep -q '^epoch 2/2' err
echo 'epochs = 3' >later.conf
ok "two --config" train P_train.txt -o m4 --config=run.conf --config later.conf
check "two --config: the later wins" grep -q '^epoch 3/3' err
refuse "--config of a folder" 5 "home: expected a plain file, found a folder" train P_train.txt -o x --config home
echo 'config = run.conf' >bad.conf
refuse "a config file in a config file" 2 "bad.conf:1: .*cannot name another" train P_train.txt -o x --config bad.conf
{
    printf 'epochs = 3\n# '
    head -c 5000 /dev/zero | tr '\0' x
    printf '\nepochs = two\n'
} >bad.conf
refuse "a line too long" 2 "bad.conf:2: .*at most 4094 bytes" train P_train.txt -o x --config bad.conf
printf 'epochs = 2\nfly = 1\n' >bad.conf
refuse "an unknown key" 2 "bad.conf:2: .*'fly'" train P_train.txt -o x --config bad.conf
printf 'epochs = two\n' >bad.conf
refuse "a wrong value" 2 "bad.conf:1: --epochs: 'two'" train P_train.txt -o x --config bad.conf
printf 'hidden = 8\nepochs\n' >bad.conf
refuse "no value" 2 "bad.conf:2: expected 'key = value'" train P_train.txt -o x --config bad.conf
printf 'hidden = 8\r\nepochs = 4\r\npatience = 0\r\nloss = softmax\r\n' >dos.conf
ok "CRLF" train P_train.txt -o m3 --config dos.conf
same "CRLF: the same" m3 m
printf 'k = 1,2\njson = yes\n' >eval.conf
ok "eval --config" eval m P_test.txt --config eval.conf
judge "eval --config is obeyed" '"p@2" in d and "p@3" not in d'
ok "-- ends the options" train -o ./-m "${quick[@]}" -- P_train.txt
same "a name that begins with a dash" ./-m m
ok "--key=value" train P_train.txt -o m3 --hidden=8 --epochs=4 --patience=0 --loss=softmax
same "--key=value: the same" m3 m

# synth
ok "synth" synth A --rows 50 --features 30 --labels 10 --test-rows 7 --seed 4
ok "synth again" synth B --shape 50x30x10 --test-rows 7 --seed 4 --threads 1
same "synth: the same seed, the same rows" A_train.txt B_train.txt
same "synth: the same test rows" A_test.txt B_test.txt
check "synth: rows as asked" [ "$(wc -l <A_train.txt) $(wc -l <A_test.txt) $(head -n 1 A_train.txt)" = "51 8 50 30 10" ]
ok "synth with another seed" synth C --shape 50x30x10 --seed 5
check "synth: another seed, other rows" not cmp -s A_train.txt C_train.txt
end
