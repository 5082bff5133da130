#!/usr/bin/env bash
# Several ranks by mpirun: collectives (tests/unit/test_ranks.c, which needs wisp-mpi.so beside it), and training, where
# losses, P@k, model files and checkpoints must be those of one rank.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cli/mpi.bash
. "$here/mpi.bash"
need_mpi

cp "$build/tests/unit/test_ranks" "$build/wisp-mpi.so" .
for np in 1 2 3; do
    mpi -np $np ./test_ranks
    check "collectives, $np ranks" [ $rc = 0 ]
    check "collectives, $np ranks: all of them ran" [ "$(grep -c ' passed, 0 failed' out)" = $np ]
done
mpi -np 2 ./test_ranks large
check "collectives of more than 64 MiB" [ $rc = 0 ]

# Large messages of Open MPI by TCP: docs/scale.md.  Other MPIs have nothing to say here.
if mpirun --version | grep -q 'Open MPI'; then
    mpi -np 2 --mca mpi_show_mca_params enviro ./test_ranks
    check "large messages are sent plainly" grep -qE 'btl_tcp_flags=send,inplace' out err
    mpi -np 2 --mca mpi_show_mca_params enviro --mca btl_tcp_flags send,put ./test_ranks
    check "... unless somebody has said how" grep -qE 'btl_tcp_flags=send,put' out err
fi
for how in "" later; do
    mpi -np 3 ./test_ranks stall $how
    check "a rank that does not come: the others say so $how" [ "$(grep -c ' passed, 0 failed' out)" = 2 ]
done

# ---- training ----

ok "rows" synth toy --rows 3000 --features 800 --labels 150
how=(--epochs 2 --hidden 32 --precision fp32 --threads 1)

for loss in softmax bce; do
    ok "$loss, alone" train toy_train.txt -o alone.$loss --loss $loss "${how[@]}" --log alone.$loss.log
    ok "$loss, alone: eval" eval alone.$loss toy_test.txt --json
    cp out alone.$loss.json
    for np in 2 3; do
        mpi -np $np "$wisp" train toy_train.txt -o m$np.$loss --loss $loss "${how[@]}" --log m$np.$loss.log --json
        check "$loss, $np ranks" [ $rc = 0 ]
        check "$loss, $np ranks: one speaks" [ "$(wc -l <out)" = 1 ]
        sums=$([ $loss = softmax ] && echo 16 || echo 0) # bytes of a sample: docs/scale.md
        judge "$loss, $np ranks: bytes sent, at most 1.1 of the formula" \
            "0.9 < d['sent_bytes_per_step'] / (2 * ($np - 1) / $np * d['batch'] * (2 * 4 * 32 + $sums) + 40 * ($np - 1)) < 1.1"
        alike "$loss, $np ranks: losses and P@k" alone.$loss.log m$np.$loss.log
        check "$loss, $np ranks: a file of the same size" \
            [ "$(stat -c %s alone.$loss)" = "$(stat -c %s m$np.$loss)" ]
        check "$loss, $np ranks: nothing else is left" [ -z "$(find . -name "m$np.$loss.*" ! -name '*.log')" ]
        ok "$loss, $np ranks: eval by one process" eval m$np.$loss toy_test.txt --json
        judge "$loss, $np ranks: P@1" "abs(d['p@1'] - json.load(open('alone.$loss.json'))['p@1']) < 0.7"
    done
done

# Eval and predict: the same answers, but for the last digit of a score, as sums of ranks round otherwise.
for loss in softmax bce; do
    ok "$loss: predict, alone" predict alone.$loss toy_test.txt -k 5 --threads 1
    cp out alone.answers
    for np in 2 3; do
        mpi -np $np "$wisp" eval alone.$loss toy_test.txt --json
        check "$loss: eval, $np ranks" [ $rc = 0 ]
        judge "$loss: eval, $np ranks: the numbers of one" "all(abs(d[k] - v) < 1e-3 for k, v in json.load(open('alone.$loss.json')).items()
            if '@' in k)"
        mpi -np $np "$wisp" predict alone.$loss toy_test.txt -k 5 --threads 1
        check "$loss: predict, $np ranks" [ $rc = 0 ]
        check "$loss: predict, $np ranks: the answers of one" /usr/bin/python3 - alone.answers out <<'PY'
import sys
a, b = ([[p.rsplit(":", 1) for p in line.split()] for line in open(name)] for name in sys.argv[1:3])
assert len(a) == len(b) == 300, (len(a), len(b))
for x, y in zip(a, b):
    assert [p[0] for p in x] == [p[0] for p in y] or min(abs(float(p[1]) - float(q[1])) for p, q in zip(x, x[1:])) < 2e-4, (x, y)
    assert all(abs(float(p[1]) - float(q[1])) < 2e-4 for p, q in zip(x, y)), (x, y)
