#!/usr/bin/env bash
# A run that is stopped or killed at any moment, and resumed, ends with the bytes of one that was left alone.
# SEED=n repeats the moments of a run (as far as the clock allows).
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
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
    local more=() pid
    [ -e r.state ] && more=(--resume)
    "$wisp" train "${options[@]}" -o r "${more[@]}" >out 2>err &
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
    rm -f r r.state whole whole.state
    ok "$name: a short run" train "${options[@]}" --epochs 5 -o whole
    # as many epochs as take some 0.4 s here: fewer are over before a signal comes, more cost time
    epochs=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { n = 0.4 / (b - a) * 5; printf("%d", n < 8 ? 8 : (n > 300 ? 300 : n)) }')
    options+=(--epochs "$epochs")
    ok "$name: left alone" train "${options[@]}" -o whole
    [ $rc = 0 ] || return
    for ((n = 0; n < $3; n++)); do
        attempt "$2"
        case $rc in
        0) break ;;
        130 | 143 | 137) stops=$((stops + 1)) ;;
        *) bad "$name" "a stopped run gave another exit code" ;;
        esac
        if [ -e r ]; then
            "$wisp" inspect r >out 2>err || bad "$name" "the model on disk is not whole"
        fi
    done
    if [ $rc != 0 ]; then
        local more=()
        [ -e r.state ] && more=(--resume)
        ok "$name: resumed to the end" train "${options[@]}" -o r "${more[@]}"
    fi
    check "$name: it was stopped at all" [ $stops -gt 0 ]
    same "$name: the same bytes" r whole
    check "$name: the state is gone" [ ! -e r.state ]
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

# a stopped run, and what --resume refuses
options=(P_train.txt --hidden 48 --epochs 400 --patience 0 --batch 64)
rm -f r r.state
"$wisp" train "${options[@]}" -o r >out 2>err &
pid=$!
for _ in $(seq 200); do grep -q '^epoch' err && break || sleep 0.05; done
kill -s INT $pid
wait $pid
check "there is a state" [ -s r.state ]
cp r.state state
cp r model
refuse "no state" 5 "none.state" train "${options[@]}" -o none --resume
check "no state: it says what to do" grep -qE 'without --resume|start anew|no run' err
refuse "another batch" 4 "r.state: .*batch.*64.*32" train "${options[@]}" -o r --resume --batch 32
refuse "another learning rate" 4 "r.state: .*lr" train "${options[@]}" -o r --resume --lr 0.01
refuse "another seed" 4 "r.state: .*seed" train "${options[@]}" -o r --resume --seed 9
refuse "another patience" 4 "r.state: .*patience" train "${options[@]}" -o r --resume --patience 3
refuse "another limit of memory" 4 "r.state: .*memory" train "${options[@]}" -o r --resume --memory 1M
refuse "another net" 4 "r.state: .*48.*32" train "${options[@]}" -o r --resume --hidden 32
check "the message is one line" [ "$(grep -c . <(sed -n '/^wisp: /,$p' err))" = 1 ]
refuse "other data" 4 "r.state: .*2400 rows.*17000 rows" train W_train.txt "${options[@]:1}" -o r --resume
byte=$(od -An -tu1 -j30000 -N1 r.state) # every bit of it is turned, whatever it was
# shellcheck disable=SC2059
printf "\\$(printf %03o $((byte ^ 255)))" | dd of=r.state bs=1 seek=30000 conv=notrunc 2>/dev/null
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
