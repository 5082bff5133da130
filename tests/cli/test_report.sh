#!/usr/bin/env bash
# wisp report: logs of runs as one page.  How the page looks in a browser: test_pages.py.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 500 --features 300 --labels 40 --row-features 12
quick=(--epochs 4 --patience 0 --loss softmax)
ok "a narrow run" train P_train.txt -o m --hidden 8 "${quick[@]}" --log narrow.jsonl
ok "a wide run" train P_train.txt -o m --hidden 16 "${quick[@]}" --log wide.jsonl

ok "one log" report narrow.jsonl -o one.html
check "it says what it wrote" grep -q '^saved     one.html: 1 log$' err
check "nothing on stdout" [ ! -s out ]
ok "two logs" report narrow.jsonl wide.jsonl -o two.html --quiet
check "--quiet" [ ! -s err ]
check "it needs nothing else" not grep -qiE '<script|src=|<link|url\(|https?:|@import' one.html two.html
check "the same logs, the same bytes" bash -c '"$0" report narrow.jsonl wide.jsonl -o again.html --quiet && cmp two.html again.html' "$wisp"
check "figures, options and curves" /usr/bin/python3 -c '
import json, re
html = open("two.html").read()
text = re.sub(r"<[^>]*>", " ", html)
for name in ("narrow", "wide"):
    rows = [json.loads(line) for line in open(name + ".jsonl")]
    kept = [r for r in rows if r["best"]][-1]
    assert "%.2f" % kept["valid_p@1"] in text and "%.4f" % kept["valid_loss"] in text, name
differ = html[html.index("What differs"):html.index("What the runs have in common")]
assert re.findall("<th scope=\"row\">(.*?)</th>", differ) == ["net", "parameters", "hidden"], differ
assert "as by default" not in differ and ">8</td>" in differ and ">16</td>" in differ
assert html.count("<figure") >= 9 and html.count("<h1>") == 1'

# Times of thousandths of a second have long numbers.
/usr/bin/python3 -c '
import json
row = json.loads(open("narrow.jsonl").readline())
with open("times.jsonl", "w") as f:
    for n in 1, 2, 3, 4:
        f.write(json.dumps({**row, "epoch": n, "train_seconds": 0.00017 * n, "seconds": 0.00017 * n, "last": int(n == 4)}) + "\n")'
ok "short times" report times.jsonl -o times.html
check "numbers below a chart do not touch each other" /usr/bin/python3 -c '
import re
html = open("times.html").read()
charts = [re.findall("<text x=\"([0-9.]+)\" y=\"208.0\" class=\"mid\">([^<]*)<", chart) for chart in html.split("<svg")[1:]]
assert any(len(max((t for _, t in c), key=len, default="")) >= 5 for c in charts), charts
for chart in charts:
    for (a, s), (b, t) in zip(chart, chart[1:]):
        assert float(b) - float(a) > 7 * (len(s) + len(t)) / 2, (s, t)'

# what is not in a log is said
head -c -30 narrow.jsonl >cut.jsonl
ok "a log that is cut" report cut.jsonl -o cut.html
check "is noted" grep -q '^cut.jsonl: The last line of the log is cut' err
check "on the page, too" grep -q 'last line of the log is cut' cut.html
check "the rest of it is there" grep -q '>4, not finished\|>3<small> of 4, not finished' cut.html
/usr/bin/python3 -c '
import json, sys
for line in open("wide.jsonl"):
    row = json.loads(line)
    for key in ("run", "last", "peak_bytes"):
        row.pop(key, None)
    print(json.dumps(row))' >old.jsonl
ok "a log of 0.1.0" report old.jsonl narrow.jsonl -o old.html
check "is noted" grep -q '^old.jsonl: The log does not say what the run is' err
ok "stopped, and resumed" train P_train.txt -o r --hidden 8 --epochs 2 --patience 0 --loss softmax --log r.jsonl
cat narrow.jsonl >>r.jsonl
ok "two runs in a log" report r.jsonl -o r.html
check "they are two" grep -q 'r.jsonl (2)' r.html
ok "a linear model" train P_train.txt -o l --net linear --log linear.jsonl
ok "two nets as one model" train P_train.txt -o e --ensemble 2 --hidden 8 --epochs 2 --log joint.jsonl
ok "their logs" report linear.jsonl joint.jsonl -o kinds.html
check "say what they are" not grep -q 'not known\|not ended' err
check "a run for each net" grep -q 'joint.jsonl (2)' kinds.html
evil='a<b>"c&.jsonl'
cp narrow.jsonl "$evil"
ok "a name that is markup" report "$evil" -o evil.html
check "is shown as it is" grep -q 'a&lt;b&gt;&quot;c&amp;.jsonl' evil.html
check "and nothing else" not grep -q '<b>' evil.html

refuse "no such log" 5 'none.jsonl: cannot be opened' report none.jsonl -o x.html
refuse "data is no log" 3 'P_train.txt:1: expected the line of an epoch' report narrow.jsonl P_train.txt -o x.html
: >empty
refuse "an empty log" 3 'empty: the log is empty' report empty -o x.html
refuse "a folder" 5 'home' report home -o x.html
refuse "no -o" 2 '-o FILE is missing' report narrow.jsonl
refuse "no log" 2 'usage: wisp report LOG' report -o x.html
refuse "over a log" 2 'would be overwritten' report narrow.jsonl wide.jsonl -o ./wide.jsonl
refuse "no folder for it" 5 'none/x.html' report narrow.jsonl -o none/x.html
refuse "an option of train" 2 "'--epochs' is no option of report" report narrow.jsonl -o x.html --epochs 3
check "no page was left behind" [ ! -e x.html ]
end
