#!/usr/bin/env bash
# What the host does where several ranks have cards, without a card: the part for cards is that of tests/fakes/card.c, which says
# what it is asked for.  What cards do themselves: tests/gpu/ranks.bash.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cli/mpi.bash
. "$here/mpi.bash"
need_mpi

mkdir fake
cp "$build/wisp" "$build/wisp-mpi.so" fake
ok_cc() { check "$1" "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I"$root/include" -I"$root/src" -Wall -Wextra -Werror -fPIC -shared "${@:2}"; }
ok_cc "a part for cards without a card" "$root/tests/fakes/card.c" -o fake/wisp-cuda.so
wisp=$work/fake/wisp
ok "rows" synth toy --rows 1001 --features 60 --labels 12
how=(--sampling full --hidden 16 --batch 66 --epochs 3 --threads 1 --device cuda)

# as_one NAME RANKS CARDS NCCL WORDS OPTIONS...: the losses of one rank, whole numbers that are the same in all digits
as_one() {
    export FAKE_CARDS=$3 FAKE_NCCL=$4
    rm -f ./m m.log
    if [ "$2" = 1 ]; then
        "$wisp" train toy_train.txt -o m "${how[@]}" "${@:6}" --log m.log --json >out 2>err
        rc=$?
    else
        mpi -np "$2" "$wisp" train toy_train.txt -o m "${how[@]}" --divide samples "${@:6}" --log m.log --json
    fi
    check "$1" [ $rc = 0 ]
    cp err said
    check "$1: who adds up" grep -qE -e "^exchange  gradients of $2 ranks? are added up by $5$" said
    check "$1: one speaks" [ "$(wc -l <out)" = 1 ]
    check "$1: losses" diff <(losses alone.log) <(losses m.log)
}
losses() { grep -oE '"(epoch|step|loss)":[^,]*' "$1"; }
export FAKE_CARDS=1 FAKE_NCCL=0
ok "one rank" train toy_train.txt -o alone "${how[@]}" --log alone.log --json
check "one rank: nothing is exchanged" not grep -q '^exchange' err
check "one rank: it has losses" [ "$(losses alone.log | grep -c '^"loss":[1-9]')" = 3 ]
as_one "one rank that is asked to, by the host" 1 1 0 "the host" --exchange host
as_one "one rank that is asked to, by NCCL" 1 1 1 "NCCL 0.0.0" --exchange nccl
as_one "two ranks on a card" 2 1 1 "the host; some ranks share a card"
check "two ranks on a card: each has half of it" grep -qE '^device .*, 0.50 GiB allowed$' said
as_one "two ranks on two cards" 2 2 1 "NCCL 0.0.0"
as_one "two ranks on two cards, by the host" 2 2 1 "the host" --exchange host
as_one "two ranks without NCCL" 2 2 0 "the host"
as_one "three ranks on two cards" 3 2 1 "the host; some ranks share a card"
as_one "checkpoints on the way" 3 3 0 "the host" --checkpoint-steps 2
judge "bytes that are sent in a step" "0 < d['sent_bytes_per_step'] < 2000"

# 907 training rows in batches of 302: the last one has a sample for rank 0 and none for the others.
ok "one rank, a batch of one sample" train toy_train.txt -o alone "${how[@]}" --batch 302 --log alone.log
judge "a batch of one sample: it has four steps in each epoch" "d['step'] == 12" <(tail -n 1 alone.log)
as_one "a batch of one sample, three ranks" 3 3 0 "the host" --batch 302

# fails NAME WORDS ...: all end, and one line says why
fails() {
    mpi -np 2 "$wisp" train toy_train.txt -o x "${how[@]}" --divide samples --deadline 5 --quiet "${@:3}"
    check "$1: code 2" [ $rc = 2 ]
    check "$1: one line" [ "$(grep -c '^wisp: ' err)" = 1 ]
    check "$1: which says why" grep -qE -e "^wisp: $2" err
}
export FAKE_CARDS=2 FAKE_NCCL=1
for call in create meet; do
    FAKE_FAIL=$call fails "a rank fails in $call" "rank 1 \(.*\): fake: $call failed on card 1$"
done
FAKE_CARDS=1 fails "two ranks on a card, and NCCL" "--exchange nccl: two ranks work on the same card" --exchange nccl
FAKE_NCCL=0 fails "no NCCL" "--exchange nccl: no NCCL: it is a fake; take --exchange host" --exchange nccl
mpi -np 2 "$wisp" train toy_train.txt -o x "${how[@]}" --divide samples --cards 2 --quiet
check "ranks of mpirun, and --cards: refused" [ $rc = 2 ]
check "ranks of mpirun, and --cards: says why" grep -q '^wisp: --cards: mpirun or srun has started 2 ranks already' err
for what in host nccl; do
    refuse "how cards exchange, without a card: $what" 2 '^wisp: --exchange: says how cards exchange; add --device cuda' train toy_train.txt -o x \
        --hidden 16 --epochs 1 --exchange $what
done
export FAKE_BYTES=$((600 << 20))
mpi -np 2 "$wisp" train toy_train.txt -o m "${how[@]}" --divide samples
check "two that need more than half of a card, with two cards" [ $rc = 0 ]
FAKE_CARDS=1 mpi -np 2 "$wisp" train toy_train.txt -o x "${how[@]}" --divide samples --quiet
check "two that need more than half of a card, with one" grep -q '^wisp: --device cuda: 0.59 GiB needed by each rank, 0.50 GiB allowed on its card' err
unset FAKE_BYTES

# In the middle of steps a rank fails alone: it says so, and mpirun ends the others, long before their deadline.
for call in run wait; do
    FAKE_FAIL=$call MPI_TIMEOUT=60 mpi -np 2 "$wisp" train toy_train.txt -o x "${how[@]}" --divide samples --deadline 3000 --quiet
    check "a rank fails in $call: code 8" [ $rc = 8 ]
    check "a rank fails in $call: it says so" grep -qE "^wisp: rank 1 \(.*\): fake: $call failed on card 1$" err
done

# What ranks began others end, with the same losses.
rm -f ./m m.log
mpi -np 2 "$wisp" train toy_train.txt -o whole "${how[@]}" --divide samples --log whole.log
check "whole" [ $rc = 0 ]
check "nothing else is left" [ -z "$(find . -maxdepth 1 -name 'whole.*' ! -name '*.log')" ]
ok "the model predicts on cores" predict whole toy_test.txt --threads 1
end
