#!/usr/bin/env bash
# The marked blocks of docs/*.md say what the tables of this build say.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
check "no block is stale (tools/doc-tables BUILD/wisp fills them)" "$root/tools/doc-tables" --check "$wisp"

# A block that is stale, and marks that are not whole, are seen.
mkdir -p copy/tools copy/docs copy/bench
cp "$root/tools/doc-tables" copy/tools
cp "$root/bench/figures.json" copy/bench
cp "$root/README.md" copy
cp "$root"/docs/*.md copy/docs
sed -i 's/^| `bce` | /&not /' copy/docs/training.md
check "a line that was changed by hand is seen" not copy/tools/doc-tables --check "$wisp"
copy/tools/doc-tables "$wisp" >out
check "and made anew, with its place" grep -qE '^docs/training.md:[0-9]+: filled: table: losses$' out
check "as it was" diff -r "$root/docs" copy/docs --exclude=figures --exclude=examples
# Figures are those of bench/figures.json.
sed -i 's/[0-9.]*\(<!-- =yso.epoch1.p1 -->\)/99.9\1/' copy/README.md
check "a figure that was changed by hand is seen" not copy/tools/doc-tables --check "$wisp"
copy/tools/doc-tables "$wisp" >out
check "and made anew, with its name" grep -qE '^README.md:[0-9]+: filled: figure: yso.epoch1.p1 is [0-9.]+, not 99.9$' out
same "as it was" "$root/README.md" copy/README.md
sed -i 's/<!-- =yso.epoch1.p1 -->/<!-- =yso.nonsense -->/' copy/README.md
check "a figure that nobody has measured is seen" not copy/tools/doc-tables --check "$wisp"
cp "$root/README.md" copy
for change in 's/^<!-- end -->//' 's/^<!-- table: losses -->//' 's/^<!-- table: losses/<!-- table: nonsense/'; do
    cp "$root/docs/training.md" copy/docs
    sed -i "$change" copy/docs/training.md
    check "$change is seen" not copy/tools/doc-tables "$wisp"
done

sed -i '/^<!-- measured: gpu.beside -->$/,/^<!-- end -->$/s/fp32 | [0-9,]*/fp32 | 1/' copy/docs/gpu.md
check "a measured table that was changed by hand is seen" not copy/tools/doc-tables --check "$wisp"
cp "$root/docs/training.md" copy/docs
copy/tools/doc-tables "$wisp" >out
check "and made anew" grep -qE '^docs/gpu.md:[0-9]+: filled: measured: gpu.beside$' out
same "as it was, too" "$root/docs/gpu.md" copy/docs/gpu.md
sed -i 's/^<!-- measured: gpu.beside/<!-- measured: gpu.nonsense/' copy/docs/gpu.md
check "a table that nobody has measured is seen" not copy/tools/doc-tables --check "$wisp"

ok "info --json" info --json
judge "what rows are, by table and name" 'd["what"]["losses"].keys() == set(d["losses"]) and "compete" in d["what"]["losses"]["softmax"]'
judge "arguments of every layer" 'd["arguments"].keys() == set(d["layers"]) and list(d["arguments"]["bn"]) == ["momentum", "eps"] and d["arguments"]["relu"] == {}'
end
