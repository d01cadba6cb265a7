"""Functions of TensorFlow that place, choose and convert elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from xlac.frontends.keras.keras2.pointwise_of_tensorflow import alike
from xlac.frontends.keras.layers import functions
from xlac.frontends.keras.registry import function_of_tensorflow
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build

Axes = int | list[int] | None
Text = str | None


@function_of_tensorflow("reshape")
def reshape(tensor: Node, shape: list[int], name: Text = None) -> Node:
    """The same elements in another shape; one size may be -1."""
    return functions.reshape(tensor, shape)


@function_of_tensorflow("compat.v1.transpose", "transpose")
def transpose(
    a: Node, perm: list[int] | None = None, name: Text = None, conjugate: bool = False
) -> Node:
    """Axes reordered."""
    return build.transpose(a, perm)


@function_of_tensorflow("expand_dims")
def expand_dims(input: Node, axis: int, name: Text = None) -> Node:
    """A new axis of one element."""
    return build.apply1("unsqueeze", input, axis=axis)


@function_of_tensorflow("compat.v1.squeeze", "squeeze")
def squeeze(input: Node, axis: Axes = None, name: Text = None, squeeze_dims: None = None) -> Node:
    """Without axes of one element."""
    return build.apply1("squeeze", input, axis=axis)


@function_of_tensorflow("concat")
def concat(values: Sequence[Node], axis: int, name: Text = None) -> Node:
    """One after another along an axis."""
    return functions.concatenate(_listed(values), axis)


@function_of_tensorflow("stack")
def stack(values: Sequence[Node], axis: int = 0, name: Text = None) -> Node:
    """Side by side along a new axis."""
    return functions.stack(_listed(values), axis)


def _listed(values: Node | Sequence[Node]) -> Sequence[Node]:
    """Tensors; files have a list of one as that one."""
    return [values] if isinstance(values, Node) else values


@function_of_tensorflow("math.add_n")
def add_n(inputs: Sequence[Node], name: Text = None) -> Node:
    """The sum of tensors."""
    return list(accumulate(_listed(inputs), build.add))[-1]


@function_of_tensorflow("split")
def split(
    value: Node,
    num_or_size_splits: int | list[int],
    axis: int = 0,
    num: None = None,
    name: Text = None,
) -> tuple[Node, ...]:
    """Parts along an axis: a number of equal ones, or of given sizes."""
    if isinstance(num_or_size_splits, int):
        return functions.split(value, num_or_size_splits, axis)
    if min(num_or_size_splits, default=0) < 0:
        raise ShapeError("a size that is left open is not supported")
    ends = list(accumulate(num_or_size_splits, initial=0))
    return tuple(build.cut(value, axis % value.type.rank, a, b) for a, b in pairwise(ends))


@function_of_tensorflow("unstack")
def unstack(
    value: Node, num: int | None = None, axis: int = 0, name: Text = None
) -> tuple[Node, ...]:
    """The parts along an axis, without it."""
    axis %= value.type.rank
    size = value.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(f"the size of axis {axis} of {value.type} must be known")
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return tuple(build.reshape(build.cut(value, axis, n, n + 1), shape) for n in range(size))


@function_of_tensorflow("tile")
def tile(input: Node, multiples: list[int], name: Text = None) -> Node:
    """x repeated along its axes."""
    return build.apply1("tile", input, repeats=multiples)


@function_of_tensorflow("compat.v1.pad", "pad")
def pad(
    tensor: Node,
    paddings: list[list[int]],
    mode: str = "CONSTANT",
    name: Text = None,
    constant_values: float = 0,
) -> Node:
    """x with a border."""
    kinds = {"CONSTANT": "constant", "REFLECT": "reflect"}
    if mode.upper() not in kinds:
        raise ShapeError(f"the mode {mode!r} is not supported")
    kind = kinds[mode.upper()]
    return build.apply1("pad_mode", tensor, pads=paddings, mode=kind, value=constant_values)


@function_of_tensorflow("compat.v1.gather", "gather")
def gather(
    params: Node,
    indices: Any,
    validate_indices: None = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: Text = None,
) -> Node:
    """Parts along an axis, at indices."""
    if batch_dims:
        raise ShapeError("batch_dims are not supported")
    return functions.take(params, indices, axis or 0)


@function_of_tensorflow("one_hot")
def one_hot(
    indices: Node,
    depth: int,
    on_value: None = None,
    off_value: None = None,
    axis: int | None = None,
    dtype: Text = None,
    name: Text = None,
) -> Node:
    """1 at an index, else 0."""
    return functions.one_hot(indices, depth, -1 if axis is None else axis, dtype)


@function_of_tensorflow("cast")
def cast(x: Node, dtype: str, name: Text = None) -> Node:
    """Another type of elements."""
    return functions.cast(x, dtype)


@function_of_tensorflow("where")
def where(condition: Node, x: Any, y: Any, name: Text = None) -> Node:
    """x where the condition holds, else y."""
    return build.select(condition, *alike(x, y))


@function_of_tensorflow("clip_by_value")
def clip_by_value(t: Node, clip_value_min: Any, clip_value_max: Any, name: Text = None) -> Node:
    """x within two bounds."""
    return functions.clip(t, clip_value_min, clip_value_max)


@function_of_tensorflow("linalg.matmul")
def matmul(
    a: Node, b: Node, transpose_a: bool = False, transpose_b: bool = False, **rest: Any
) -> Node:
    """The product of matrices."""
    if any(value not in (None, False) for name, value in rest.items() if name != "name"):
        raise ShapeError("adjoint, sparse and other forms of matmul are not supported")
    x = build.apply1("swapaxes", a, a=-1, b=-2) if transpose_a else a
    y = build.apply1("swapaxes", b, a=-1, b=-2) if transpose_b else b
    return build.apply1("matmul", x, y)


@function_of_tensorflow("einsum")
def einsum(equation: Any, name: Text = None, **rest: Any) -> Node:
    """Refused: Keras 2 saves the equation alone."""
    raise ShapeError(
        "files of Keras 2 do not say what tf.einsum is called with", hint="use layers.EinsumDense"
    )


@function_of_tensorflow("image.resize")
def image_resize(
    images: Node,
    size: list[int],
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: Text = None,
) -> Node:
    """Height and width as wanted, as floats."""
    if method not in ("bilinear", "nearest") or preserve_aspect_ratio or antialias:
        raise ShapeError("only the methods 'bilinear' and 'nearest' are supported")
    near = method == "nearest"
    first = images.type.rank - 3
    return build.apply1(
        "resize",
        images if near else build.floating(images),
        size=size,
        axes=(first, first + 1),
        mode="nearest" if near else "linear",
        rounding="round_prefer_ceil" if near else "round_prefer_floor",
    )


@function_of_tensorflow("__operators__.getitem")
def getitem(tensor: Node, slice_spec: Any, var: None = None) -> Node:
    """Indexing by numbers, slices, an ellipsis and new axes."""
    listed = slice_spec if isinstance(slice_spec, list) else [slice_spec]
    return functions.get_item(tensor, [_key(part) for part in listed])


def _key(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parts = [value.get(name) for name in ("start", "stop", "step")]
    if set(value) != {"start", "stop", "step"} or not all(
        part is None or isinstance(part, int) for part in parts
    ):
        raise ShapeError("only numbers, slices, ... and None index tensors")
    return slice(*parts)
