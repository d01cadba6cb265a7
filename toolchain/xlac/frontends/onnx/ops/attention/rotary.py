"""RotaryEmbedding: pairs of elements rotated by angles whose cosines and sines are inputs."""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.attention.heads import undivided
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build


@operator("RotaryEmbedding", since=23)
def rotary_embedding(call: OperatorCall) -> Node:
    """Operator set 23."""
    x, positions = call[0], call.get(3)
    cosine, sine = (
        build.take(call[n], positions, 0) if positions is not None else call[n] for n in (1, 2)
    )
    given = {
        "width": call.attr("rotary_embedding_dim", 0),
        "interleaved": bool(call.attr("interleaved", 0)),
    }
    if x.type.rank == 4:
        return rotated(x, cosine, sine, 1, **given)
    heads = call.attr("num_heads", 0)
    batch, time, hidden = x.shape
    if heads < 1 or not isinstance(hidden, int) or hidden % heads:
        raise ShapeError(undivided(x, f"{heads} heads"), attribute="num_heads")
    wide = build.reshape(x, (batch, time, heads, hidden // heads))
    return build.reshape(rotated(wide, cosine, sine, 2, **given), x.shape)


def rotated(
    x: Node, cosine: Node, sine: Node, heads: int, *, width: int = 0, interleaved: bool = False
) -> Node:
    """x of rank 4, with heads along axis `heads`, rotated by angles (batch, time, width / 2).

    Pairs are elements i and i + width / 2 of the last axis, or neighbours if `interleaved`;
    elements from `width` on are unchanged.
    """
    whole = x.shape[3]
    width = width or whole  # type: ignore[assignment]
    if not isinstance(width, int) or width % 2 or cosine.shape[-1] != width // 2:
        raise ShapeError(f"cosines {cosine.type} do not fit pairs of {width} elements")
    half = width // 2
    cosine, sine = (
        build.compute(build.reshape(n, (*n.shape[:heads], 1, *n.shape[heads:])))
        for n in (cosine, sine)
    )
    wide = build.compute(x)
    head = build.cut(wide, 3, 0, width)
    if interleaved:
        pairs = build.reshape(head, (*x.shape[:3], half, 2))
        a, b = (build.reshape(build.cut(pairs, 4, n, n + 1), (*x.shape[:3], half)) for n in (0, 1))
    else:
        a, b = build.cut(head, 3, 0, half), build.cut(head, 3, half, width)
    real = build.sub(build.mul(cosine, a), build.mul(sine, b))
    imaginary = build.add(build.mul(sine, a), build.mul(cosine, b))
    if interleaved:
        ends = [build.reshape(n, (*n.shape, 1)) for n in (real, imaginary)]
        head = build.reshape(build.concat(ends, 4), (*x.shape[:3], width))
    else:
        head = build.concat((real, imaginary), 3)
    if width != whole:
        head = build.concat((head, build.cut(wide, 3, width, whole)), 3)
    return build.cast(head, x.type.dtype)
