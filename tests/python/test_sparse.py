"""SparseNetwork against numpy: layers of random connections in every mode."""
from rig import *

r = np.random.RandomState(3)
sizes = [40, 64, 64, 30]
weights = [sp.random(o, i, 0.2, "csr", np.float64, r) for i, o in zip(sizes, sizes[1:])]
for W in weights:
    W.data -= 0.5  # of both signs, so that every bound matters
biases = [-0.1, None, r.rand(30)]
X = sp.random(50, 40, 0.1, "csr", np.float64, r)


def plain(X, clip, linear):
    Y = X.toarray()
    for i, (W, b) in enumerate(zip(weights, biases)):
        Y = Y @ W.T.toarray() + (0 if b is None else b)
        if not (linear and i == 2):
            Y = np.clip(Y, 0, clip or None)
    return Y


for mode in ("raw", "exact", "merged"):
    for clip, linear in ((0, False), (0.5, False), (0, True)):
        net = wisp.SparseNetwork(weights, biases, clip=clip, linear=linear, mode=mode, threads=2)
        want = plain(X, clip, linear)
        check(f"{mode}, clip {clip}, linear {linear}", np.allclose(net.run(X), want, atol=1e-5), np.abs(net.run(X) - want).max())
        check(f"{mode}: rows that end non-zero", np.array_equal(net.nonzero(X), np.flatnonzero(net.run(X).any(axis=1))))
        check(f"{mode}: report", net.report_["seconds"] >= 0 and net.report_["edges"] == sum(W.nnz for W in weights), net.report_)
zero = wisp.SparseNetwork([sp.identity(4)], -1.0)
check("some rows end zero", zero.nonzero(np.array([[2, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 3]])).tolist() == [0, 2])
raises("widths that do not fit", ValueError, "layer 1: W takes 64 inputs, the layer before gives 30",
       wisp.SparseNetwork, [weights[2], weights[1]])
raises("inputs that do not fit", ValueError, "X has 3 columns", net.run, np.ones((2, 3)))
raises("too few biases", ValueError, "3 layers, but 1 biases", wisp.SparseNetwork, weights, [0.5])
raises("a mode that is not there", ValueError, "mode: 'fast'", wisp.SparseNetwork(weights, mode="fast").run, X)
raises("NaN", ValueError, "finite", net.run, np.full((1, 40), np.nan))
end()
