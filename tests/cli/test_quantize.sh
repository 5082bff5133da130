#!/usr/bin/env bash
# Smaller models: 'convert --quantize', their size, what they predict, what goes on from them, and what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth Q --rows 4000 --features 3000 --labels 400 --row-features 25 --row-labels 3 --test-rows 500
quick=(--hidden 64 --epochs 6 --batch 64 --lr 0.01 --index yes)
ok "train" train Q_train.txt -o m "${quick[@]}"
cp m m.kept
ok "to bf16" convert m half --quantize bf16
check "it says what it did" grep -qE '^half: bf16 weights, [0-9.]+ MB \(m: [0-9.]+ MB\)$' err
ok "to int8" convert m byte.npz --quantize=int8 # the ending does not count
same "the model is as it was" m m.kept
mv byte.npz byte
ok "bf16 to int8" convert half twice --quantize int8
ok "to 64 values" convert m c64 --quantize c64
ok "to 16 values" convert m c16 --quantize c16
check "it says what it did" grep -qE '^c16: c16 weights, [0-9.]+ MB \(m: [0-9.]+ MB\)$' err
ok "int8 to 16 values" convert byte byte16 --quantize c16
check "smaller and smaller" [ "$(wc -c <half)" -gt "$(wc -c <byte)" -a "$(wc -c <byte)" -gt "$(wc -c <c64)" -a "$(wc -c <c64)" -gt "$(wc -c <c16)" ]
refuse "where it lies" 2 "would be overwritten" convert m.kept m.kept --quantize int8
same "the model is as it was" m.kept m
check "no temporary is left" [ -z "$(find . -name '*.tmp*')" ]

# what is in them: bytes by tensor, and the metadata
for f in m half byte; do "$wisp" inspect $f --json >$f.json; done
check "only weights became smaller, and int8 got its scales" /usr/bin/python3 -c '
import json
m, half, byte = (json.load(open(f + ".json")) for f in ("m", "half", "byte"))
wide = ["0.input.weight", "3.output.weight"]
types = {"bf16": ("BF16", 2), "int8": ("I8", 4)}
for name, d in ("bf16", half), ("int8", byte):
    a, b = ({t["name"]: t for t in x["tensors"]} for x in (m, d))
    assert d.pop("quantized") == name and "quantized" not in m
    for n, t in a.items():
        if n in wide: assert b[n]["dtype"] == types[name][0] and b[n]["bytes"] * types[name][1] == t["bytes"] and b[n]["shape"] == t["shape"], b[n]
        else: assert b[n] == t, (n, t, b[n])
    more = {n + ".scale" for n in wide} if name == "int8" else set()
    assert set(b) - set(a) == more, set(b) - set(a)
    for k in more: assert b[k]["dtype"] == "F32" and b[k]["shape"] == [b[k[:-6]]["shape"][0]], b[k]
    for k in m:
        if k not in ("tensors", "file_bytes", "checksum", "date"): assert m[k] == d[k], k
    assert d["file_bytes"] < m["file_bytes"]'
"$wisp" inspect c16 --json >c16.json
check "16 values, 4 bits per weight, and a scale of each row" /usr/bin/python3 -c '
import json
d = json.load(open("c16.json"))
assert d["quantized"] == "c16"
t = {t["name"]: t for t in d["tensors"]}
w = t["0.input.weight"]
assert w["dtype"] == "U8" and w["shape"] == [3000, 32] and t["0.input.weight.value"]["shape"] == [16] and t["0.input.weight.scale"]["shape"] == [3000], t'
ok "inspect, in words" inspect byte
check "inspect names the types" grep -q 'dtype:I8' out

# prediction: nearly the same, by all ways
for f in m half byte twice c64 c16 byte16; do
    ok "eval $f" eval $f Q_test.txt --json
    cp out $f.json
    ok "eval $f, sparse" eval $f Q_test.txt --inference sparse --json
    cp out $f.sparse
    ok "predict $f" predict $f Q_test.txt -k 400 --json
    cp out $f.all
done
check "precision is nearly the same" /usr/bin/python3 -c '
import json
for kind in "json", "sparse":
    m = json.load(open("m." + kind))
    assert m["p@1"] > 15, m
    for f in "half", "byte", "twice":
        d = json.load(open(f + "." + kind))
        for k in "p@1", "p@3", "p@5": assert abs(d[k] - m[k]) <= 0.6, (f, kind, k, d[k], m[k]) # 3 of 500 rows
    for f in "c64", "c16", "byte16":
        d = json.load(open(f + "." + kind))
        for k in "p@1", "p@3", "p@5": assert abs(d[k] - m[k]) <= 2.5, (f, kind, k, d[k], m[k])'
