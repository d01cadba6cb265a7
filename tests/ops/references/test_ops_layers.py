"""Normalizations, recurrent cells and losses against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from reference_runs import RNG, close, normal, run

from xlac.ir.op import Array


def test_normalizations() -> None:
    x, w, b = normal(2, 6, 5, 3), normal(6), normal(6)
    m, v = normal(6), RNG.uniform(0.1, 2, 6)
    shaped = [p[:, None, None] for p in (w, b, m, v)]
    close(
        run("batch_norm", x, w, b, m, v),
        (x - shaped[2]) / np.sqrt(shaped[3] + 1e-5) * shaped[0] + shaped[1],
    )

    def standard(a: Array, axes: Any) -> Array:
        return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 1e-5)

    close(run("instance_norm", x, w, b), standard(x, (2, 3)) * shaped[0] + shaped[1])
    close(
        run("group_norm", x, w, b, groups=3),
        standard(x.reshape(2, 3, -1), -1).reshape(x.shape) * shaped[0] + shaped[1],
    )
    w2, b2 = normal(5, 3), normal(5, 3)
    close(run("layer_norm", x, w2, b2, axis=-2), standard(x, (2, 3)) * w2 + b2)
    w3 = normal(3)
    close(run("rms_norm", x, w3), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w3)
    square = np.pad(x**2, ((0, 0), (2, 2), (0, 0), (0, 0)))
    total = sum(square[:, i : i + 6] for i in range(5))
    close(run("local_response_norm", x, size=5, alpha=0.1), x / (1 + 0.1 / 5 * total) ** 0.75)


def test_recurrent_cells() -> None:
    x, h, c = normal(3, 5), normal(3, 4), normal(3, 4)
    w, r, b, rb = normal(16, 5), normal(16, 4), normal(16), normal(16)
    i, f, g, o = np.split(x @ w.T + h @ r.T + b + rb, 4, -1)
    expit = scipy.special.expit
    new = expit(f) * c + expit(i) * np.tanh(g)
    found = run("lstm_cell", x, h, c, w, r, b, rb)
    close(found[0], expit(o) * np.tanh(new))
    close(found[1], new)
    w, r, b, rb = w[:12], r[:12], b[:12], rb[:12]
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ w.T + b, 3, -1), np.split(h @ r.T + rb, 3, -1)
    z = expit(xz + hz)
    close(run("gru_cell", x, h, w, r, b, rb), (1 - z) * np.tanh(xn + expit(xr + hr) * hn) + z * h)


def test_losses() -> None:
    x, y = normal(4, 6), normal(4, 6)
    target = np.array([0, 5, 2, 2])
    logs = scipy.special.log_softmax(x, -1)
    close(run("cross_entropy", x, target), -logs[range(4), target].mean())
    close(run("softmax_cross_entropy", x, target), -logs[range(4), target])
    p = scipy.special.softmax(y, -1)
    close(run("cross_entropy", x, p), -(logs * p).sum(-1).mean())
    close(run("mse_loss", x, y), ((x - y) ** 2).mean())
    close(run("l1_loss", x, y, reduction="sum"), np.abs(x - y).sum())
    close(run("huber_loss", x, y, delta=0.7), scipy.special.huber(0.7, x - y).mean())
    close(run("kl_div", logs, p, reduction="sum"), scipy.special.rel_entr(p, np.exp(logs)).sum())
    probability, truth = scipy.special.expit(x), (y > 0).astype(float)
    wanted = -(truth * np.log(probability) + (1 - truth) * np.log1p(-probability)).mean()
    close(run("binary_cross_entropy", probability, truth), wanted)
    close(run("binary_cross_entropy_with_logits", x, truth), wanted)
