#!/usr/bin/env bash
# Exit codes: 2 no card, 3 bad data, 4 bad model, 5 input and output, 7 numbers, 130 and 143 stopped by a signal after saving.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
quick=(--hidden 16 --epochs 2 --batch 64)
synth P --rows 600 --features 400 --labels 60 --row-features 20
ok "train" train P_train.txt -o good "${quick[@]}"

# 2: what a card cannot do, and no card
ok "convert to int8" convert good byte --quantize int8
for command in eval predict; do
    refuse "$command: int8 on a card" 2 "^wisp: --device cuda: a model with weights of int8 has no form for cards; use --device cpu$" \
        $command byte P_test.txt --device cuda
    refuse "$command: another device" 2 "--device: 'tpu' is not one of cpu\|cuda" $command good P_test.txt --device tpu
    ok "$command --device cpu" $command good P_test.txt --device cpu
done
if "$wisp" info --json | grep -q '"cuda"'; then
    skip "no card" "there is one"
    ok "a sampled layer" train P_train.txt -o sampled --net "input 16, relu, sampled 16, relu" --epochs 1
    ok "an odd width" train P_train.txt -o odd --hidden 16,18,16 --epochs 1
    ok "a wide last layer" train P_train.txt -o wide --hidden 16,1028 --epochs 1
    for command in eval predict; do # what the part for cards says, once it is open
        refuse "$command: a sampled layer on a card" 2 "^wisp: --device cuda: a layer 'sampled' has no form for cards" $command sampled P_test.txt --device cuda
        refuse "$command: a wide last layer on a card" 2 "^wisp: --device cuda: a last hidden width of more than 1024 has no form for cards" $command wide P_test.txt --device cuda
        refuse "$command: an odd width on a card" 2 "^wisp: --device cuda: a hidden width that is no multiple of 4" $command odd P_test.txt --device cuda
    done
else
    for command in eval predict; do refuse "$command: no card" 2 "^wisp: --device cuda: " $command good P_test.txt --device cuda; done
    refuse "train: no card" 2 "^wisp: --device cuda: " train P_train.txt -o m --device cuda "${quick[@]}"
    "$wisp" predict good - --device cuda <P_test.txt >out 2>err
    rc=$?
    check "predict from stdin: no card" [ $rc = 2 -a ! -s out ]
fi

# 3: data that breaks its format, with file and line
printf '3 3 2\n0 0:1\n1 1:x 2:1\n0 1:1\n' >bad.txt
refuse "bad value" 3 "bad.txt:3: .*1?:?x" train bad.txt -o m
printf '3 3 2\n0 0:1\n1 1:1\n' >short.txt
refuse "too few rows" 3 "short.txt:" train short.txt -o m
printf '1 3 2\n0 7:1\n' >wide.txt
refuse "feature beyond the header" 3 "wide.txt:2:.*7" train wide.txt -o m
: >empty.txt
refuse "an empty file" 3 "empty.txt" train empty.txt -o m
head -c 300 /dev/urandom | gzip | head -c 200 >cut.txt.gz
refuse "a cut archive" 3 "cut.txt.gz" train cut.txt.gz -o m
refuse "bad validation data" 3 "bad.txt:3:" train P_train.txt -o m --valid bad.txt
refuse "eval of bad data" 3 "bad.txt:3:" eval good bad.txt
refuse "predict of bad data" 3 "bad.txt:3:" predict good bad.txt
refuse "convert of bad data" 3 "bad.txt:3:" convert bad.txt x.npz
check "no model or data was made of it" [ ! -e m -a ! -e x.npz ]
check "no cache was left of it" [ -z "$(find . -name 'bad*cache*' -o -name '*.tmp*')" ]

# 4: a damaged or foreign model
cp good flipped
printf '\377' | dd of=flipped bs=1 seek=20000 conv=notrunc 2>/dev/null
head -c 20000 good >short
{
    cat good
    echo x
} >longer
for m in flipped short longer P_train.txt empty.txt; do
    refuse "eval of a bad model: $m" 4 "$m" eval $m P_test.txt
    refuse "predict with a bad model: $m" 4 "$m" predict $m P_test.txt
    refuse "inspect of a bad model: $m" 4 "$m" inspect $m
