#!/usr/bin/env bash
# Files that somebody else put there, files that never end, files that change while they are read; who may read what wisp makes.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 9000 --features 300 --labels 40 --row-features 12 # above 1 MiB, so that there is a cache
head -n 300 P_train.txt | sed 1d >small.txt
quick=(--hidden 8 --epochs 1)
mode() { stat -c %a "$1"; }
soon() { # NAME CODE WORDS ARGS...: as refuse, and at once: a command that waits for a pipe is killed
    timeout 20 "$wisp" "${@:4}" >out 2>err </dev/null
    rc=$?
    if [ $rc != "$2" ]; then bad "$1" "expected exit code $2"
    elif ! grep -qE -e "$3" err; then bad "$1" "expected '$3' on stderr"
    else pass; fi
}

# links that somebody planted
echo precious >victim
ln -s victim P_train.txt.wispcache
ln -s victim m.state
ln -s victim m.state.1
ok "links in the places of cache and checkpoint" train P_train.txt -o m "${quick[@]}"
check "they are told" grep -q 'wispcache: expected a plain file, found a link' err
check "what they lead to is left alone" [ "$(cat victim)" = precious ]
check "a cache takes the place of one" [ ! -L P_train.txt.wispcache -a -s P_train.txt.wispcache ]
check "no checkpoint is left" [ ! -e m.state -a ! -L m.state -a ! -e m.state.1 ]
ln -s victim m.state
refuse "--resume does not read a link" 5 'm.state: expected a plain file, found a link' train P_train.txt -o m "${quick[@]}" --resume
check "--resume leaves its target alone" [ "$(cat victim)" = precious ]
rm m.state
mkdir sub
mv m sub/m
ln -s sub/m linked
ok "a model that is a link of the user's own" train P_train.txt -o linked "${quick[@]}"
check "the link stays" [ -L linked ]
check "its target is the model" [ -s sub/m -a ! -L sub/m ]
mv sub/m m

# pipes: data, model, cache, checkpoint, names, configuration, log, weights
mkfifo pipe
for what in "eval m pipe" "predict m pipe" "convert pipe x.svm"; do
    # shellcheck disable=SC2086
    soon "$what" 5 'pipe' $what
done
soon "eval, the model is a pipe" 5 'pipe: expected a plain file, found a pipe' eval pipe small.txt --no-header
soon "inspect, the model is a pipe" 5 'pipe: expected a plain file, found a pipe' inspect pipe
soon "train, the model is a pipe" 5 'pipe' train small.txt --no-header -o pipe "${quick[@]}"
soon "train, names are a pipe" 5 'pipe: expected a plain file, found a pipe' train small.txt --no-header -o x "${quick[@]}" --labels pipe
soon "train, the configuration is a pipe" 5 'pipe: expected a plain file, found a pipe' train small.txt --no-header -o x "${quick[@]}" --config pipe
soon "train, --init is a pipe" 5 'pipe: expected a plain file, found a pipe' train small.txt --no-header -o x "${quick[@]}" --init pipe
soon "train, --log is a pipe that nobody reads" 5 'pipe' train small.txt --no-header -o x "${quick[@]}" --log pipe
soon "predict, -o is a pipe that nobody reads" 5 'pipe' predict m small.txt --no-header -o pipe
mkfifo x.state
soon "train, the checkpoint is a pipe" 5 'x.state: expected a plain file' train small.txt --no-header -o x "${quick[@]}"
soon "--resume, the checkpoint is a pipe" 5 'x.state: expected a plain file, found a pipe' train small.txt --no-header -o x "${quick[@]}" --resume
rm x.state P_train.txt.wispcache
mkfifo P_train.txt.wispcache
timeout 60 "$wisp" eval m P_train.txt >out 2>err </dev/null
rc=$?
check "the cache is a pipe: rows are read without one" [ $rc = 0 ]
rm P_train.txt.wispcache pipe

# who may read what
umask 022
chmod 600 P_train.txt
ok "private data" train P_train.txt -o m "${quick[@]}" --keep-state
check "its cache is as private" [ "$(mode P_train.txt.wispcache)" = 600 ]
check "a new model is as the umask says" [ "$(mode m)" = 644 ]
chmod 600 m
rm -f m.state
ok "trained again" train P_train.txt -o m "${quick[@]}" --keep-state
check "a private model stays private" [ "$(mode m)" = 600 ]
check "its checkpoint is as private" [ "$(mode m.state)" = 600 ]
rm -f m.state

