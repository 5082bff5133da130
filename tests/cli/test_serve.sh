#!/usr/bin/env bash
# wisp serve: a server on a port that the system chooses, asked over loopback only.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

if [ ! -f "$build/wisp-http.so" ]; then
    skip "wisp serve" "this build has no wisp-http.so (libmicrohttpd-dev, or HTTP=0)"
    end
fi
if ! command -v curl >/dev/null; then
    skip "wisp serve" "there is no curl (apt-get install curl)"
    end
fi
mkdir alone && cp "$wisp" alone/wisp
alone/wisp serve model >out 2>err
rc=$?
check "without wisp-http.so: exit code 2" [ $rc = 2 ]
check "without wisp-http.so: the package is named" grep -q 'wisp-http.so: not found.*libmicrohttpd-dev' err

# start ARGS...: a server in the background; $server is its process, $url where it is
start() {
    "$wisp" serve --port 0 "$@" >served.out 2>served.err </dev/null &
    server=$!
    for _ in $(seq 100); do
        url=$(sed -n 's/^listening on \(http.*\)$/\1/p' served.err)
        [ -n "$url" ] && return
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    bad "start $*" "$(cat served.err)"
}
stop() {
    kill -TERM $server
    wait $server
    rc=$?
}
printf 'text,labels\n%s\n' 'how long does bread keep,bread|storage' 'my sponge cake sank,cake' 'too much salt in the broth,soup' >questions.csv
for _ in 1 2 3 4 5; do tail -n +2 questions.csv; done >more && cat more >>questions.csv
ok "a model" train questions.csv -o model --label-separator '|' --epochs 3 --hidden 16
start model
# Every curl of docs/serve.md, as it stands but for the port.
n=0
while read -r line; do
    bash -c "${line//http:\/\/127.0.0.1:8080/$url} --fail-with-body" >out 2>err
    rc=$?
    n=$((n + 1))
    check "docs/serve.md: ${line:0:100}" [ $rc = 0 -a -s out ]
done < <(grep -E '^curl ' "$root/docs/serve.md")
check "docs/serve.md has examples" [ $n -ge 12 ]
check "a text" [ "$(curl -s -d '{"text":"rye BREAD"}' "$url/predict" | grep -c '"label":"bread"')" = 1 ]
check "live" [ "$(curl -s "$url/v2/health/live")" = '{"live":true}' ]
check "ready" [ "$(curl -s "$url/v2/health/ready")" = '{"ready":true}' ]
check "no such path: 404" [ "$(curl -s -o out -w '%{http_code}' "$url/nothing")" = 404 ]
judge "no such path: JSON" 'd["error"]["status"] == 404 and "/nothing" in d["error"]["message"]'
check "another method: 405" [ "$(curl -s -o out -w '%{http_code}' -d x "$url/v2/health/live")" = 405 ]
stop
check "SIGTERM ends it with 0" [ $rc = 0 ]
end
