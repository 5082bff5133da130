#!/usr/bin/python3
"""wisp serve answers what wisp predict does, in every form of request, for several models, and refuses with reasons.

usage: test_serve_predict.py WISP
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
from serve_rig import Server, at_once, check, end, make_models, need_server, run, wisp

need_server()
folder = tempfile.TemporaryDirectory(prefix="wisp-serve-")
make_models(folder.name)


def rows_of(path, n):
    for line in open(path).read().split("\n")[1:n + 1]:
        pairs = [f.split(":") for f in line.split(" ")[1:]]
        yield [int(i) for i, _ in pairs], [float(v) for _, v in pairs]


def told(*words):
    return [json.loads(line)["labels"] for line in run("predict", *words, "--json").stdout.splitlines()]


def near(got, want):
    """The same labels, scores equal but for rounding; equal scores may change places."""
    return (len(got) == len(want) and {g["id"] for g in got} == {w["label"] for w in want} and
            all(abs(g["score"] - w["score"]) < 2e-5 for g, w in zip(got, want)))


rows = list(rows_of("toy_test.txt", 40))
with Server("rows", "tags=words") as s:
    for how in "exact", "sparse":
        want = told("rows", "toy_test.txt", "-k", "3", "--inference", how)
        bad = []
        for (ids, values), labels in zip(rows, want):
            status, got, _ = s.ask("/predict", {"ids": ids, "values": values, "k": 3, "inference": how})
            if status != 200 or not near(got["rows"][0]["labels"], labels):
                bad.append((status, got, labels))
        check(f"{how}: one row per request, as wisp predict", not bad, bad[:1])
        ptr = [0]
        for ids, _ in rows:
            ptr.append(ptr[-1] + len(ids))
        status, got, _ = s.ask("/predict", {"indptr": ptr, "indices": sum((i for i, _ in rows), []), "k": 3,
                                            "data": sum((v for _, v in rows), []), "inference": how})
        check(f"{how}: CSR", status == 200 and len(got["rows"]) == 40 and
              all(near(g["labels"], w) for g, w in zip(got["rows"], want)), got)
        status, got, _ = s.ask("/predict", {"rows": [{"features": {f"word{i}": v for i, v in zip(*r)}} for r in rows],
                                            "k": 3, "inference": how})
        check(f"{how}: features by name", status == 200 and all(near(g["labels"], w) for g, w in zip(got["rows"], want)), got)
        answers = at_once(16, lambda i: [s.ask("/predict", {"ids": ids, "values": values, "k": 3, "inference": how})
                                         for ids, values in rows])
        check(f"{how}: 16 at once", all(isinstance(a, list) and all(
            status == 200 and near(got["rows"][0]["labels"], w) for (status, got, _), w in zip(a, want)) for a in answers))

    ids, values = rows[0]
    order = sorted(range(len(ids)), key=lambda i: -ids[i])
    plain = s.ask("/predict", {"ids": ids, "values": values})[1]
    check("5 labels unless told", len(plain["rows"][0]["labels"]) == 5, plain)
    check("names, ids, model and version", plain["model"] == "rows" and plain["version"] == "1" and
          all(l["label"] == f"label {l['id']}" for l in plain["rows"][0]["labels"]), plain)
    check("ids in any order", s.ask("/predict", {"ids": [ids[i] for i in order], "values": [values[i] for i in order]})[1] == plain)
    twice = s.ask("/predict", {"ids": ids + ids, "values": [v / 2 for v in values] * 2})[1]
    check("the same feature twice is added up", twice["rows"] == plain["rows"], twice)
    got = s.ask("/predict", {"ids": ids + [7777], "values": values + [3]})[1]
    check("an id that the model does not have is left out, and counted", got["rows"] == plain["rows"] and got["unknown"] == 1, got)
    got = s.ask("/predict", {"features": {**{str(i): v for i, v in zip(ids, values)}, "nobody": 1}})[1]
    check("ids as keys; a name that the model does not know is counted", got["rows"] == plain["rows"] and got["unknown"] == 1, got)
    got = s.ask("/predict", '{"features":{"word3":1,"word5":1,"word3":2}}')[1]
    check("the same name twice is added up", got == s.ask("/predict", {"features": {"word3": 3, "word5": 1}})[1], got)
    every = s.ask("/predict", {"ids": ids, "values": values, "k": 60})[1]["rows"][0]["labels"]
    check("k labels, best first", len(every) == 60 and all(a["score"] >= b["score"] for a, b in zip(every, every[1:])))
    limit = (every[14]["score"] + every[15]["score"]) / 2
    got = s.ask("/predict", {"ids": ids, "values": values, "threshold": limit})[1]["rows"][0]["labels"]
    check("all labels that reach a threshold", len(got) == sum(l["score"] >= limit - 1e-6 for l in every), (len(got), limit))
    got = s.ask("/predict", {"ids": ids, "values": values, "threshold": 0.999999})[1]["rows"]
    check("none does", got == [{"labels": []}], got)
    raw = s.ask("/predict", {"ids": ids, "values": values, "scores": "raw"})[1]["rows"][0]["labels"]
    check("raw scores", near(raw, told("rows", "toy_test.txt", "-k", "5", "--scores", "raw")[0]), raw)
    check("no rows", s.ask("/predict", {"rows": []})[1]["rows"] == [])

    texts = ["HOW LONG does rye bread keep?", "a cake", ""]
    with open("lines.txt", "w") as f:
        f.writelines(t + "\n" for t in texts)
    want = told("words", "lines.txt", "-k", "2")
    for name, body in (("a list of texts", {"model": "tags", "text": texts, "k": 2}),
                       ("rows of texts", {"rows": [{"text": t} for t in texts], "k": 2, "model": "tags"}),
                       ("rows that are texts", {"rows": texts, "k": 2, "model": "tags"})):
        status, got, _ = s.ask("/predict", body)
        check(name, status == 200 and all(near(g["labels"], w) for g, w in zip(got["rows"], want)), (got, want))
    one = s.ask("/predict/tags", {"text": texts[0]})[1]
    check("the model in the path", one["model"] == "tags" and one["rows"][0]["labels"][0]["label"] == "bread", one)

    same = s.ask("/predict/tags", {"text": texts[0], "model": "tags"})
    check("the same model in path and body", same[0] == 200 and same[1] == one, same)
    for path, body in (("tags", {"text": texts[0], "model": "rows"}), ("tags", {"ids": ids, "model": "rows"}), ("tag", {"text": "a", "model": "tags"})):
        status, got, _ = s.ask("/predict/" + path, body)
        check(f"another model in the path ({path}) than in the body: {', '.join(body)}", status == 400 and
              all(f"'{name}'" in got["error"]["message"] for name in (path, body["model"])), got)
    got = s.ask("/predict/tags", {"text": texts[0], "model": ""})
    check("a model without a name", got[0] == 400 and "name of a model" in got[1]["error"]["message"], got)

    # ---- reasons ----
    got = s.ask("/predict/tags", {"text": texts[0], "k": 1, "explain": 100})[1]["rows"][0]["labels"][0]
    words = {w["feature"]: w["part"] for w in got["why"]}
    check("explain: the words", got["label"] == "bread" and words["bread"] > 0 and words["keep"] > 0, got)
    got = s.ask("/predict", {"rows": [{"ids": i, "values": v} for i, v in rows[:3]], "k": 2, "explain": 100})[1]
    for at, (i, v) in enumerate(rows[:3]):
        for label in got["rows"][at]["labels"]:
            total = sum(w["part"] for w in label["why"]) + label["bias"]
            check("explain: parts add up to the logit", abs(total - label["logit"]) < 1e-3 * max(1, abs(label["logit"])) and
                  {w["id"] for w in label["why"]} == set(i) or len(i) > 100, (total, len(i), label))
    got = s.ask("/predict", {"ids": ids, "values": values, "explain": 2, "inference": "sparse"})[1]["rows"][0]["labels"]
    check("explain: as many features as asked for", all(len(l["why"]) == 2 and l["why"][0]["feature"].startswith("word") for l in got), got)

    status, got, _ = s.ask("/models")
    check("/models", status == 200 and [(m["name"], m["reads"], m["labels"]) for m in got["models"]] ==
          [("rows", "features", 60), ("tags", "text", 4)], got)

    for body, status, words in (
            ("", 400, "end of the body, expected an object"),
            ("{", 400, "end of the body"),
            ("[]", 400, "found a list, expected an object"),
            ('{"text":1}', 400, "found a number, expected a text"),
            ('{"ids":[1,2],"values":[1]}', 400, "found 1 values for 2 ids"),
            ('{"ids":[-1]}', 400, "found -1, expected an id"),
            ('{"ids":[1.5]}', 400, "found 1.5, expected an id"),
            ('{"ids":[1],"ids":[1]}', 400, "'ids' is given twice"),
            ('{"k":1,"ids":[1],"k":2}', 400, "byte 21: key 'k' is given twice"),
            ('{"threshold":0.1,"threshold":"model","ids":[1]}', 400, "key 'threshold' is given twice"),
            ('{"scores":"raw","ids":[1],"scores":"raw"}', 400, "key 'scores' is given twice"),
            ('{"inference":"exact","inference":"sparse","ids":[1]}', 400, "key 'inference' is given twice"),
            ('{"explain":true,"explain":false,"ids":[1]}', 400, "key 'explain' is given twice"),
            ('{"rows":[{"ids":[1],"ids":[2]}]}', 400, "key 'ids' is given twice"),
            ('{"model":"rows","model":"tags","ids":[1]}', 400, "key 'model' is given twice"),
            ('{"ids":[1]} x', 400, "more follows"),
            ('{"ids":[1e999]}', 400, "beyond"),
            ('{"ids":[01]}', 400, "no number as JSON"),
            ('{"indptr":[0,2],"indices":[1]}', 400, "expected 0 to 1"),
            ('{"indptr":[0,2,1,2],"indices":[1,2]}', 400, "falls"),
            ('{"rows":[{"text":"a"},{"ids":[1]}]}', 400, "in row 1, expected 'text'"),
            ('{"rows":[{"text":["a","b"]}]}', 400, "has 2 rows in it"),
            ('{"text":"a","ids":[1]}', 400, "twice"),
            ('{"k":0,"ids":[1]}', 400, "found 0, expected k (1..10000)"),
            ('{"threshold":2,"ids":[1]}', 400, "0..1"),
            ('{"threshold":"modle","ids":[1]}', 400, "found 'modle', expected a threshold in 0..1, or \"model\""),
            ('{"threshold":"model","ids":[1]}', 400, "model 'rows' has no thresholds"),
            ('{"inference":"quick","ids":[1]}', 400, "found 'quick', expected 'exact' or 'sparse'"),
            ('{"txet":"a"}', 400, "did you mean 'text'"),
            ('{"k":3}', 400, "no rows"),
            ('{"model":"nobody","ids":[1]}', 404, "no model 'nobody'"),
            ('{"text":"bread"}', 400, "was trained on numbered features"),
            ('{"pixels":[1]}', 400, "does not read images"),
            ('{"model":"tags","text":"a","inference":"sparse"}', 400, "no index"),
            ('{"text":"\xff"}'.encode("latin-1"), 400, "no UTF-8 (0xff)"),
            (b'{"text":"\xed\xa0\x80"}', 400, "no UTF-8"),
            ('{"text":"\\ud800"}', 400, "escape"),
            ('{"rows":' + "[" * 100000, 400, "a list"),
            ('{"pixels":' + "[" * 100000, 400, "nested more than 32 deep"),
            ('{"ids":[' + "1," * 5000 + "1]", 400, "end of the body")):
        got = s.ask("/predict", body)
        check(f"refused: {body[:40]!r}", got[0] == status and words in got[1]["error"]["message"] and
              got[1]["error"]["status"] == status, got[:2])

    # ---- the Open Inference protocol ----
    check("v2: server", s.ask("/v2")[1]["name"] == "wisp" and s.ask("/v2/health/live")[0] == 200)
    about = s.ask("/v2/models/tags")[1]
    check("v2: model", about["name"] == "tags" and about["versions"] == ["1"] and about["inputs"][0]["datatype"] == "BYTES", about)
    check("v2: model ready", s.ask("/v2/models/rows/ready")[0] == 200 and s.ask("/v2/models/rows/versions/1/ready")[0] == 200)
    check("v2: no such model, version", s.ask("/v2/models/x")[0] == 404 and s.ask("/v2/models/rows/versions/2")[0] == 404 and
          s.ask("/v2/models/rows/versions/12/infer", {"inputs": []})[0] in (400, 404))

    def infer(model, inputs, parameters):
        got = s.ask(f"/v2/models/{model}/infer", {"id": "q1", "inputs": inputs, "parameters": parameters})
        if got[0] != 200:
            return got, None
        tensors = {o["name"]: o for o in got[1]["outputs"]}
        n, k = tensors["labels"]["shape"]
        return got, [[{"id": tensors["labels"]["data"][i * k + j], "score": tensors["scores"]["data"][i * k + j],
                       "name": tensors["names"]["data"][i * k + j]} for j in range(k)] for i in range(n)]
    want = told("rows", "toy_test.txt", "-k", "3")
    width = max(len(i) for i, _ in rows)
    flat = [i + [-1] * (width - len(i)) for i, _ in rows]
    values2 = [v + [0] * (width - len(v)) for _, v in rows]
    wide = [[0] * 500 for _ in rows]
    for at, (i, v) in enumerate(rows):
        for k, x in zip(i, v):
            wide[at][k] = x
    for name, inputs in (
            ("ids and values", [{"name": "ids", "datatype": "INT32", "shape": [40, width], "data": sum(flat, [])},
                                {"name": "values", "datatype": "FP32", "shape": [40, width], "data": values2}]),
            ("dense", [{"name": "x", "datatype": "FP32", "shape": [40, 500], "data": wide}]),
            ("CSR", [{"name": "indptr", "datatype": "INT64", "shape": [41], "data": ptr},
                     {"name": "indices", "datatype": "INT32", "shape": [ptr[-1]], "data": sum((i for i, _ in rows), [])},
                     {"name": "data", "datatype": "FP32", "shape": [ptr[-1]], "data": sum((v for _, v in rows), [])}])):
        got, answers = infer("rows", inputs, {"k": 3})
        check(f"v2: {name}", answers and all(near(g, w) for g, w in zip(answers, want)) and got[1]["id"] == "q1" and
              answers[0][0]["name"] == f"label {answers[0][0]['id']}", got[:2])
    got, answers = infer("tags", [{"name": "t", "datatype": "BYTES", "shape": [3], "data": texts}], {"k": 2})
    check("v2: texts", answers and all(near(g, w) for g, w in zip(answers, told("words", "lines.txt", "-k", "2"))), got[:2])
    one = [{"name": "ids", "datatype": "INT32", "shape": [1, 1], "data": [5], "parameters": {"content_type": "np"}}]
    got, answers = infer("rows", one, {"k": 3, "binary_data_output": True, "explain": False})
    check("v2: answers are JSON, also for those who would take another form", answers and len(answers[0]) == 3, got[:2])
    got, answers = infer("rows", [{"name": "ids", "datatype": "INT32", "shape": [1, 1], "data": [5]}], {"k": 3, "threshold": 0.999999})
    check("v2: places below the threshold are filled up", answers == [[{"id": -1, "score": 0, "name": ""}] * 3], got[:2])
    one = '{"name":"ids","datatype":"INT32","shape":[1,1],"data":[5]}'
    for body, words in ((f'{{"inputs":[{one}],"inputs":[{one}]}}', "'inputs' is given twice"),
                        (f'{{"inputs":[{one}],"parameters":{{"k":1,"k":2}}}}', "'k' is given twice"),
                        (f'{{"inputs":[{one}],"parameters":{{}},"parameters":{{"k":2}}}}', "'parameters' is given twice"),
                        (f'{{"id":"a","inputs":[{one}],"id":"b"}}', "'id' is given twice"),
                        ('{"inputs":[{"name":"i","name":"ds","shape":[1,1],"data":[5]}]}', "'name' is given twice"),
                        ('{"inputs":[{"datatype":"UINT","datatype":"8","shape":[1,1],"data":[5]}]}', "'datatype' is given twice"),
                        ('{"inputs":[{"shape":[1,1],"shape":[2,1],"data":[5]}]}', "'shape' is given twice"),
                        ('{"inputs":[{"shape":[1,1],"data":[5],"data":[6]}]}', "'data' is given twice"),
                        (f'{{"inputs":[{one}],"parameters":{{"treshold":0.5}}}}', "unknown key 'treshold' (did you mean 'threshold'?); expected one of k, "),
                        (f'{{"inputs":[{one}],"parameters":{{"explain":true}}}}', "have no place for reasons"),
                        (f'{{"inputs":[{one}],"k":3}}', "unknown key 'k'; expected one of inputs, parameters, id, outputs"),
                        ('{"inputs":[{"dtype":"UINT8","shape":[1,1],"data":[5]}]}', "unknown key 'dtype'; expected one of name, datatype")):
        got = s.ask("/v2/models/rows/infer", body)
        check(f"v2: refused: {words}", got[0] == 400 and words in got[1]["error"], got[:2])
    for inputs, words in (([], "no 'inputs'"), ([{"shape": [2], "data": [1]}], "its shape asks for 2"), ([{"data": [1]}], "without 'shape'"),
                          ([{"name": "ids", "shape": [1, 1], "data": [1.5]}], "expected an id"),
                          ([{"name": "indptr", "shape": [2], "data": [0, 7]}, {"name": "indices", "shape": [1], "data": [1]}], "indptr"),
                          ([{"name": "x", "shape": [1, 2], "data": ["a", 1]}], "strings among numbers"),
                          ([{"name": "ids", "shape": [1, 1], "data": [5]}, {"name": "value", "shape": [1, 1], "data": [2]}], "'value'"),
                          ([{"name": "ids", "shape": [1, 1], "data": [5]}] * 2, "'ids' and 'ids'"),
                          ([{"name": "ids", "shape": [1, 1], "data": [5]}, {"name": "values", "shape": [1, 1], "data": [2]},
                            {"name": "more", "shape": [1, 1], "data": [2]}], "'more'"),
                          ([{"name": "indptr", "shape": [3], "data": [0, 1, 2]}], "found tensors 'indptr'; expected"),
                          ([{"name": "ids", "shape": [1, 2], "data": [5, 6]}, {"name": "values", "shape": [1, 1], "data": [2]}], "1 values for 2 ids"),
                          ([{"name": "ids", "datatype": "BYTES", "shape": [1], "data": ["5"]}], "strings")):
        got = infer("rows", inputs, {})[0]
        check(f"v2: refused: {words}", got[0] == 400 and words in got[1]["error"], got[:2])

    # ---- Annif's form ----
    def suggest(body):
        return s.ask("/v1/projects/tags/suggest", body, {"Content-Type": "application/x-www-form-urlencoded"})
    whole = suggest("text=rye+bread&limit=4")[1]["results"]
    check("Annif: limit", len(whole) == 4 and len(suggest("limit=2&text=rye+bread")[1]["results"]) == 2, whole)
    limit = (whole[1]["score"] + whole[2]["score"]) / 2
    for body, want in ((f"text=rye+bread&limit=4&threshold={limit}", whole[:2]), (f"threshold={limit}&text=rye+bread", whole[:2]),
                       ("text=rye+bread&limit=1&threshold=0", whole[:1]), ("text=rye+bread&threshold=0.0", whole),
                       ("project=x&text=rye+bread&language=en&metadata_title=x&limit=4&", whole)):
        status, got, _ = suggest(body)
        check(f"Annif: {body}", status == 200 and got["results"] == want, got)
    for body, words in (("text=a&limit=abc", "found limit=abc, expected a whole number in 1..10000"), ("text=a&limit=0", "limit=0"), ("text=a&limit=-1", "limit=-1"),
                        ("text=a&limit=2x", "limit=2x"), ("text=a&limit=", "found limit=,"), ("text=a&limit=10001", "limit=10001"), ("text=a&limit=1.5", "limit=1.5"),
                        ("text=a&threshold=1.5", "found threshold=1.5, expected a number in 0..1"), ("text=a&threshold=nan", "threshold=nan"),
                        ("text=a&threshold=-0.1", "threshold=-0.1"), ("text=a&threshold=0.5;", "threshold=0.5;"),
                        ("text=a&limit=1&limit=2", "'limit' is given twice"), ("text=a&text=b", "'text' is given twice"),
                        ("text=a&limits=1", "unknown key 'limits' (did you mean 'limit'?)"), ("text=a&k=1", "unknown key 'k'"),
                        ("limit=3", "no 'text'"), ("", "no 'text'"), ("text=%ff", "UTF-8"), ('{"text":"a"}', "expected")):
        status, got, _ = suggest(body)
        check(f"Annif: refused: {body}", status == 400 and words in got["error"]["message"], got)

    # ---- what stands behind the path ----
    for path, body, words in (("/predict?k=1", '{"ids":[1]}', "'k'"), ("/predict/rows?threshold=0.5&k=1", '{"ids":[1]}', "'threshold'"), ("/predict?k", '{"ids":[1]}', "'k'"),
                              ("/v2/models/rows/infer?k=1", f'{{"inputs":[{{"name":"ids","shape":[1,1],"data":[5]}}]}}', "'k'"),
                              ("/v1/projects/tags/suggest?limit=1", "text=a", "'limit'")):
        status, got, _ = s.ask(path, body)
        check(f"refused: {path}", status == 400 and words in str(got["error"]) and "body" in str(got["error"]), got)
    check("a question mark alone", s.ask("/predict?", '{"ids":[1]}')[0] == 200)
    check("other paths take what monitors add", s.ask("/models?x=1")[0] == s.ask("/metrics?x=1")[0] == s.ask("/v2/health/ready?x=1")[0] == 200)

    metrics = s.ask("/metrics")[1]
    for piece in ('wisp_requests_total{route="/predict",code="200"} ', 'wisp_request_seconds_bucket{route="/predict",le="0.001"} ',
                  'wisp_model_version{model="tags"} 1', "wisp_batch_rows_bucket", "wisp_queue_rows 0", "process_resident_memory_bytes "):
        check(f"metrics: {piece}", piece in metrics, metrics[:300])
    check("SIGTERM: exit code 0", s.stop() == 0)

# ---- the model's thresholds ----
run("threshold", "rows", "toy_train.txt", "--for", "f1", "-o", "decided")
many = [{"ids": i, "values": v} for i, v in rows]
with Server("decided", "rows") as s:
    flags = {m["name"]: m["thresholds"] for m in s.ask("/models")[1]["models"]}
    check("thresholds: /models says which model has some", flags == {"decided": True, "rows": False}, flags)
    for how in "exact", "sparse":
        want = told("decided", "toy_test.txt", "--threshold", "model", "--inference", how)
        got = s.ask("/predict", {"rows": many, "threshold": "model", "inference": how})[1]["rows"]
        check(f"thresholds: {how}: labels as wisp predict --threshold model gives them",
              len({len(w) for w in want[:40]}) > 1 and all(near(g["labels"], w) for g, w in zip(got, want)), (got[:2], want[:2]))
    want = told("decided", "toy_test.txt", "--threshold", "model", "-k", "2")
    got = s.ask("/predict", {"rows": many, "threshold": "model", "k": 2})[1]["rows"]
    check("thresholds: with k, of the best k", all(near(g["labels"], w) for g, w in zip(got, want)), (got[:2], want[:2]))
    got = s.ask("/v2/models/decided/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [40, 500], "data": wide}],
                                             "parameters": {"k": 2, "threshold": "model"}})[1]
    given = [[i for i in got["outputs"][0]["data"][2 * r:2 * r + 2] if i >= 0] for r in range(40)]
    check("thresholds: v2", given == [[w["label"] for w in row] for row in want[:40]], (given[:5], want[:5]))
    got = s.ask("/predict", {**many[0], "threshold": "model", "scores": "raw"})
    check("thresholds: not of raw scores", got[0] == 400 and "calibrated" in got[1]["error"]["message"], got)
with Server("decided", "--threshold", "model", "--k", "3") as s:
    want = told("decided", "toy_test.txt", "--threshold", "model", "-k", "3")
    got = s.ask("/predict", {"rows": many})[1]["rows"]
    check("thresholds: those of --threshold model", all(near(g["labels"], w) for g, w in zip(got, want)), (got[:2], want[:2]))
    got = s.ask("/predict", {**many[0], "threshold": 0})[1]["rows"][0]["labels"]
    check("thresholds: a request may say another", len(got) == 3, got)
    check("thresholds: raw scores need another", s.ask("/predict", {**many[0], "scores": "raw"})[0] == 400 and
          s.ask("/predict", {**many[0], "scores": "raw", "threshold": 0})[0] == 200)

# ---- a threshold of the server: where neither it nor the request says k, all labels that reach it ----
def counts(s, path="/predict", **more):
    return [len(row["labels"]) for row in s.ask(path, {"rows": many, **more})[1]["rows"]]


every = told("rows", "toy_test.txt", "-k", "60")[:40]
limit = sorted(l["score"] for row in every for l in row)[-300]
reach = [sum(l["score"] >= limit for l in row) for row in every]
with Server("rows", "--threshold", repr(limit)) as s:
    want = told("rows", "toy_test.txt", "--threshold", repr(limit))
    got = s.ask("/predict", {"rows": many})[1]["rows"]
    check("--threshold: all labels that reach it, as wisp predict --threshold gives them", max(reach) > 5 and
          all(near(g["labels"], w) for g, w in zip(got, want)), ([len(g["labels"]) for g in got], reach))
    check("--threshold: k of a request cuts", counts(s, k=3) == [min(3, n) for n in reach], counts(s, k=3))
    check("--threshold: a request may say another", counts(s, threshold=0) == [60] * 40, counts(s, threshold=0))
    got = s.ask("/v2/models/rows/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [40, 500], "data": wide}]})[1]["outputs"][0]
    check("--threshold: v2 has 5 places unless told", got["shape"] == [40, 5] and
          [sum(i >= 0 for i in got["data"][r * 5:r * 5 + 5]) for r in range(40)] == [min(5, n) for n in reach], got)
for words in (("--threshold", "0"), ("--config", "options")):
    with open("options", "w") as f:
        f.write("threshold = 0\n")
    with Server("rows", *words) as s:
        check(f"{words[0]}: all labels reach 0", counts(s) == [60] * 40, counts(s))
with Server("rows", "--threshold", repr(limit), "--k", "5") as s:
    check("--k beside --threshold cuts, also where it is what it would be unsaid", counts(s) == [min(5, n) for n in reach], counts(s))
with Server("rows", "--k", "7") as s:
    check("--k", counts(s) == [7] * 40, counts(s))
    check("--k cuts what reaches the threshold of a request", counts(s, threshold=0) == [7] * 40, counts(s, threshold=0))
with Server("decided", "--threshold", "model") as s:
    want = told("decided", "toy_test.txt", "--threshold", "model")
    got = s.ask("/predict", {"rows": many})[1]["rows"]
    check("--threshold model: all labels that reach theirs", all(near(g["labels"], w) for g, w in zip(got, want)), (got[:2], want[:2]))
with Server("rows") as s:
    check("without a threshold 5 labels", counts(s) == [5] * 40, counts(s))
    check("a threshold of 0 in a request: all labels", counts(s, threshold=0) == [60] * 40, counts(s, threshold=0))
    check("a threshold of 0 and k", counts(s, threshold=0, k=4) == [4] * 40, counts(s, threshold=0, k=4))
for words, said in ((("rows", "--threshold", "model"), "has no thresholds"),
                    (("decided", "--threshold", "model", "--scores", "raw"), "leave out one of them")):
    got = subprocess.run([wisp, "serve", "--port", "0", *words], capture_output=True, text=True, timeout=60)
    check(f"thresholds: refused: {' '.join(words)}", got.returncode == 2 and said in got.stderr, (got.returncode, got.stderr))
end()