done
refuse "start from a bad model" 4 "flipped" train P_train.txt -o m --init flipped "${quick[@]}"

# 5: files
refuse "no data file" 5 "none.txt" train none.txt -o m
refuse "no model file" 5 "none" eval none P_test.txt
refuse "no validation file" 5 "none.txt" train P_train.txt -o m --valid none.txt
refuse "no config file" 5 "none.conf" train P_train.txt -o m --config none.conf
refuse "no file of names" 5 "none.txt" train P_train.txt -o m --labels none.txt
refuse "a folder for data" 3 "home: no pictures" train home -o m
refuse "no output folder" 5 "none/" train P_train.txt -o none/m "${quick[@]}"
refuse "a folder for a model" 5 "home" train P_train.txt -o home "${quick[@]}"
refuse "no folder for a log" 5 "none/log" train P_train.txt -o m --log none/log "${quick[@]}"
refuse "no folder for synth" 5 "none/P" synth none/P --rows 9 --features 9 --labels 3
refuse "no folder for convert" 5 "none/x" convert P_test.txt none/x.npz
"$wisp" predict good P_test.txt >/dev/full 2>err
rc=$?
check "predict to a full disk" [ $rc = 5 ]
check "predict to a full disk is told" grep -q stdout err
"$wisp" eval good P_test.txt --json >/dev/full 2>err
rc=$?
check "eval to a full disk" [ $rc = 5 ]
mkdir locked && chmod 555 locked
if setpriv --bounding-set=-dac_override true 2>/dev/null; then # root writes everywhere, unless it gives that up
    setpriv --bounding-set=-dac_override "$wisp" train P_train.txt -o locked/m "${quick[@]}" >out 2>err
    rc=$?
    check "a folder that may not be written" [ $rc = 5 ]
    check "it is told before the first epoch" not grep -q '^epoch' err
elif [ "$(id -u)" != 0 ]; then
    refuse "a folder that may not be written" 5 "locked" train P_train.txt -o locked/m "${quick[@]}"
else
    skip "a folder that may not be written" "setpriv cannot lower the rights of root here"
fi
cp good kept # a file limit stands in for a full disk; the cache is there already
(
    trap '' XFSZ
    ulimit -f 8
    exec "$wisp" train P_train.txt -o kept --hidden 128 --epochs 1
) >out 2>err
rc=$?
check "a full disk" [ $rc = 5 ]
check "a full disk names the file" grep -q 'kept' err
same "a full disk leaves the old model" kept good
check "a full disk leaves no temporary" [ -z "$(find . -name '*.tmp*')" ]

# 7: numbers
# shellcheck disable=SC2054
wild=(--optimizer sgd --lr 1000 --warmup 0 --batch 32 --hidden 64,64,64,64 --epochs 4)
refuse "a loss that is not finite" 7 "the loss became .*--lr" train P_train.txt -o kept "${wild[@]}"
same "it leaves the old model" kept good
check "it leaves no state" [ ! -e kept.state ]
sed '1!s/:[^ ]*/:3e37/g' P_train.txt >huge.txt
refuse "a last step that leaves weights that are not finite" 7 "" train huge.txt -o kept --optimizer sgd --lr 1000 \
    --values raw --warmup 0 --batch 65536 --epochs 1 --hidden 32
same "it leaves the old model, too" kept good

# 130, 143: a signal stops after saving; --resume goes on
long=(--hidden 64 --epochs 2000 --patience 0 --batch 64)
for sig in INT:130 TERM:143 HUP:129 XCPU:152; do
    rm -f s s.state
    "$wisp" train P_train.txt -o s "${long[@]}" >out 2>err &
    pid=$!
    for _ in $(seq 200); do grep -q '^epoch' err && break || sleep 0.05; done
    kill -s "${sig%:*}" $pid
    wait $pid
    rc=$?
    check "SIG${sig%:*}" [ $rc = "${sig#*:}" ]
    check "SIG${sig%:*}: it says how to go on" grep -q -e '--resume' err
    check "SIG${sig%:*}: a model and a state are there" [ -s s -a -s s.state ]
    ok "SIG${sig%:*}: the model is whole" eval s P_test.txt
