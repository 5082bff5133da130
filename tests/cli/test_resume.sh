#!/usr/bin/env bash
# A run that is stopped or killed at any moment, and resumed, ends with the bytes of one that was left alone.
# SEED=n repeats the moments of a run (as far as the clock allows).
# shellcheck source=tests/faults/lib.bash
. "$(dirname "$0")/../faults/lib.bash"
RANDOM=${SEED:=$$}
synth P --rows 2400 --features 1000 --labels 100 --row-features 40
synth W --rows 17000 --features 500 --labels 50 --row-features 8 --row-labels 2 --test-rows 10
"$wisp" train W_train.txt -o w --epochs 1 --hidden 4 --batch 512 2>err # makes the cache

pause() { # PID: a random moment within the run, told by the epochs that end: the machine may be busy
    local i more=$((RANDOM % (epochs / 6 + 1)))
    for ((i = 0; i < 2000 && more > 0; i++)); do
        [ "$(grep -c '^epoch' err)" -ge $more ] && break
        kill -0 "$1" 2>/dev/null || return
        sleep 0.005
    done
    sleep 0.0$((RANDOM % 10))$((RANDOM % 10))
}

# attempt SIGNAL: starts or resumes the run and signals it after a while; the exit code in $rc
attempt() {
    local pid
    "$wisp" train "${options[@]}" -o r --resume --checkpoint-steps $((RANDOM % 200)) >out 2>err &
    pid=$!
    pause $pid
    kill -s "$1" $pid 2>/dev/null
    wait $pid 2>/dev/null
    rc=$?
}

# stop_and_go NAME SIGNAL TIMES OPTIONS...: up to TIMES stops, then to the end
stop_and_go() {
    local name="$1 (SEED=$SEED)" n stops=0 began=$EPOCHREALTIME
    options=("${@:4}")
    rm -f r r.* whole whole.*
    ok "$name: a short run" train "${options[@]}" --epochs 5 -o whole
    # as many epochs as take some 0.4 s here: fewer are over before a signal comes, more cost time
    epochs=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { n = 0.4 / (b - a) * 5; printf("%d", n < 8 ? 8 : (n > 300 ? 300 : n)) }')
    options+=(--epochs "$epochs")
    ok "$name: left alone" train "${options[@]}" -o whole
    [ $rc = 0 ] || return
    for ((n = 0; n < $3; n++)); do
        attempt "$2"
        case $rc in
        0) # it was over before the signal came; never stopped, it is begun again
            [ $stops -gt 0 ] || [ $((n + 1)) = "$3" ] && break
            rm -f r r.*
            rc=130
            ;;
        130 | 143 | 137) stops=$((stops + 1)) ;;
        *) bad "$name" "a stopped run gave another exit code" ;;
        esac
        if [ -e r ]; then
            "$wisp" inspect r >out 2>err || bad "$name" "the model on disk is not whole"
        fi
    done
    if [ $rc != 0 ]; then
        ok "$name: resumed to the end" train "${options[@]}" -o r --resume
    fi
    check "$name: it was stopped at all" [ $stops -gt 0 ]
    same "$name: the same bytes" r whole
    check "$name: the states are gone" [ -z "$(compgen -G 'r.*')" ]
}

run_options=(--hidden 48 --patience 0 --batch 64)
stop_and_go "SIGINT" INT 8 P_train.txt "${run_options[@]}"
stop_and_go "SIGTERM, averaging, adagrad" TERM 6 P_train.txt "${run_options[@]}" --average 0.6 --optimizer adagrad
stop_and_go "SIGINT, sgd, two layers" INT 6 P_train.txt "${run_options[@]}" --hidden 32,24 --optimizer sgd --lr 0.5
stop_and_go "SIGINT, moments of bf16" INT 6 P_train.txt "${run_options[@]}" --moments bf16
stop_and_go "SIGINT, windows, bce" INT 6 W_train.txt --hidden 16 --batch 128 --memory 64k --loss bce
stop_and_go "kill -9" KILL 10 P_train.txt "${run_options[@]}"
stop_and_go "kill -9, early stopping, a validation file" KILL 5 P_train.txt "${run_options[@]}" --patience 60 --valid P_test.txt
# most of the time goes into validation: the signals come there
stop_and_go "SIGINT while validating" INT 6 P_test.txt --hidden 256 --patience 0 --valid W_train.txt
touch r.tmp4194305-0 # no process can have this number: what a kill while saving leaves
ok "another run" train P_train.txt -o r --epochs 1 --hidden 8
check "temporaries of the dead are cleaned up" [ -z "$(find . -name 'r*.tmp*')" ]

