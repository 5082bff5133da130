#!/usr/bin/env bash
# Two runs that would write one model; parts of wisp that somebody left in the current folder.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 400 --features 300 --labels 40 --row-features 12
long=(P_train.txt --hidden 8 --epochs 100000 --patience 0)
begin() { # ARGS...: a run, once it trains; $pid
    "$wisp" train "$@" >first.out 2>first.err </dev/null &
    pid=$!
    for _ in $(seq 2000); do grep -q '^epoch' first.err && break || sleep 0.01; done
}

begin "${long[@]}" -o m
refuse "the second run to one model" 5 "^wisp: m: another run is training it \(process $pid\)" train P_train.txt -o m --hidden 8 --epochs 1
check "the second run comes to it at once" not grep -q '^epoch' err
refuse "by another path" 5 "another run is training it \(process $pid\)" train P_train.txt -o ./home/../m --hidden 8 --epochs 1
ln -s m link
refuse "by a link" 5 "another run is training it \(process $pid\)" train P_train.txt -o link --hidden 8 --epochs 1
refuse "with --resume" 5 "another run is training it \(process $pid\)" train "${long[@]}" -o m --resume
ok "another model beside it" train P_train.txt -o n --hidden 8 --epochs 1
ok "the model so far may be read" eval m P_train.txt
kill -s INT $pid
wait $pid
rc=$?
check "the first run is not disturbed" [ $rc = 130 ]
check "no lock is left" [ ! -e m.lock -a ! -e n.lock ]
ok "the next run" train P_train.txt -o m --hidden 8 --epochs 1
check "no lock is left by a run that ends" [ -z "$(compgen -G '*.lock')" ]

begin "${long[@]}" -o m
kill -s KILL $pid
wait $pid 2>/dev/null
ok "after kill -9 nobody is hindered" train P_train.txt -o m --hidden 8 --epochs 1
check "after kill -9 the next run tidies up" [ -z "$(compgen -G 'm.*')" ]
refuse "a run that fails" 2 "hidden" train P_train.txt -o f --hidden 8x
refuse "a run that fails later" 2 . train P_train.txt -o f --net "input 8, nonsense"
check "leaves no lock" [ ! -e f -a ! -e f.lock ]
echo precious >victim
ln -s victim v.lock
refuse "a link in the place of the lock" 5 'v.lock: ' train P_train.txt -o v --hidden 8 --epochs 1
check "is not followed" [ "$(cat victim)" = precious ]
rm v.lock
mkfifo v.lock
refuse "a pipe in its place" 5 'v.lock: expected a plain file' train P_train.txt -o v --hidden 8 --epochs 1
rm v.lock
if [ "$(id -u)" = 0 ]; then
    : >v.lock
    chown 65534 v.lock
    refuse "another user's file in its place" 5 'v.lock: expected a plain file of this user' train P_train.txt -o v --hidden 8 --epochs 1
else
    skip "another user's file in its place" "only root can give files away"
fi

# parts come from the folder of the command, whatever lies in the current one
if command -v "${CC:=cc}" >/dev/null; then
    mkdir bin here
    cp "$wisp" bin/
    for part in wisp-cuda.so wisp-mpi.so; do
        echo '#include <stdio.h>
            __attribute__((constructor)) static void f(void) { fclose(fopen("opened", "w")); }' |
            $CC -shared -fPIC -x c - -o here/$part
    done
    cd here || exit 1
    # shellcheck disable=SC2034
    for path in '' ':' '.' "$PWD"; do
        for name in wisp ./wisp here/wisp "$PWD/wisp"; do
            (LD_LIBRARY_PATH=$path exec -a "$name" ../bin/wisp eval ../m ../P_train.txt --device cuda) >../out 2>../err </dev/null
            (LD_LIBRARY_PATH=$path OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 exec -a "$name" ../bin/wisp challenge --data . --neurons 1024 --layers 120) >>../out 2>>../err </dev/null
        done
    done
    cd ..
    check "no part of the current folder is opened" [ ! -e here/opened ]
    check "it is told that there is none" grep -q 'wisp-cuda.so: not found' err
else
    skip "parts" "no compiler"
fi
end
