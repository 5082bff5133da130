#!/usr/bin/env bash
# The card of a model (U31): what was chosen, on which data, how good it was; the note (U35); models without a card.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 600 --features 300 --labels 40 --row-features 20
ok "train" train P_train.txt -o m --hidden 16 --json --note "für Elise, 2 €"
cp out report
sleep 1
ok "train again" train P_train.txt -o again --hidden 16 --note "für Elise, 2 €" --threads 1
same "the same run gives the same bytes, whenever it was" again m
ok "inspect --json" inspect m --json
cp out m.json
check "numbers are numbers, choices are what was chosen" /usr/bin/python3 -c '
import json
d, r = json.load(open("m.json")), json.load(open("report"))
card, valid = d["card"], d["validation"]
assert d["features"] == 300 and d["labels"] == 40 and d["epoch"] == r["best_epoch"] and d["index_base"] == 0, d
assert abs(d["valid_p@1"] - r["valid_p@1"]) < 1e-4 and abs(valid["loss"] - r["valid_loss"]) < 1e-4, d
assert 0 < valid["p@5"] <= 100 and 0 < valid["p@3"] <= 100, valid
assert card["epochs"] > 0 and card["batch"] > 0 and card["lr"] > 0 and card["seed"] == 1, card
assert card["data"] == "P_train.txt" and card["data_rows"] == 600, card
assert card["training_rows"] + card["validation_rows"] == 600 and card["held_out"] == "yes", card
assert card["optimizer"] in ("adam", "adagrad") and card["sampling"] == "full" and d["loss"] in ("bce", "softmax"), card
assert d["engine"].startswith("wisp "), d
import re
assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", d["date"]), d["date"]
assert re.fullmatch(r"xxh3:[0-9a-f]{16}", card["data_checksum"]), card'
judge "the note is UTF-8" '"note=für Elise, 2 €" in d["options"].split("\n")' m.json
ok "inspect, for a person" inspect m
check "a line for each" [ "$(grep -cE '^(model  |net  |loss  |card  |date  |validation  |tensors  |options  )' out)" = 8 ]
check "what was chosen, for a person" grep -qE '^    batch +[1-9][0-9]*$' out
check "the note, for a person" grep -q 'note=für Elise, 2 €$' out
refuse "a note that is no UTF-8" 2 "^wisp: --note: byte 0xff at 3: expected one line of text in UTF-8" train P_train.txt -o x --note $'ab \377'
refuse "a note of two lines" 2 "^wisp: --note: byte 0x0a at 1" train P_train.txt -o x --note $'a\nb'

# The checksum is of the rows: the same from another format or a cache, another where a row is another.
sum() { "$wisp" inspect "$1" --json | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["card"]["data_checksum"])'; }
quick=(--hidden 16 --epochs 1 --values unit)
ok "convert" convert P_train.txt P.npz
ok "rows of npz" train P.npz -o n "${quick[@]}"
check "the same rows, the same checksum" [ "$(sum n)" = "$(sum m)" ]
ok "rows without a cache, one thread" train P_train.txt -o c "${quick[@]}" --cache - --threads 1
check "the same rows without a cache, the same checksum" [ "$(sum c)" = "$(sum m)" ]
sed '5s/:[0-9.]*/:0.125/' P_train.txt >other.txt
ok "another row" train other.txt -o o "${quick[@]}"
check "another row, another checksum" [ "$(sum o)" != "$(sum m)" ]

# A smaller model keeps the card; a model of before has none, and loads.
ok "quantize" convert m half --quantize bf16
ok "inspect the smaller one" inspect half --json
judge "it keeps the card" "d['card'] == json.load(open('m.json'))['card'] and d['quantized'] == 'bf16'"
end
