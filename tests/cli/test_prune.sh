#!/usr/bin/env bash
# wisp prune: the smallest net that is accurate enough, what it says, what it leaves, and stops on the way.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 4000 --features 300 --labels 8 --row-features 12 --row-labels 1 --test-rows 300 --seed 4 >out 2>err || bad synth "the set was not made"
options=(S_train.txt --net "dense 64, relu, dense 64, relu" --epochs 6 --batch 64 --holdout 0.2 --seed 3 --group-penalty 0.01 --target-accuracy-drop 3)

ok "prunes" prune "${options[@]}" -o small --json
cp out first.json
cp err first.err
check "a smaller net, and how much" /usr/bin/python3 -c '
import json
r = json.load(open("first.json"))
assert r["weights_ratio"] > 1.5 and abs(r["weights_before"] / r["weights"] - r["weights_ratio"]) < 1e-6, r
assert r["accuracy_drop"] <= 3 and r["time_ratio"] > 0 and r["flops_ratio"] >= 1, r
rungs = r["frontier"]
assert rungs[0]["penalty"] == 0 and rungs[0]["weights"] == r["weights_before"] and len(rungs) >= 3, rungs
good = [x for x in rungs[1:] if x["valid_p@1"] >= rungs[0]["valid_p@1"] - 3]
assert r["weights"] == min(x["weights"] for x in good), (r["weights"], good)'
check "every one is told of" grep -q '^prune     penalty 0.01: validation P@1' first.err
check "the plan comes first" [ "$(grep -n '^prune     the net as it is, then smaller ones' first.err | cut -d: -f1)" -lt "$(grep -n '^epoch' first.err | head -1 | cut -d: -f1)" ]
check "and how long it will take" grep -qE '^prune     net 1, penalty 0.01, from the [0-9]+ parameters of net 0; about [0-9]+ s left' first.err
check "only the model and the picture are left" test "$(echo small*)" = "small small.svg"
check "the picture is XML, and shows every net once in each panel" /usr/bin/python3 -c '
import json, xml.etree.ElementTree as E
n = len(json.load(open("first.json"))["frontier"])
svg = "{http://www.w3.org/2000/svg}"
root = E.parse("small.svg").getroot()
assert root.tag == svg + "svg" and len(root.findall(svg + "g")) == 4 * n, (n, [x.tag for x in root])
told = [t.text for t in root.iter(svg + "text")]
assert "small: smaller nets, and what they cost" in told and "operations per row" in told, told
w, h = (float(root.get(k)) for k in ("width", "height"))
for t in root.iter(svg + "text"):
    assert 0 < float(t.get("x")) < w and 0 < float(t.get("y")) < h, t.text'
check "operations count the features of a row" /usr/bin/python3 -c '
import json
r = json.load(open("first.json"))["frontier"][0]
nnz = [len(l.split()) - 1 for l in open("S_train.txt").read().split("\n")[1:] if l]
want = 2 * (64 * sum(nnz) / len(nnz) + 64 * 64 + 64 * 8)
assert abs(r["flops"] - want) < 0.01 * want, (r["flops"], want)'
check "a table of all at the end" test "$(grep -c '^prune     [* ] ' first.err)" = "$(/usr/bin/python3 -c 'import json; print(len(json.load(open("first.json"))["frontier"]) + 1)')"
run inspect small --json
check "the model is the small one" /usr/bin/python3 -c '
import json
assert json.load(open("out"))["parameters"] == json.load(open("first.json"))["weights"]'
ok "it predicts" eval small S_test.txt

# Killed on the way: what is finished is not done again, and the end is the same.
"$wisp" prune "${options[@]}" -o again >out 2>err &
pid=$!
for ((i = 0; i < 2000; i++)); do
    grep -q '^prune     penalty' err && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.005
done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
ok "resumed, with a time that was not given before" prune "${options[@]}" -o again --resume --budget 10h --json
check "what was finished is not trained again" grep -q 'again.0: the run is finished' err
check "the weights of one that was left alone" /usr/bin/python3 -c '
import json
a, b = json.load(open("first.json")), json.load(open("out"))
assert [(x["weights"], x["valid_p@1"]) for x in a["frontier"]] == [(x["weights"], x["valid_p@1"]) for x in b["frontier"]], (a, b)'

# Units of the dense layers are nearly all parameters, and hardly an operation.
/usr/bin/python3 -c '
import random
r = random.Random(1)
open("c.bin", "wb").write(b"".join(bytes([i % 4]) + bytes(min(255, r.randrange(128) + 40 * (i % 4)) for _ in range(3072)) for i in range(400)))'
ok "the ladder of a net of images" prune c.bin --net "image, conv 12 3 as c, relu, globalavg, dense 64, relu, dense 64, relu" --group-weights operations,c=0 --epochs 3 \
    --holdout 0.3 --seed 3 --group-penalty 0.05 --target-accuracy-drop 100 --target-speedup 0 --round no --budget 20s -o ladder --json
check "the next penalty goes by the operations that the last one took out" /usr/bin/python3 -c '
import json
rungs, much = json.load(open("out"))["frontier"], 0
for before, a, b in zip(rungs, rungs[1:], rungs[2:]):
    left = a["flops"] / before["flops"]
    times = 4 if left > 0.99 else 2 if left > 0.9 else 2 ** 0.5
    assert abs(b["penalty"] / a["penalty"] - times) < 1e-3, (left, a, b)
    much += left > 0.9 and a["weights"] < 0.9 * before["weights"]
assert much > 0, rungs'
ok "nothing may be lost" prune "${options[@]}" --group-penalty 100 --target-accuracy-drop 0 -o none
check "then the net stays as it is" grep -q 'no smaller net was as accurate' err
ok "no time for a second net" prune "${options[@]}" --budget 0.001s -o short --json
check "then there is one" /usr/bin/python3 -c 'import json; assert len(json.load(open("out"))["frontier"]) == 1'
check "it says so" grep -q '^prune     the time does not reach for another net' err
check "and what became of it" grep -q 'no smaller net was tried: the model is the net as it is' err
ok "time for all" prune "${options[@]}" --budget 10h -o long --json
check "then it is as without" /usr/bin/python3 -c '
import json
assert [x["weights"] for x in json.load(open("out"))["frontier"]] == [x["weights"] for x in json.load(open("first.json"))["frontier"]]'
refuse "a time that is none" 2 "budget: found '5 weeks', expected a time" prune "${options[@]}" --budget "5 weeks" -o x
ok "fast enough" prune "${options[@]}" --target-speedup 0.0001 -o fast
ok "batches of the first run" prune S_train.txt --net "dense 16, relu" --epochs 1 --holdout 0.2 --group-penalty 1 -o batches
check "are those of all" test "$(grep -o '^training .* batch [0-9]*' err | grep -o '[0-9]*$' | sort -u)" = 64
refuse "no validation rows" 2 'pruning needs validation rows' prune "${options[@]}" --holdout 0 -o x
refuse "a picture that cannot be written, before anything is trained" 5 'nowhere/x.svg' prune "${options[@]}" --plot nowhere/x.svg -o y
check "nothing was trained" test ! -e y.0
refuse "no file" 2 '-o MODEL is missing' prune S_train.txt
end
