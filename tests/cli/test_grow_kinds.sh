#!/usr/bin/env bash
# Going on (--init) from linear and joint models, which training makes of rows of words by itself: new rows, labels and features,
# what stays, what kills and threads change (nothing), what is refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$wisp" synth S --rows 5000 --features 400 --labels 60 --row-features 10 --test-rows 500 --seed 4 >out 2>err || bad synth "the set was not made"
"$wisp" synth W --rows 6000 --features 900 --labels 5000 --row-features 12 --test-rows 300 --seed 5 >out 2>err || bad synth "the wide set was not made"
/usr/bin/python3 - <<'P'
def cut(name, parts):
    lines = open(name + "_train.txt").read().splitlines()
    n, features, labels = lines[0].split()
    for part, rows in parts(lines[1:]):
        open(f"{name}.{part}", "w").write("%d %s %s\n" % (len(rows), features, labels) + "\n".join(rows) + "\n")
def has(row, low):
    return any(int(l) >= low for l in row.split(" ")[0].split(",") if l)
half = lambda rows: [("a", rows[::2]), ("b", rows[1::2]), ("ab", rows), ("few", rows[1:300:2])]
cut("S", half)
cut("W", half)
# labels from 50 on come up later, with features that the first rows do not have
lines = open("S_train.txt").read().splitlines()[1:]
early = [l for l in lines if not has(l, 50)][:2200]
late = [l + " 400:1" for l in lines if has(l, 50)][:900]
open("early", "w").write("%d 400 50\n" % len(early) + "\n".join(early) + "\n")
open("late", "w").write("%d 401 60\n" % len(late) + "\n".join(late) + "\n")
P
p1() { # MODEL SET: of its test rows
    "$wisp" eval "$1" "$2_test.txt" --json 2>err | /usr/bin/python3 -c 'import json, sys; print(json.loads(sys.stdin.read().splitlines()[-1])["p@1"])'
}
above() { /usr/bin/python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(0 if a > b else "%g is not above %g" % (a, b))' "$@"; }
weights() { # MODEL LABEL: its weights and its bias, as text
    /usr/bin/python3 -c '
import array, json, struct, sys
b = open(sys.argv[1], "rb").read(); n = struct.unpack("<Q", b[:8])[0]; h = json.loads(b[8:8 + n]); label = int(sys.argv[2])
get = lambda k, t: array.array(t, b[8 + n + h[k]["data_offsets"][0]:8 + n + h[k]["data_offsets"][1]])
start, w = get("linear.start", "q"), get("linear.weight", "f")
if "linear.label" in h:
    ids = get("linear.label", "i")
    pairs = [(f, w[e]) for f in range(len(start) - 1) for e in range(start[f], start[f + 1]) if ids[e] == label]
else:
    ids = get("linear.feature", "i")
    pairs = [(ids[e], w[e]) for e in range(start[label], start[label + 1])]
print(pairs, get("linear.bias", "f")[label])' "$@"
}

# ---- linear models ----
for set in S W; do
    for part in a b ab; do ok "$set.$part" train $set.$part --net linear -o $set.$part.m; done
    ok "$set: go on" train $set.b --init $set.a.m -o $set.on
    check "$set: the plan says so" grep -qE "^init +$set.a.m: [0-9]+ old labels kept, 0 new; [0-9]+ old features, 0 new; labels without new rows stay" err
    check "$set: better than the first rows alone" above "$(p1 $set.on $set)" "$(p1 $set.a.m $set)"
    check "$set: better than the new rows alone" above "$(p1 $set.on $set)" "$(p1 $set.b.m $set)"
    check "$set: nearly as good as all rows at once" above "$(p1 $set.on $set)" "$(/usr/bin/python3 -c "print($(p1 $set.ab.m $set) - 4)")"
    ok "$set: with three threads" train $set.b --init $set.a.m -o t --threads 3
    same "$set: the same bytes" $set.on t
    ok "$set: from narrow weights" convert $set.a.m narrow --quantize int8
    ok "$set: go on from them" train $set.b --init narrow -o t
    check "$set: as good" above "$(p1 t $set)" "$(/usr/bin/python3 -c "print($(p1 $set.on $set) - 2)")"
    ok "$set: few new rows" train $set.few --init $set.a.m -o t
    check "$set: harm little" above "$(p1 t $set)" "$(/usr/bin/python3 -c "print($(p1 $set.a.m $set) - 2)")"
done
ok "it is described" inspect S.on --json
judge "it has seen all rows" 'int(d["train_rows"]) == 5000'
killed S.on '^epoch' 1 train S.b --init S.a.m --checkpoint-steps 1
killed W.on '^machine' 1 train W.b --init W.a.m --checkpoint-steps 1
killed W.on '^epoch' 1 train W.b --init W.a.m --checkpoint-steps 1
cp S.ab.m other
ok "a run that is killed" train S.b --init other -o r # its checkpoint is gone when it ends, so it is made anew
"$wisp" train W.b --init W.a.m --checkpoint-steps 1 -o r >out 2>err &
pid=$!
until [ -e r.state ]; do kill -0 $pid 2>/dev/null || break; done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
if [ -e r.state ]; then
    cp W.a.m kept
    cp W.b.m W.a.m
    refuse "another model at the same path" 4 "init-checksum was" train W.b --init W.a.m -o r --resume
    cp kept W.a.m
else
    skip "another model at the same path" "the run was over before it was killed"
fi

# New labels and features; labels without new rows keep their weights to the last bit.
/usr/bin/python3 -c '
lines = open("late").read().splitlines()
keep = [l for l in lines[1:] if not any(int(x) < 10 for x in l.split(" ")[0].split(","))]
open("late10", "w").write("%d 401 60\n" % len(keep) + "\n".join(keep) + "\n")'
ok "a first model" train early --net linear -o e
ok "new labels" train late10 --init e -o g
check "the plan counts them" grep -qE "^init +e: 50 old labels kept, 10 new; 400 old features, 1 new" err
for label in 0 7 9; do check "label $label stays" [ "$(weights e $label)" = "$(weights g $label)" ]; done
check "label 20 moves" [ "$(weights e 20)" != "$(weights g 20)" ]
check "label 55 has weights" not grep -q '^\[\]' <(weights g 55)
check "old labels are still known" above "$(p1 g S)" "$(p1 e S)"
ok "old labels stay" train late10 --init e --old-pace 0 -o g0
for label in 7 20; do check "label $label stays" [ "$(weights e $label)" = "$(weights g0 $label)" ]; done
check "label 55 has weights" not grep -q '^\[\]' <(weights g0 55)
ok "many labels" train W.few --init W.a.m -o g
check "one without rows stays" /usr/bin/python3 -c '
import sys
labels = {int(x) for l in open("W.few").read().splitlines()[1:] for x in l.split(" ")[0].split(",") if x}
open("absent", "w").write(str(next(l for l in range(100, 5000) if l not in labels)))'
check "that label" [ "$(weights W.a.m "$(cat absent)")" = "$(weights g "$(cat absent)")" ]
ok "too few rows to calibrate on" train S.few --init S.a.m -o c --holdout 0
ok "predicts" predict c S_test.txt -k 3
cp out calibrated
ok "raw scores" predict c S_test.txt -k 3 --scores raw
check "its scores are those of the first model's calibration" not cmp -s out calibrated

# Text: names merge.
printf '__label__a red apple\n__label__b blue sky\n__label__a apple pie\n__label__b sky high\n%.0s' {1..12} >t.txt
printf '__label__c green grass\n__label__b blue sky\n__label__c grass snake\n%.0s' {1..12} >more.txt
ok "text" train t.txt --net linear -o t
ok "more text" train more.txt --init t -o more
check "the plan counts words and labels" grep -qE "2 old labels kept, 1 new; .* new; labels" err
printf 'an apple\nthe sky\ngreen snake\n' >lines
"$wisp" predict more lines -k 1 >out 2>err
check "all three labels" [ "$(cut -d : -f 1 out | tr '\n' ' ')" = "a b c " ]

# ---- joint models, and what training makes by itself ----
ok "the default" train S.a -o d --seed 3
ok "goes on" train S.b --init d -o don --seed 3
check "better than before" above "$(p1 don S)" "$(p1 d S)"
pair=(--net linear+net --hidden 32 --epochs 6 --seed 5)
ok "a linear model and a net" train S.a "${pair[@]}" -o p
ok "go on" train S.b --init p --epochs 6 --seed 5 -o pon --json
cp out pon.json
check "the plan says so" grep -q '^joint     goes on from p: its 2 members' err
check "each by itself, the linear one a second time with all rows" [ "$(grep -c '^init ' err)" = 3 ]
judge "the report" 'd["members"] == 2 and d["valid_p@1"] > 0' pon.json
check "better than before" above "$(p1 pon S)" "$(p1 p S)"
check "nothing else is left" [ "$(echo pon*)" = "pon pon.json" ]
ok "is described" inspect pon --json
judge "it has seen all rows" 'd["net"] == "joint" and int(d["train_rows"]) == 5000 and d["card"]["tried"] == 3'
ok "with three threads" train S.b --init p --epochs 6 --seed 5 -o t --threads 3
same "the same bytes" pon t
going=(train S.b --init p --epochs 6 --seed 5 --checkpoint-steps 20)
killed pon '^trial     1' 1 "${going[@]}"
killed pon 'epoch 3/6' 1 "${going[@]}"
killed pon '^trial     3' 1 "${going[@]}"
ok "a finished run is finished" train S.b --init p --epochs 6 --seed 5 -o pon --resume
check "it says so" grep -q 'the run is finished' err
cp p kept
cp pon p
refuse "another model at the same path" 4 "pon: belongs to another run: --init-checksum was" train S.b --init p --epochs 6 --seed 5 -o pon --resume
cp kept p
ok "few rows" train S.few --init p --epochs 2 --seed 5 -o pfew
check "the weights stay" /usr/bin/python3 -c '
import array, json, struct
def mix(path):
    b = open(path, "rb").read(); n = struct.unpack("<Q", b[:8])[0]; a, z = json.loads(b[8:8 + n])["mix"]["data_offsets"]
    return array.array("f", b[8 + n + a:8 + n + z])
assert mix("p") == mix("pfew"), (mix("p"), mix("pfew"))'
ok "new labels" train S.a --net linear+net --hidden 16 --epochs 2 -o q
ok "an early model" train early "${pair[@]}" -o pe
ok "new labels and features" train late --init pe --epochs 6 --seed 5 -o pg
check "both members count them" [ "$(grep -cE '50 old labels kept, 10 new; 400 old features, 1 new' err)" -ge 2 ]
check "new labels are found" above "$(p1 pg S)" "$(p1 pe S)"
ok "nets alone" train S.a --ensemble 2 --hidden 16 --epochs 3 -o n2
ok "go on" train S.b --init n2 --epochs 3 -o n2on
check "not worse" above "$(p1 n2on S)" "$(/usr/bin/python3 -c "print($(p1 n2 S) - 1)")"
ok "text" train t.txt --net linear+net --hidden 8 --epochs 8 -o jt
ok "more text" train more.txt --init jt --epochs 30 -o jmore
"$wisp" predict jmore lines -k 1 >out 2>err
check "all three labels" [ "$(cut -d : -f 1 out | tr '\n' ' ')" = "a b c " ]
ok "many labels" train W.a --net linear+net --hidden 16 --epochs 2 -o wj
ok "go on" train W.b --init wj --epochs 2 -o wjon
check "better" above "$(p1 wjon W)" "$(p1 wj W)"
ok "sparse prediction" eval wjon W_test.txt --inference sparse --json

# ---- what is refused ----
ok "a net" train S.a --hidden 8 --epochs 1 -o net
refuse "a linear model from a net" 2 "init net: found a net model, expected a linear model; leave out --net" train S.b --net linear --init net -o n
refuse "a net from a linear model" 2 "init S.a.m: found a linear model, expected a net; leave out --net" train S.b --hidden 8 --init S.a.m -o n
refuse "a net from a joint model" 2 "init p: found a joint model, expected a net; leave out --net" train S.b --hidden 8 --init p -o n
refuse "other negatives" 2 "negatives: the model --init S.a.m has learnt from 'all'" train S.b --init S.a.m --negatives votes -o n
refuse "no model" 5 "missing" train S.b --init missing -o n
head -c 3000 S.a.m >broken
refuse "a broken model" 4 "broken" train S.b --init broken -o n
check "nothing was written" [ ! -e n ]
end
