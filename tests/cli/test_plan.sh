#!/usr/bin/env bash
# inspect --plan: what memory a model takes.  The training step is the one that the run itself planned, its parts do not
# lie over each other while they live, and no moment needs more than the bound.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth S --rows 800 --features 500 --labels 90 --row-features 12 --row-labels 3
quick=(S_train.txt --valid S_test.txt --epochs 1 --threads 2)

cat >sound.py <<'P'
import json, sys
for name, part in json.load(open("out")).items():
    items, moments = part["items"], {}
    up = lambda n: (n + 63) // 64 * 64
    for k in items:
        assert 0 <= k["first"] <= k["last"] and k["at"] % 64 == 0 and k["at"] + k["bytes"] <= part["arena_bytes"], k
        for t in range(k["first"], k["last"] + 1): moments[t] = moments.get(t, 0) + up(k["bytes"])
    for i, a in enumerate(items):
        for b in items[:i]:
            assert a["bytes"] <= b["bytes"], "the largest first"
            alive = a["first"] <= b["last"] and b["first"] <= a["last"]
            assert not alive or a["at"] + a["bytes"] <= b["at"] or b["at"] + b["bytes"] <= a["at"], (name, a, b)
    assert part["bound_bytes"] == max(moments.values(), default=0) <= part["arena_bytes"], name
P
# planned NAME MODEL LOG: what inspect says of a step is what the run said
planned() {
    ok "$1: inspect --plan" inspect "$2" --plan --json --threads 2
    check "$1: parts and moments" /usr/bin/python3 sound.py
    check "$1: what the run said" [ "$(grep '^step ' "$3")" = \
        "$(/usr/bin/python3 -c 'import json; d = json.load(open("out"))["training"]; show = lambda n: "%.2f GiB" % (n / 2**30) if n >= 2**30 / 10 else "%.1f MiB" % (n / 2**20) if n >= 2**20 / 10 else "%.1f KiB" % (n / 2**10)
print("step      %s of values, gradients and scratch; %s are needed at once" % (show(d["arena_bytes"]), show(d["bound_bytes"])))')" ]
}

printf 'input 96, relu, 2 x block (as x, dense 96, bn, relu, dense 96, add x, relu), dropout 0.2\n' >residual.net
nets=("input 256, relu, dropout 0.3" residual.net two-branch "sparse random 400 8, relu, dense 120, clip 6")
for net in "${nets[@]}"; do
    ok "$net: train" train "${quick[@]}" --net "$net" --batch 512 -o m
    cp err said
    planned "$net" m said
    check "$net: memory in units that have something to see" grep -qE '^memory    [0-9.]+ MiB needed \(weights [0-9.]+ [KM]iB, optimizer [0-9.]+ [KM]iB, batch [0-9.]+ MiB, sampling 0\), [0-9.]+ GiB free$' said
    check "$net: the largest parts, before training" grep -qE '^largest   .* of .* [0-9.]+ [KM]iB \(.*\), ' said
done
judge "connections of a sparse layer" 'd["prediction"]["layers"][0] == {"layer": "0.sparse", "flops": 2 * 400 * 8}'
judge "optimizer and batch are the run's" 'd["training"]["optimizer"] == "adam" and d["training"]["batch"] == 512 and d["training"]["output_rows"] == 90'
ok "parameters" inspect m --json
cp out m.json
ok "bytes" inspect m --plan --json --batch 32 --threads 2
judge "weights, and two moments of each" \
    '(n := json.load(open("m.json"))["parameters"]) and d["prediction"]["weights_bytes"] >= 4 * n and 8 * n <= d["training"]["optimizer_bytes"] < 8.6 * n'
judge "a batch of another size" 'd["training"]["batch"] == 32 and d["prediction"]["batch"] == 256'
ok "train, a batch of 32" train "${quick[@]}" --net "${nets[3]}" --batch 32 -o other
cp err said
planned "a batch of 32" other said

/usr/bin/python3 -c '
import random
random.seed(1)
open("d.bin", "wb").write(b"".join(bytes([random.randrange(10)]) + random.randbytes(3072) for _ in range(80)))'
ok "images: train" train d.bin --net "image, conv 16 3, bn, relu, maxpool 2, conv 16 3, relu, globalavg" --epochs 1 --batch 32 --threads 2 -o images
cp err said
planned "images" images said
judge "images: forward, layer by layer" 'd["prediction"]["flops"] == 884736 + 1179648 + 320 == sum(l["flops"] for l in d["prediction"]["layers"]) and [l["layer"] for l in d["prediction"]["layers"]] == ["1.conv", "5.conv", "8.output"]'
judge "images: a step, without the gradient of images" 'd["training"]["flops"] == 2 * 884736 + 3 * (1179648 + 320)'
check "images: what the run said" grep -qE '^work      2.06 MFLOP per image forward, 5.31 MFLOP in training; [0-9]+ MFLOP per epoch$' said
ok "images: for a person" inspect images --plan
check "images: layers, for a person" grep -qE '^ +\{layer:5.conv flops:3538944\}$' out

for options in "--optimizer adagrad --average 0.2" "--loss softmax --smoothing 0.1" "--optimizer sgd --rows bf16 --precision bf16" "--moments bf16 --optimizer adam"; do
    # shellcheck disable=SC2086
    ok "$options: train" train "${quick[@]}" --hidden 200 --batch 256 $options -o m
    cp err said
    planned "$options" m said
done
judge "moments" 'd["training"]["moments"] == "bf16" and d["training"]["averaged_bytes"] == 0'

# The labels of a batch are not known without the rows: those of mean rows stand for them.
ok "few rows: train" train "${quick[@]}" --batch 8 --sampling random --random 10 --keep 2 -o few
ok "few rows" inspect few --plan --json
check "few rows: parts and moments" /usr/bin/python3 sound.py
judge "few rows: not all" 'd["training"]["sampling"] == "random" and 10 < d["training"]["output_rows"] < 90'

# Nets of images within --memory: values are made again on the way back, and the weights are the same.
/usr/bin/python3 - <<'P'
import random
random.seed(1)
open("rows.bin", "wb").write(b"".join(bytes([i % 10]) + random.randbytes(3072) for i in range(48)))
P
images=(rows.bin --net "image, 6 x (conv 16 3, bn, relu), maxpool 2, globalavg" --epochs 2 --batch 16 --holdout 0 --threads 2)
ok "images: train" train "${images[@]}" -o whole
ok "images: weights" convert whole whole.safetensors
ok "images: all of it" inspect whole --plan --json --threads 2
judge "images: nothing is made again" '"again_bytes" not in d["training"]'
all=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["training"]["arena_bytes"])')
for share in 80 60; do
    ok "images: $share % of it" train "${images[@]}" --memory $((all * share / 100 / 1024))k -o part
    cp err said
    check "images: $share %: said" grep -qE '^again     [0-9.]+ .iB of values are not kept but made again .* by [0-9]+ layers: .* per row, [0-9]+ % of a step$' said
    planned "images: $share %" part said
    judge "images: $share %: within it" "d['training']['arena_bytes'] <= $all * $share / 100 and d['training']['whole_bytes'] == $all and d['training']['again_layers'] > 0"
    ok "images: $share %: weights" convert part part.safetensors
    check "images: $share %: the same weights" cmp whole.safetensors part.safetensors