check "every label has nearly its score" /usr/bin/python3 -c '
import json
def scores(f): return [{l["label"]: l["score"] for l in json.loads(line)["labels"]} for line in open(f + ".all")]
m = scores("m")
for f, most in ("half", 0.02), ("byte", 0.05), ("twice", 0.05), ("c64", 0.3), ("c16", 0.6):
    worst = max(abs(a[l] - b[l]) for a, b in zip(m, scores(f), strict=True) for l in range(400))
    assert 0 < worst < most, (f, worst)'
for isa in $("$wisp" info --json | /usr/bin/python3 -c 'import json, sys; print(*json.load(sys.stdin)["kernels"])'); do
    WISP_ISA=$isa "$wisp" eval byte Q_test.txt --json --inference sparse >out 2>err || continue # not on this machine
    judge "int8 with $isa kernels" "abs(d['p@1'] - $(/usr/bin/python3 -c 'import json; print(json.load(open("byte.sparse"))["p@1"])')) <= 0.4"
done
for isa in $("$wisp" info --json | /usr/bin/python3 -c 'import json, sys; print(*json.load(sys.stdin)["kernels"])'); do
    WISP_ISA=$isa "$wisp" eval c64 Q_test.txt --json >out 2>err || continue
    judge "64 values with $isa kernels" "abs(d['p@1'] - $(/usr/bin/python3 -c 'import json; print(json.load(open("c64.json"))["p@1"])')) <= 0.4"
done
for n in 1 4; do "$wisp" predict byte Q_test.txt --threads $n >threads$n 2>err; done
same "the same for any number of threads" threads1 threads4

# training goes on from it
for f in half byte; do
    ok "--init $f" train Q_train.txt -o on --init $f --epochs 1 --batch 64 --lr 0.0001
    ok "eval of that" eval on Q_test.txt --json
    judge "--init $f starts where it was" "abs(d['p@1'] - $(/usr/bin/python3 -c 'import json; print(json.load(open("m.json"))["p@1"])')) < 5"
done
ok "trained in bf16" train Q_train.txt -o rows16 "${quick[@]}" --epochs 1 --rows bf16
ok "trained in bf16, to int8" convert rows16 x --quantize int8

# refused
refuse "bf16 of bf16" 2 "'0.input.weight' is BF16 already" convert half x1 --quantize bf16
refuse "bf16 of a model trained so" 2 "is BF16 already" convert rows16 x1 --quantize bf16
refuse "bf16 of int8" 2 "is I8 already" convert byte x1 --quantize bf16
refuse "64 of 16 values" 2 "is c16 already" convert c16 x1 --quantize c64
refuse "bit errors in numbers of values" 2 "expected weights of fp32, bf16 or int8" inject c16 Q_test.txt --rate 1e-4 --type fp32
refuse "int8 of int8" 2 "is I8 already" convert byte x1 --quantize int8
refuse "another type" 2 "--quantize: 'int4'" convert m x1 --quantize int4
refuse "data" 2 "expected a model, but Q_train.txt is data, format xc" convert Q_train.txt x1 --quantize int8
refuse "data by another name" 2 "is data, format xc" convert Q_train.txt model.safetensors --quantize bf16
head -c 5000 /dev/zero | tr '\0' 'z' >odd
refuse "anything else" 2 "odd is neither that nor data" convert odd x1 --quantize int8
refuse "a model without --quantize" 2 "m: found a model, expected data" convert m x1.npz
refuse "a model with --quantize no" 2 "m: found a model, expected data" convert m x1 --quantize no
refuse "no file" 5 "none" convert none x1 --quantize int8
refuse "no folder" 5 "nowhere/x1" convert m nowhere/x1 --quantize int8
refuse "a folder" 5 "home" convert m home --quantize int8
head -c 20000 m >cut.model
refuse "a cut model" 4 "cut.model: cut off" convert cut.model x1 --quantize int8
check "none of them left a file" [ -z "$(find . -name 'x1*' -o -name 'model.safe*' -o -name '*.tmp*')" ]
cp half kept # a file limit stands in for a full disk
(
    trap '' XFSZ
    ulimit -f 8
    exec "$wisp" convert m kept --quantize int8
) >out 2>err
rc=$?
check "a full disk" [ $rc = 5 ]
same "a full disk leaves the old model" kept half
check "a full disk leaves no temporary" [ -z "$(find . -name '*.tmp*')" ]
end
