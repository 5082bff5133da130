"""Arrays of images in memory: fit, predict and go on, in the forms that users have, against the same images in files."""
import json
import pickle
import tempfile
from pathlib import Path

from rig import *


def bars(n, seed, side=12, channels=2):
    """Noisy images with a bar in one of four places, its class."""
    r = np.random.RandomState(seed)
    y = r.randint(4, size=n)
    X = r.randint(60, size=(n, channels, side, side))
    for image, k in zip(X, y):
        image[:, :, 3 * k:3 * k + 2] = 200
    return X.astype(np.uint8), np.array(["ant", "bee", "cat", "dog"])[y]


X, y = bars(240, 1)
Xt, yt = bars(80, 2)
net = "image, conv 6 3 as conv1, relu, maxpool 2, flatten, dense 16 as fc1, relu, output as fc2"


def make(**keywords):
    return wisp.WispClassifier(**{**dict(net=net, epochs=6, batch=16, lr=0.02, holdout=0, threads=2, precision="fp32"), **keywords})


def close(a, b):
    return np.allclose(a.predict_proba(Xt), b.predict_proba(Xt), atol=1e-6)


def test_fit():
    m = make().fit(X, y)
    check("learns", m.score(Xt, yt) > 0.9)
    check("classes", list(m.classes_) == ["ant", "bee", "cat", "dog"])
    check("predict", (m.predict(Xt) == yt).mean() > 0.9 and m.predict(Xt[:1]).shape == (1,))
    check("probabilities", m.predict_proba(Xt).shape == (80, 4) and np.allclose(m.predict_proba(Xt).sum(axis=1), 1))
    check("as many features as pixels", m.n_features_in_ == 2 * 12 * 12)
    check("validation rows", make().fit(X, y, Xt, yt).report_["valid_p@1"] > 90)
    check("pickled", close(pickle.loads(pickle.dumps(m)), m))
    check("the same again", make().fit(X, y)._fitted.model.bytes() == m._fitted.model.bytes())
    check("one thread", make(threads=1).fit(X, y)._fitted.model.bytes() == m._fitted.model.bytes())
    return m


def test_forms(m):
    last, floats = np.ascontiguousarray(np.moveaxis(X, 1, 3)), (X / 255).astype(np.float32)
    check("channels last", close(make().fit(last, y), m))
    check("not contiguous", close(make().fit(X[:, :, :, ::-1][:, :, :, ::-1], y), m))
    check("floats are what bytes / 255 are", np.allclose(make().fit(floats, y).predict_proba((Xt / 255).astype(np.float32)),
                                                         m.predict_proba(Xt), atol=1e-3))
    check("doubles", np.array_equal(m.predict_proba(Xt / 255), m.predict_proba((Xt / 255).astype(np.float32))))
    grey = make().fit(X[:, 0], y)
    check("one channel without its dimension", grey.n_features_in_ == 144 and grey.score(Xt[:, 0], yt) > 0.9)
    check("with it", np.array_equal(grey.predict_proba(Xt[:, :1]), grey.predict_proba(Xt[:, 0])))
    check("a net without images", make(net=None, hidden=16).fit(X, y).score(Xt, yt) > 0.9)


def test_files(m):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.npy"
        np.save(path, Xt)
        check("a file of the same images", np.array_equal(m.predict_proba(path), m.predict_proba(Xt)))
        np.save(Path(folder) / "x.npy", X)
        np.save(Path(folder) / "x.y.npy", np.searchsorted(m.classes_, y))
        f = make().fit(Path(folder) / "x.npy")
        check("trained on a file", np.array_equal(f.predict_top(Xt, 4)[1], m.predict_top(Xt, 4)[1]))
        m.save(Path(folder) / "model")
        weights = os.path.join(folder, "w.safetensors")
        subprocess.run([os.path.join(build, "wisp"), "convert", "--quiet", os.path.join(folder, "model"), weights], check=True)
        started = make(init=weights, epochs=1).fit(X, y)
        check("starts from weights for PyTorch", started.score(Xt, yt) > 0.9)
        raises("another net", ValueError, "tensor 'conv1.weight' is F32 6 x 2 x 3 x 3, the net's is F32 7 x 2 x 3 x 3",
               make(init=weights, net=net.replace("conv 6", "conv 7")).fit, X, y)
        check("saved and loaded", close(wisp.WispClassifier.load(Path(folder) / "model"), m))


def test_more(m):
    on = pickle.loads(pickle.dumps(m)).set_params(epochs=1)
    on.partial_fit(X, y)
    check("goes on", on.score(Xt, yt) > 0.9)
    raises("another size", ValueError, "images of 2 x 11 x 12 .*, but this model reads those of 2 x 12 x 12",
           on.partial_fit, X[:, :, 1:], y)


def test_plan(m):
    plan = m.plan()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "planned")
        m.save(path)
        said = subprocess.run([os.path.join(build, "wisp"), "inspect", path, "--plan", "--json", "--threads", str(m.threads)],
                              capture_output=True, text=True)
    check("what the command says", said.returncode == 0 and plan == json.loads(said.stdout), (plan, said.stdout, said.stderr))
    check("memory and operations", plan["training"]["arena_bytes"] >= plan["training"]["bound_bytes"] > 0 and
          any(layer["flops"] > 0 for layer in plan["training"]["layers"]), plan)
    check("of another batch", m.plan(batch=2)["training"]["arena_bytes"] < plan["training"]["arena_bytes"] and
          m.plan(batch=2)["training"]["batch"] == 2)
    raises("no batch", ValueError, "batch: ", m.plan, -1)
    raises("not fitted", ValueError, "not fitted", make().plan)


def test_refused(m):
    raises("another size", ValueError, "images of 2 x 12 x 11 .*, but this model reads those of 2 x 12 x 12",
           m.predict, Xt[:, :, :, 1:])
    raises("rows of numbers", ValueError, r"X has 2 dimensions, .* X.reshape\(-1, 2, 12, 12\)", m.predict, Xt.reshape(80, -1))
    raises("another type", ValueError, "images of the type int64, expected uint8", m.predict, Xt.astype(np.int64))
    raises("none", ValueError, "at least one image", m.predict, Xt[:0])
    bad = Xt / 255
    bad[3, 1, 2, 2] = np.nan
    raises("no number", ValueError, "X has NaN or infinity: row 3", m.predict, bad)
    raises("rows for a net of images", ValueError, "'image' reads images", make().fit, X.reshape(240, -1), y)
    raises("labels for other rows", ValueError, "", make().fit, X, y[:-1])
    plain = make(net=None, hidden=8, epochs=1).fit(X.reshape(240, -1).astype(np.float32), y)
    raises("images of more pixels", ValueError, "3 x 12 x 12, 432 pixels, but WispClassifier is expecting 288", plain.predict,
           np.zeros((2, 3, 12, 12), np.uint8))


fitted = test_fit()
for test in (test_forms, test_files, test_more, test_plan, test_refused):
    test(fitted)
end()