# --resume where there is nothing to go on from: from the beginning, or nothing is left to do
small=(P_train.txt --hidden 24 --epochs 3 --patience 0 --batch 64)
ok "a small run" train "${small[@]}" -o whole
ok "no state, no model" train "${small[@]}" -o n --resume
check "no state, no model: it says so" grep -q '^resume    n: there is no checkpoint yet: from the beginning$' err
same "no state, no model: from the beginning" n whole
ok "a finished run" train "${small[@]}" -o n --resume --json
check "a finished run: it says so" grep -q '^resume    n: the run is finished: nothing is left to do$' err
check "a finished run: nothing is trained" not grep -q '^epoch' err
judge "a finished run: what it tells of itself" "d['epochs'] == 3 and 0 < d['best_epoch'] <= 3 and d['valid_p@1'] > 0"
same "a finished run is left alone" n whole
refuse "a finished run, other options" 4 "^wisp: n: belongs to another run: --epochs was '3' and is '9'; .*without --resume" \
    train "${small[@]}" -o n --epochs 9 --resume
refuse "a finished run, other data" 4 "^wisp: n: was trained on other data; .*without --resume" train W_train.txt "${small[@]:1}" -o n --resume
ok "a run that keeps its state" train "${small[@]}" -o k --keep-state
check "a run that keeps its state: the last one" [ -s k.state -a ! -e k.state.1 ]
cp P_train.txt n
refuse "no model in its place" 4 "^wisp: n: .*without --resume" train "${small[@]}" -o n --resume
same "refusals leave what is there" n P_train.txt

# dies FSYNC ARGS...: the run kills itself at its n-th fsync, of which each file takes two
dies() {
    inject "fsync $1 once kill" train "${@:2}"
}
for n in 1 2 3 4; do # before the first checkpoint, with an older model in its place; at 4 the first epoch's has replaced it
    cp whole n
    dies $n "${small[@]}" -o n --seed 2
    check "killed at the beginning, $n" [ $rc = 137 ]
    [ $n = 4 ] || same "killed at the beginning, $n: the older model is left" n whole
    if [ $n = 1 ]; then
        refuse "killed at the beginning, 1: the older model is not overwritten" 4 "--seed was '1' and is '2'" train "${small[@]}" -o n --seed 2 --resume
        rm n
    fi
    ok "killed at the beginning, $n: resumed" train "${small[@]}" -o n --seed 2 --resume
    ok "left alone" train "${small[@]}" -o other --seed 2
    same "killed at the beginning, $n: the same bytes" n other
    check "killed at the beginning, $n: nothing is left" [ -z "$(compgen -G 'n.*')" ]
done

# A disk that does not take a file, or its name in the folder: neither goes by without a word.
for n in 1 2; do
    inject "fsync $n once EIO" convert P_test.txt x.npz
    check "fsync $n fails: exit code 5" [ "$rc" = 5 ]
    check "fsync $n fails: a line about it" grep -q 'npz: cannot be written: Input/output error$' err
done
rm -f x.npz

# Where saving takes long, short epochs end without a checkpoint: what they did is done again.  All calls of fsync are then
# fewer than 11, which are three epochs' where it is quick.
small6=("${small[@]}" --epochs 6)
ok "left alone" train "${small6[@]}" -o other
inject "fsync 11 late kill" train "${small6[@]}" -o n
check "saving is slow: it is done a few times only" [ "$rc" = 0 ]
while read -r how from plan; do
    rm -f n n.*
    inject "fsync $plan kill" train "${small6[@]}" -o n
    if [ "$rc" = 0 ]; then skip "saving is $how" "a call of fsync takes long on this machine" && continue; fi
    ok "saving is $how: resumed" train "${small6[@]}" -o n --resume
    check "saving is $how: from epoch $from" grep -q "^resume    n.state: from epoch $from, 0 steps of it done$" err
    same "saving is $how: the same bytes" n other
done <<'END'
slow  2 9 late
quick 5 17 once
END

