"""The package against the library: structs and functions are those of wisp.h, keywords those of the option table, errors
arrive as the right exceptions."""
import tempfile

from rig import *

from wisp import _library as library
from wisp import _options as options

with open(os.path.join(root, "include/wisp/wisp.h")) as f:
    header = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)


def fields(name):
    body = re.search(r"typedef struct %s \{(.*?)\}" % name, header, re.S)[1]
    return [part.split("[")[0].split()[-1].lstrip("*") for line in body.split(";") for part in line.split(",") if part.strip()]


for name, struct in (("wisp_error", library.Error), ("wisp_option", library.Option), ("wisp_progress", library.Progress),
                     ("wisp_data_stats", library.DataStats)):
    ours = [field[0] for field in struct._fields_]
    check(f"struct {name}", fields(name) == ours, f"{fields(name)}, here {ours}")

for name, (result, arguments) in library.FUNCTIONS.items():
    found = re.search(r"WISP_API ([^;]*?)\b%s\(" % name, header)
    body = header[found.end():header.index(";", found.end())] if found else ""
    inner = body[:body.rindex(")")]
    inner = re.sub(r"\([^()]*\)", "", inner)  # arguments of a function argument
    n = 0 if inner.strip() == "void" else inner.count(",") + 1
    check(f"{name}: {n} arguments", found and n == len(arguments) + (result is library.Status) and
          ("wisp_status" in found[1]) == (result is library.Status), f"{inner}")

codes = dict(re.findall(r"WISP_(E\w+) = (-\d+)", header))
check("numbers of errors", all(getattr(library, k) == int(v) for k, v in codes.items()) and len(codes) == 9, codes)
check("the version is the header's", f'"{wisp.__version__}"' in header, wisp.__version__)
check("info", wisp.info()["library"] == os.environ["WISP_LIBRARY"] and "cpu" in wisp.info()["devices"] and
      "xc" in wisp.info()["formats"], wisp.info())

# ---- options ----
parameters = wisp.WispClassifier().get_params()
for row in options.ROWS.values():
    if "train" in row.commands and row.key not in ("config", "json", "quiet", "valid", "note", "watch"):
        doc = " ".join(wisp.WispClassifier.__doc__.split())
        ours = row.keyword in ("k", "threshold", "class_weight")  # with a meaning of their own here
        check(f"option {row.key}", f" {row.keyword} : " in doc and
              (ours or parameters.get(row.keyword, row) == row.default and row.help in doc), parameters.get(row.keyword))
config = options.config({"hidden": (64, 32), "index": True, "resume": True, "lr": np.float32(0.5), "epochs": np.int64(3),
                         "memory": "2G", "threshold": 0.25})
library.lib.wisp_config_get.restype = library.c.c_char_p
library.lib.wisp_config_get.argtypes = [library.Pointer, library.c.c_char_p]
got = {k: library.lib.wisp_config_get(config, k.encode()).decode() for k in
       ("hidden", "index", "resume", "lr", "epochs", "memory", "threshold", "loss")}
check("values as the library reads them", got == {"hidden": "64,32", "index": "yes", "resume": "1", "lr": "0.5",
                                                  "epochs": "3", "memory": "2G", "threshold": "0.25", "loss": "auto"}, got)
stub = subprocess.run([sys.executable, os.path.join(root, "tools/python-stub"), os.environ["WISP_LIBRARY"]],
                      capture_output=True, text=True)
check("the stub for type checkers", stub.returncode == 0 and compile(stub.stdout, "stub", "exec") and
      "    hidden: SupportsIndex | str | Sequence" in stub.stdout and "def predict_proba(" in stub.stdout, stub.stderr)

# ---- errors ----
X, Y = planted()
raises("EINVAL", ValueError, "^loss: 'x' is not one of auto", small(loss="x").fit, X, Y)
raises("a value of a wrong type", TypeError, "epochs: expected int, got dict", small(epochs={}).fit, X, Y)
raises("an unknown keyword", TypeError, "unexpected keyword argument 'epoch'", wisp.WispClassifier, epoch=3)
raises("EIO", OSError, "nowhere.*No such file", small().fit, "/nowhere/rows.txt")
raises("a folder that is not there", OSError, "nowhere", small(path="/nowhere/model").fit, X, Y)
raises("ENOTSUP", NotImplementedError, "cuda|card", small(device="cuda", average=0.5).fit, X, Y)
raises("ranks", ValueError, "--cards: the command 'wisp train' starts ranks, a program does not", small(cards=2, device="cuda").fit, X, Y)
raises("ENOMEM", MemoryError, "needed", small(hidden="1000000,1000000").fit, X, Y)
raises("EMODEL", ValueError, "rig.py", wisp.WispClassifier.load, os.path.join(root, "tests/python/rig.py"))
with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as f:
    f.write("2 5 4\n0 1:2\n0 1:x\n")
rows = f.name
for name, want, function, arguments in (
        ("of a line", (library.EFORMAT, rows, 3, None), small().fit, (rows,)),
        ("of a file", (library.EIO, "/nowhere/rows.txt", None, None), small().fit, ("/nowhere/rows.txt",)),
        ("of a model by its name", (library.EMODEL, __file__, None, None), wisp.WispClassifier.load, (__file__,)),
        ("of an option", (library.EINVAL, None, None, None), small(loss="x").fit, (X, Y))):
    try:
        function(*arguments)
        check(f"the place {name}", False, "no error")
    except Exception as e:
        got = e.status, e.file, e.line, e.row
        check(f"the place {name}", got == want and str(e).startswith(want[1] or "loss: "), f"{got}: {e}")
os.unlink(rows)
raises("an option of another command", TypeError, "'epochs'", wisp.read, "x", epochs=3)
end()