done
"$wisp" train P_train.txt -o s "${long[@]}" --resume >out 2>err &
pid=$!
for _ in $(seq 200); do grep -q '^epoch' err && break || sleep 0.05; done
kill -s INT $pid
wait $pid
rc=$?
check "stopped again after a resume" [ $rc = 130 ]
check "the resume did not begin anew" not grep -qE '^epoch +1/' err

# whoever reads stderr is gone: as if it were asked to stop
rm -f s s.state
/usr/bin/python3 - "$wisp" "${long[@]}" >out 2>err <<'P'
import subprocess, sys
run = subprocess.Popen([sys.argv[1], "train", "P_train.txt", "-o", "s", *sys.argv[2:]], stderr=subprocess.PIPE)
for line in run.stderr:
    if line.startswith(b"epoch"): break
run.stderr.close()
sys.exit(run.wait() != 141) # -13: killed by it
P
rc=$?
check "SIGPIPE" [ $rc = 0 ]
check "SIGPIPE: a model and a state are there" [ -s s -a -s s.state ]
ok "SIGPIPE: the model is whole" eval s P_test.txt
rm -f s s.state
(
    trap '' HUP # as nohup does
    exec "$wisp" train P_train.txt -o s "${long[@]}"
) >out 2>err &
pid=$!
for _ in $(seq 200); do grep -q '^epoch' err && break || sleep 0.05; done
kill -s HUP $pid
sleep 0.3
check "SIGHUP is ignored under nohup" kill -s TERM $pid
wait $pid
rc=$?
check "SIGHUP is ignored under nohup: it went on" [ $rc = 143 ]
(
    ulimit -f 8 # SIGXFSZ
    exec "$wisp" train P_train.txt -o limited --hidden 128 --epochs 1
) >out 2>err
rc=$?
check "a file at its limit is a full disk" [ $rc = 5 ]
check "a file at its limit is told" grep -q 'limited' err

# a signal while data are read: there is nothing to save, so it just ends, and leaves nothing; what a kill leaves is swept
synth B --rows 60000 --features 1000 --labels 50 --row-features 60
for _ in 1 2 3 4 5 6; do sed 1d B_train.txt; done >big.txt
"$wisp" train big.txt -o b --no-header --threads 1 >out 2>err &
pid=$!
for _ in $(seq 2000); do compgen -G 'big.txt.wispcache.tmp*' >/dev/null && break || sleep 0.002; done
kill -s TERM $pid
wait $pid 2>/dev/null
rc=$?
check "SIGTERM while reading" [ $rc = 143 ]
check "SIGTERM while reading: at once" [ ! -e big.txt.wispcache ]
check "SIGTERM while reading: no model" [ ! -e b -a ! -s out ]
check "SIGTERM while reading: no temporary" [ -z "$(compgen -G 'big.txt.wispcache.tmp*')" ]
for how in INT TERM HUP; do
    /usr/bin/python3 -c '
import signal, subprocess, sys, glob, time
signal.signal(signal.SIGINT, signal.default_int_handler) # not ignored, as in the background of a script
p = subprocess.Popen([sys.argv[1], "convert", "big.txt", "c.xc", "--no-header", "--threads", "1"], stderr=subprocess.DEVNULL)
while p.poll() is None and not glob.glob("*.tmp*"): time.sleep(0.002)
p.send_signal(getattr(signal, "SIG" + sys.argv[2]))
sys.exit(0 if p.wait() == -getattr(signal, "SIG" + sys.argv[2]) else 1)' "$wisp" $how
    rc=$?
    check "SIG$how while converting" [ $rc = 0 ]
    check "SIG$how while converting: nothing is left" [ -z "$(find . -name '*.tmp*' -o -name 'c.xc' -o -name 'big.txt.wispcache')" ]
done
head -n 5000 B_train.txt | sed 1d >big.txt
touch big.txt.wispcache.tmp4194305-0
ok "the next run" train big.txt -o b --no-header "${quick[@]}"
check "the next run sweeps" [ -z "$(compgen -G 'big.txt.wispcache.tmp*')" ]
end