PY
    done
done
mpi -np 2 "$wisp" predict alone.bce -
check "stdin has one reader" grep -q '^wisp: -: one process reads stdin' err

# Sampled: every rank finds the same rows, and computes its own; only sums round otherwise.
for finders in neighbours+features+random features+frequency neighbours random; do
    some=("${how[@]}" --sampling $finders --keep 4 --random 12 --carry 6 --frequent 9 --index no)
    ok "$finders, alone" train toy_train.txt -o sampled "${some[@]}" --log sampled.log
    mpi -np 3 "$wisp" train toy_train.txt -o sampled3 "${some[@]}" --log sampled3.log --json
    check "$finders, 3 ranks" [ $rc = 0 ]
    # keys of 8 bytes: 10 to ask for neighbours, 40 of the pot, 64 of the best, 6 that are carried: docs/scale.md
    [[ $finders != neighbours* ]] || judge "$finders, 3 ranks: bytes sent, at most 1.1 of the formula" \
        "0.9 < d['sent_bytes_per_step'] / (4 / 3 * d['batch'] * (2 * 4 * 32 + 16 + 8 * 114) + 8 * 2 * 6 + 40 * 2) < 1.1"
    alike "$finders, 3 ranks: active sets, losses and P@k" sampled.log sampled3.log
done
mpi -np 2 "$wisp" train toy_train.txt -o x "${how[@]}" --sampling neighbours+lsh --index no
check "a finder that several ranks lack: its name" grep -q "^wisp: --sampling neighbours+lsh: 'lsh' has an index" err
check "a finder that several ranks lack: exit code" [ $rc = 2 ]

# A checkpoint says nothing of ranks: what 3 began, 1, 2 and 4 end as one would have.  Rank 0, which renames what it has
# written, kills itself at the 30th renaming: no clock decides how far the run gets.
long=("${how[@]}" --epochs 8 --checkpoint-steps 10)
ok "uninterrupted" train toy_train.txt -o whole "${long[@]}" --log whole.log
for np in 1 2 4; do
    rm -f part*
    mpi -np 3 env LD_PRELOAD="$build/tests/faults/inject.so" INJECT="rename 30 once kill" INJECT_HIT="$work/hit" \
        "$wisp" train toy_train.txt -o part "${long[@]}" --deadline 10
    check "rank 0 was killed on its way" [ -e hit ]
    rm -f hit
    for _ in $(seq 500); do [ ! -e part.lock ] || flock -n part.lock true && break; sleep 0.02; done # ranks end after mpirun
    check "stopped: a checkpoint is there" [ -s part.state.1 ] # at this renaming there is no other
    mpi -np $np "$wisp" train toy_train.txt -o part "${long[@]}" --resume --log part.log
    check "resumed by $np ranks" [ $rc = 0 ]
    check "resumed by $np ranks: says so" grep -qE '^resume .*: from epoch' err
    alike "resumed by $np ranks: losses and P@k" whole.log part.log
done

# broken NAME CODE WORDS ARGS-OF-MPIRUN...: all ranks must exit with CODE, and one of them say WORDS
broken() {
    mpi "${@:4}"
    if [ $rc != "$2" ]; then bad "$1" "expected exit code $2"
    elif ! grep -qE -e "^wisp: $3" err; then bad "$1" "expected '$3' on stderr"
    else pass; fi
}
t=("$wisp" train toy_train.txt -o x "${how[@]}")
head -n 2500 toy_train.txt | sed '1s/3000/2499/' >less.txt
broken "what ranks cannot do" 2 '--average: not with several ranks' -np 2 "${t[@]}" --average 0.5
broken "a rank with other options" 8 'rank 1 \(.*\): its options .* give all ranks the same options' \
    -np 1 "${t[@]}" : -np 1 "${t[@]}" --lr 0.5
broken "a rank with other data" 8 'rank 1 \(.*\): its data is .2499 rows.* give every machine the same files' \
    -np 1 "${t[@]}" : -np 1 "$wisp" train less.txt -o x "${how[@]}"
broken "a rank without its file" 5 'rank 1 \(.*\): nowhere.txt: ' \
    -np 1 "${t[@]}" : -np 1 "$wisp" train nowhere.txt -o x "${how[@]}"
broken "no folder to write to" 5 'nofolder' -np 2 "$wisp" train toy_train.txt -o nofolder/x "${how[@]}"
end