done
refuse "images: too little" 2 'a step of this net takes [0-9.]+ MiB at least \([0-9]+ bytes; [0-9.]+ MiB if nothing were made again on the way back\), found 100.0 KiB; raise it, or take a smaller --batch' train "${images[@]}" --memory 100k -o none

ok "int8" convert m small --quantize int8
ok "weights of int8" inspect small --plan --json
judge "weights of int8" 'd["prediction"]["weights_bytes"] < d["training"]["weights_bytes"] / 2'
for old in dense half int8 radix random sampled; do
    base64 -d "$root/tests/golden/0.1.0/$old.b64" | gzip -d >$old.wisp
    ok "of 0.1.0: $old" inspect $old.wisp --plan --json
    check "of 0.1.0: $old: parts and moments" /usr/bin/python3 sound.py
done
ok "for a person: train" train "${quick[@]}" --net residual.net -o deep
ok "for a person" inspect deep --plan
check "for a person: both" [ "$(grep -cE '^(prediction|training) ' out)" = 2 ]
check "for a person: the largest of many" grep -qE '^        and [0-9]+ more \(--json has them\)$' out
refuse "a batch without --plan" 2 'inspect: --batch: only with --plan' inspect m --batch 3
refuse "no such batch" 2 '--batch: 70000 is not in 0..65536' inspect m --plan --batch 70000
end