# damage PATH: turns every bit of a byte
damage() {
    local byte
    byte=$(od -An -tu1 -j20000 -N1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((byte ^ 255)))" | dd of="$1" bs=1 seek=20000 conv=notrunc 2>/dev/null
}
dies 8 "${small[@]}" -o n --checkpoint-steps 5
check "two checkpoints" [ -s n.state -a -s n.state.1 ]
cp n.state state && cp n.state.1 state.1
damage n.state
ok "the newest is damaged" train "${small[@]}" -o n --resume
check "the newest is damaged: it says so" grep -qE '^resume    n.state: .*; going on from the checkpoint before it, n.state.1$' err
check "the newest is damaged: the one before has 10 steps" grep -q '^resume    n.state.1: from epoch 1, 10 steps of it done$' err
same "the newest is damaged: the same bytes" n whole
rm -f n && cp state.1 n.state.1
ok "the newest is not there" train "${small[@]}" -o n --resume --checkpoint-minutes 0.0001
same "the newest is not there: the same bytes" n whole
cp state n.state && cp state.1 n.state.1
damage n.state && damage n.state.1
refuse "both are damaged" 4 "^wisp: n.state: .*no checkpoint before it.*without --resume" train "${small[@]}" -o n --resume
rm -f n n.*

# a row that breaks the numbers: the checkpoint before it stays
(sed -n '1,900p' P_train.txt; echo '1 1:3e38 2:3e38'; sed -n '902,$p' P_train.txt) >bad.txt
broken=(bad.txt --values raw --hidden 24 --epochs 3 --batch 64 --checkpoint-steps 1 -o n)
refuse "no number" 7 "^wisp: .* in epoch 1, by step [0-9]+: the last good model and checkpoint are kept; try a lower --lr than .*--values unit" \
    train "${broken[@]}"
check "no number: a checkpoint is there" [ -s n.state ]
broke=$(sed -n 's/^wisp: .* by step \([0-9]*\):.*/\1/p' err)
refuse "no number: again, from there" 7 "by step $broke" train "${broken[@]}" --resume
check "no number: within one batch" grep -q "^resume    n.state: from epoch 1, $((broke - 1)) steps of it done$" err
rm -f n n.*

# a second signal ends it at once: a step takes a while here
slow=(W_train.txt --hidden 1024 --batch 16000 --epochs 60 --patience 0 --threads 1 -o n)
"$wisp" train "${slow[@]}" >out 2>err &
pid=$!
for _ in $(seq 1000); do grep -q '^epoch' err && break || sleep 0.02; done
kill -s INT $pid
sleep 0.02
kill -s TERM $pid
{ wait $pid; } 2>/dev/null
rc=$?
check "a second signal" [ $rc = 143 ]
check "a second signal: at once" not grep -q 'stopped in epoch' err
rm -f n n.*

# a stopped run, and what --resume refuses
options=(P_train.txt --hidden 48 --epochs 400 --patience 0 --batch 64)
rm -f r r.*
"$wisp" train "${options[@]}" -o r >out 2>err &
pid=$!
for _ in $(seq 200); do grep -q '^epoch' err && break || sleep 0.05; done
kill -s INT $pid
wait $pid
check "there is a state" [ -s r.state ]
cp r.state state
cp r model
rm -f r.state.1
refuse "another batch" 4 "r.state: .*batch.*64.*32" train "${options[@]}" -o r --resume --batch 32
refuse "another learning rate" 4 "r.state: .*lr" train "${options[@]}" -o r --resume --lr 0.01
refuse "another seed" 4 "r.state: .*seed" train "${options[@]}" -o r --resume --seed 9
refuse "another patience" 4 "r.state: .*patience" train "${options[@]}" -o r --resume --patience 3
refuse "another limit of memory" 4 "r.state: .*memory" train "${options[@]}" -o r --resume --memory 1M
refuse "another net" 4 "r.state: .*48.*32" train "${options[@]}" -o r --resume --hidden 32
check "the message is one line" [ "$(grep -c . <(sed -n '/^wisp: /,$p' err))" = 1 ]
refuse "other data" 4 "r.state: .*2400 rows.*17000 rows" train W_train.txt "${options[@]:1}" -o r --resume
damage r.state
refuse "a damaged state" 4 "r.state" train "${options[@]}" -o r --resume
head -c 30000 state >r.state
refuse "a cut state" 4 "r.state" train "${options[@]}" -o r --resume
cp r r.state
refuse "a model for a state" 4 "r.state" train "${options[@]}" -o r --resume
same "refusals leave the model" r model
cp state r.state
mv r aside
refuse "the best model is gone" 4 "^wisp: r: .*gone" train "${options[@]}" -o r --resume
ok "another model in its place" train "${options[@]}" -o r --epochs 1 --seed 5
cp state r.state
refuse "another model there" 4 "^wisp: r: .*not the model" train "${options[@]}" -o r --resume
(head -n 1 P_train.txt; tail -n +2 P_train.txt | tac) >R_train.txt
mv aside r
refuse "the same rows in another order" 4 "r.state: .*data" train R_train.txt "${options[@]:1}" -o r --resume
end
