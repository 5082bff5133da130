# Text as people have it: CSV, TSV, JSON lines, capitals and punctuation; what a model remembers of it.
. "$(dirname "$0")/lib.bash"

/usr/bin/python3 - <<'PY'
import csv, json
lines = []
for i in range(60):
    lines += [("bread", f"How LONG does rye bread keep, number {i}?"), ("cake", f'My "sponge" cake; it sank! ({i})'),
              ("soup & stew", f"The broth is too salty: help {i}"), ("bread", f"Bread, sourdough starter no. {i}")]
with open("d.csv", "w", newline="") as f:
    w = csv.writer(f)
    w.writerow(["id", "text", "label"])
    w.writerows([i, t.replace(": ", ":\n"), y] for i, (y, t) in enumerate(lines))
def put(name, head, label):
    with open(name, "w", newline="") as f:
        w = csv.writer(f)
        w.writerows(([["id", "text", "label"]] if head else []) + [[i, t, label(y)] for i, (y, t) in enumerate(lines)])
put("nameless.csv", False, lambda y: y)
put("unlabelled.csv", True, lambda y: "")
put("several.csv", True, lambda y: y + ";food")
with open("d.tsv", "w", newline="") as f:
    w = csv.writer(f, delimiter="\t")
    w.writerow(["kind", "title", "more"])
    w.writerows([y, *t.split(" ", 1)] for y, t in lines)
with open("d.jsonl", "w") as f:
    for i, (y, t) in enumerate(lines):
        f.write(json.dumps({"n": i, "labels": [y], "text": t}) + "\n")
with open("plain", "w") as f:
    f.writelines(t + "\n" for _, t in lines)
PY

# answer NAME PATTERN MODEL TEXT: the best label of a text from stdin
answer() {
    printf '%s\n' "$4" | "$wisp" predict "$3" - -k 1 >out 2>err
    rc=$?
    check "$1" grep -q "$2" out
}

ok "csv" train d.csv -o csv --epochs 30
ok "csv: eval" eval csv d.csv --json
judge "csv: learnt" 'd["rows"] == 240 and d["p@1"] > 95'
ok "plain lines for a model of csv" predict csv plain -k 1
check "a line out for every line in" [ "$(wc -l <out)" = 240 ]
check "names with blanks" grep -q '^soup & stew:' out
answer "capitals and punctuation" '^bread:' csv "HOW LONG DOES RYE BREAD KEEP???"
cp out once
answer "do not matter" '^bread:' csv "how long does rye bread keep"
same "at all" out once

ok "json lines" train d.jsonl -o jsonl --epochs 30
ok "json lines: eval of csv" eval jsonl d.csv --json
judge "json lines: learnt" 'd["rows"] == 240 and d["p@1"] > 95'
head -3 d.jsonl >three
ok "json lines for answers" predict jsonl three -k 1
check "one for each" [ "$(wc -l <out)" = 3 ]

refuse "columns of other names" 3 "no column of text among 'kind', 'title', 'more'" train d.tsv -o tsv
ok "named" train d.tsv -o tsv --text-column title,more --label-column kind --epochs 30
ok "columns are remembered" eval tsv d.tsv --json
judge "tsv: learnt" 'd["p@1"] > 95'
printf 'rye bread keep\n' | "$wisp" explain tsv - >out 2>err
rc=$?
check "a line that is typed is no table" [ $rc = 0 ]
check "and is explained" grep -q '^row 1: bread' out
"$wisp" explain tsv - <d.tsv >out 2>err
check "a table is" [ "$(grep -oE '^row [0-9]+' out | sort -u | wc -l)" = 240 ]
refuse "and missed by name" 3 "'title,more'" eval tsv d.csv
ok "unless told" eval tsv d.csv --text-column text --label-column label --json
judge "otherwise" 'd["p@1"] > 95'

"$wisp" predict csv - -k 1 --format csv <d.csv >out 2>err
rc=$?
check "a table from stdin: an answer for every row" [ "$rc $(wc -l <out)" = "0 240" ]