# small files leave nothing behind
head -c 54 small.txt | head -n 1 >tiny.txt
ok "a small file" predict m small.txt --no-header
ok "a tiny file" predict m tiny.txt --no-header
check "no cache of it" [ -z "$(find . -name 'small.txt*cache*' -o -name 'tiny.txt*cache*')" ]
check "nor elsewhere" [ -z "$(find home -name 'small*' -o -name 'tiny*')" ]

# a cache, a source and a model that are cut or written over while they are used
until_line() { # PATTERN FILE: waits for it
    for _ in $(seq 2000); do grep -qE "$1" "$2" && return; sleep 0.01; done
}
fresh() { : >out; : >err; } # before a command in the background: what the last one said is still there until its shell opens the file
told() { # NAME CODES WORDS: the command that just ended with $rc
    if ! [[ $rc =~ ^($2)$ ]]; then bad "$1" "expected exit code $2"
    elif ! grep -qE "$3" err; then bad "$1" "expected '$3' on stderr"
    else pass; fi
}
synth B --rows 60000 --features 1000 --labels 50 --row-features 60
ok "the large one" eval m B_train.txt # makes the cache
for how in cut over; do
    fresh
    "$wisp" train B_train.txt -o b --hidden 8 --epochs 200 --patience 0 --memory 8M >out 2>err </dev/null &
    pid=$!
    until_line '^epoch' err
    if [ $how = cut ]; then truncate -s 100000 B_train.txt.wispcache; else
        head -c 30000000 /dev/urandom | dd of=B_train.txt.wispcache conv=notrunc bs=1M 2>/dev/null
    fi
    wait $pid
    rc=$?
    told "the cache is changed while training: $how" 5 'B_train.txt.wispcache: was (cut from|changed)'
    rm -f b b.state b.state.1 B_train.txt.wispcache
    "$wisp" eval m B_train.txt >/dev/null 2>&1
done
fresh
"$wisp" train B_train.txt -o b --hidden 8 --epochs 200 --patience 0 >out 2>err </dev/null &
pid=$!
until_line '^epoch' err
truncate -s 100000 B_train.txt.wispcache
sleep 0.3
kill -s INT $pid
wait $pid
rc=$?
told "without --memory the rows are in memory: nothing happens" 130 'stopped in epoch'
rm -f b b.state b.state.1 B_train.txt.wispcache

for _ in 1 2 3 4 5 6; do sed 1d B_train.txt; done >big.txt
"$wisp" train big.txt -o b --no-header --threads 1 "${quick[@]}" >out 2>err </dev/null &
pid=$!
for _ in $(seq 2000); do compgen -G 'big.txt.wispcache.tmp*' >/dev/null && break || sleep 0.002; done
truncate -s 100000 big.txt
wait $pid
rc=$?
told "the source is cut while it is read" 5 'big.txt: was cut from [0-9]+ to 100000 bytes'
check "no cache of a part" [ ! -e big.txt.wispcache ]
rm -f big.txt

synth W --rows 400 --features 40000 --labels 40 --row-features 12
ok "a model of 10 MB" train W_train.txt -o w --hidden 64 --epochs 1
check "it is mapped" [ "$(stat -c %s w)" -gt 4194304 ]
line=$(sed -n 2p W_train.txt)
for how in cut over; do
    cp w w2
    fresh
    { echo "$line"; until_line . out; if [ $how = cut ]; then truncate -s 1000 w2; else cat P_train.txt >w2; fi; echo "$line"; } |
        "$wisp" predict w2 - --no-header >out 2>err
    rc=$?
    told "a model in use is changed: $how" '4|5' 'w2: was (cut|changed)'
    check "a model in use is changed: $how: the first answer was given, no other" [ "$(wc -l <out)" = 1 ]
done
cp m m2
line=$(sed -n 2p P_train.txt)
fresh
{ echo "$line"; until_line . out; truncate -s 1000 m2; echo "$line"; } | "$wisp" predict m2 - --no-header >out 2>err
rc=$?
check "a small model in use is a copy: it serves on" [ $rc = 0 ]
check "a small model in use is a copy: with the same answer" [ "$(sort -u out | wc -l)" = 1 -a "$(wc -l <out)" = 2 ]
check "no temporaries are left" [ -z "$(find . -name '*.tmp*')" ]
end
