#!/usr/bin/env bash
# --groups: branches and kernels that a penalty makes 0 and that go from the net, and stops on the way.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 2000 --features 200 --labels 8 --row-features 12 --row-labels 1 --test-rows 300 --seed 4 >out 2>err || bad synth "the set was not made"
common=(--sampling full --batch 50 --lr 0.05 --optimizer sgd --holdout 0.2 --seed 3)
branches=(S_train.txt --net "input 32, relu, 3 x b (as x, dense 24, relu, dense 32, add x, relu)" "${common[@]}" --epochs 9 --groups layers --group-penalty 0.06)

ok "branches go" train "${branches[@]}" -o small
check "it says so" grep -q '^smaller   [0-9]* of [0-9]* parameters are left: input width=32' err
run inspect small --json
check "fewer branches, all widths as they were" /usr/bin/python3 -c '
import json
net = json.load(open("out"))["net"]
assert "3 x" not in net and net.count("add ") < 3 and net.count("dense") == 2 * net.count("add "), net
assert all(w in ("width=24", "width=32") for w in net.replace(",", "").split() if w.startswith("width")), net'
ok "predicts" predict small S_test.txt
ok "with 3 threads" train "${branches[@]}" -o threads --threads 3
check "the same bytes with 3 threads" cmp small threads
ok "goes on from it" train S_train.txt --init small --epochs 1 --sampling full -o more

# Images of three classes that a small kernel tells apart: bright rows, bright columns, noise.
/usr/bin/python3 - <<'PY'
import random, struct
random.seed(5)
pixels, labels = bytearray(), bytearray()
for i in range(900):
    kind = i % 3
    at = random.randrange(8)
    for y in range(8):
        for x in range(8):
            lit = (y == at) if kind == 0 else (x == at) if kind == 1 else (y == x)
            pixels.append(min(255, (180 if lit else 0) + random.randrange(60)))
    labels.append(kind)
open("train-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, 900, 8, 8) + pixels)
open("train-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, 900) + labels)
PY
kernels=(train-images-idx3-ubyte --net "image, conv 6 5, relu, conv 6 3, relu, globalavg" "${common[@]}" --epochs 12 --groups shapes --group-penalty 0.12)
ok "kernels become smaller" train "${kernels[@]}" -o kernel
run inspect kernel --json
check "smaller kernels" /usr/bin/python3 -c '
import json, re
net = json.load(open("out"))["net"]
sizes = [tuple(map(int, s)) for s in re.findall(r"kernel=(\d+)x(\d+)", net)]
assert len(sizes) == 2 and sizes != [(5, 5), (3, 3)] and all(h % 2 and w % 2 for h, w in sizes), net'

# Stopped between the passes that make a net smaller, and elsewhere: the same bytes.
for what in small kernel; do
    [ $what = small ] && options=("${branches[@]}") || options=("${kernels[@]}")
    for stop in 1 2; do
        rm -f r r.*
        "$wisp" train "${options[@]}" -o r --checkpoint-steps 20 >out 2>err &
        pid=$!
        for ((i = 0; i < 2000; i++)); do
            [ "$(grep -c '^smaller' err)" -ge $stop ] && break
            kill -0 $pid 2>/dev/null || break
            sleep 0.005
        done
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        ok "resumed ($what, $stop)" train "${options[@]}" -o r --resume
        check "the bytes of a run that was left alone ($what, $stop)" cmp $what r
    done
done

ok "a penalty that rises" train "${branches[@]}" --penalty-warmup 2 -o slow
check "is another one" not cmp -s small slow
named=(S_train.txt --net "input 32 as first, relu, dense 24 as second, relu" "${common[@]}" --epochs 6 --group-penalty 0.05)
ok "layers that keep what they have" train "${named[@]}" --group-weights first=0 -o kept
run inspect kept --json
check "one keeps its width, the other does not" /usr/bin/python3 -c '
import json
net = json.load(open("out"))["net"]
assert "input width=32 as first" in net and "dense width=24" not in net and "dense width=" in net, net'
ok "a layer that loses more" train "${named[@]}" --group-weights first=0,second=3 -o more
check "is smaller" [ "$(stat -c %s more)" -lt "$(stat -c %s kept)" ]
for what in "third=1:the net has no layer called 'third'" "first:'first': expected NAME=FACTOR" "first=1x:'first=1x': expected" "=1:expected NAME" "first=-1:expected NAME"; do
    refuse "weights ${what%%:*}" 2 "--group-weights: ${what#*:}|${what#*:}" train "${named[@]}" --group-weights "${what%%:*}" -o x
done
ok "weights without a word" train "${named[@]}" -o plain
ok "weights by operations" train "${named[@]}" --group-weights operations -o same
run predict plain S_test.txt && mv out plain.txt
run predict same S_test.txt
check "where every weight works once per row they change nothing" cmp plain.txt out
refuse "a name that is none, before pruning begins" 2 "no layer called 'third'" prune "${named[@]}" --group-weights third=1 -o x
ok "a net that has lost layers" train S_train.txt --init small "${common[@]}" --epochs 3 --group-penalty 0.01 --group-weights b1.fc=2 -o more
check "says which" grep -q "^penalty   --group-weights: the net has no layer called 'b1.fc'" err
# Numbers of channels that are fast here: a table says which, so it is filled in for all instruction sets; eights are fast.
wide=(S_train.txt --net "dense 64 as first, relu, dense 64, relu" "${common[@]}" --epochs 9 --group-penalty 0.014 --round yes)
mkdir -p cache/wisp
chmod 700 cache/wisp
export XDG_CACHE_HOME=$PWD/cache
unset WISP_CONV
ok "counts are measured" train "${wide[@]}" -o round
check "once" [ "$(grep -c '^wisp-widths 1' cache/wisp/conv)" = 1 ]
/usr/bin/python3 - <<'PY'
import re
eights = ",".join(str(int(1000 * ((n + 7) // 8) / 8 * (1.3 if n % 8 else 1))) for n in range(1, 65))
lines = re.sub(r"(?m)^(wisp-widths.*\t)[0-9,]*$", lambda m: m[1] + eights, open("cache/wisp/conv").read())
open("cache/wisp/conv", "w").write(lines)
PY
ok "by the table" train "${wide[@]}" -o round
check "it says so" grep -q '^counts    faster here: ' err
run inspect round --json
check "widths are eights" /usr/bin/python3 -c '
import json, re
widths = [int(w) for w in re.findall(r"width=(\d+)", json.load(open("out"))["net"])]
assert len(widths) == 2 and all(w % 8 == 0 for w in widths) and min(widths) < 64, widths'
ok "with 3 threads" train "${wide[@]}" --threads 3 -o threads
check "the same bytes" cmp round threads

ok "a net without branches" train "${named[@]}" --groups layers -o x
check "says so" grep -q '^penalty   the net has no branch behind a shortcut' err
refuse "connections" 2 "a net with layers 'sparse' can lose channels alone" train S_train.txt --net "sparse random 32 8, relu" "${common[@]}" --epochs 3 --groups channels+layers --group-penalty 0.01 -o x
ok "more epochs with a penalty than there are" train "${named[@]}" --penalty-epochs 100000 -o x
refuse "no such groups" 2 "--groups: no 'rows' in 'channels\+rows'; there are channels, shapes and layers" train "${branches[@]}" --groups channels+rows -o x
refuse "nothing" 2 "--groups: no '' in ''" train "${branches[@]}" --groups "" -o x
end