"$wisp" predict csv - -k 1 <d.csv >out 2>err
rc=$?
check "which nobody takes for lines of text" [ "$rc $(wc -l <out)" = "2 0" ]
check "and which says what to do" grep -q 'name the format: --format csv' err
# A table without labels, whose columns the model knows: its header is no row.
printf 'id,text\n1,"rye\nbread"\n2,sponge\n' >bare.csv
"$wisp" predict csv - -k 1 <bare.csv >out 2>err
rc=$?
check "a table without labels from stdin is one, too" [ "$rc $(wc -l <out)" = "2 0" ]
printf 'Text\nrye bread\nsponge\n' >column
ok "one column, by its usual name" predict csv column -k 1
check "its name is no row" [ "$(wc -l <out)" = 2 ]
ok "without a header" train nameless.csv --no-header --text-column 2 --label-column 3 -o nameless --epochs 3
ok "as the model remembers" predict nameless nameless.csv
check "every row is answered" [ "$(wc -l <out)" = 240 ]
ok "unless told" predict nameless d.csv --no-header=0
check "the names of columns are no row" [ "$(wc -l <out)" = 240 ]
ok "and goes on with" train nameless.csv --init nameless -o further --epochs 1
ok "as its successor does" predict further nameless.csv
check "every row is answered again" [ "$(wc -l <out)" = 240 ]
printf 'Question, how long does rye bread keep\nWell, sponge cake sank\n' >prose
ok "prose with a column's name in it" predict csv prose -k 1
check "is no table" [ "$(wc -l <out)" = 2 ]
refuse "rows without labels" 3 'unlabelled.csv: none of the 240 rows has a label' train unlabelled.csv -o none
head -n 1 d.csv >header.csv
refuse "a header alone, to train on" 3 'header.csv: there are no rows to train on' train header.csv -o none
refuse "a header alone, to evaluate" 3 'header.csv: there are no rows to evaluate the model on' eval csv header.csv
refuse "rows without labels, to evaluate" 3 'unlabelled.csv: none of the 240 rows has a label' eval csv unlabelled.csv
refuse "rows without labels, to validate" 3 'none of the 240 rows has a label, expected some to validate by' train d.csv --valid unlabelled.csv -o none
refuse "rows without labels, to prune by" 3 'unlabelled.csv: none of the 240 rows has a label' prune unlabelled.csv --hidden 8 -o none
ok "the wrong separator" train several.csv --label-separator '|' -o none --epochs 1
check "is told from the right one" grep -q "^labels .* is one label, as no cell has a '|' in it; --label-separator ';' makes several of it" err
echo '{"labels": ["cake", "sponge", "sank"], "text": "rye bread keep"}' | "$wisp" predict jsonl - -k 1 >out 2>err
check "json lines from stdin: labels are no words of the text" grep -q '^bread:' out

printf 'text,label\n"a ""b"", c",x\nd,x,y\n' >bad.csv
refuse "a cell too many" 3 'bad.csv:3: 3 cells, but the first line has 2' train bad.csv -o none
refuse "--chars" 2 "'5-3' is not a number of characters" train d.csv -o none --chars 5-3
refuse "no stop words" 5 'nofile' train d.csv -o none --stop-words nofile
printf 'the\nis\n' >stop
ok "pairs, pieces, stop words" train d.csv -o pieces --epochs 30 --pairs --chars 3-4 --stop-words stop
ok "inspect" inspect pieces --json
judge "kept in the model" 'd["tokens"] == "words" and d["chars"] == "3-4"'
answer "pieces of words that the model never saw" '^bread:' pieces "sourdoughs breads"

ok "tokens as they stand" train d.csv -o old --tokens blanks --epochs 3
ok "inspect, blanks" inspect old --json
judge "kept in the model, too" 'd["tokens"] == "blanks"'
printf 'unknown1\nunknown2\n' | "$wisp" predict old - >out 2>err
check "one notice for all lines" [ "$(grep -c 'left out 2 feature values that' err)" = 1 ]
end
