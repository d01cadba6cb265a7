"""Initializes weights from a seed: the same bits on every machine, whatever its libraries.

Philox is keyed by the seed and the tensor's name; numbers come from its raw 64-bit words by exact
integer arithmetic and one rounding, so that no library's logarithm or sampling algorithm affects a
bit. A normal number is a sum of four 16-bit uniform ones, scaled: it stays within 3.47 standard
deviations.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import prod, sqrt

import numpy as np

from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.spec.schema.weights import InitSpec, TensorInit
from xlac.support.keys import philox_key

# numbers drawn at a time, so that intermediate arrays stay in the second-level cache
CHUNK = 1 << 15
_NORMAL = 2.0**16 * sqrt(4 * (1 - 2.0**-32) / 12)  # the standard deviation of a sum of four words
_EVEN, _LOW = np.uint64(0x0000FFFF_0000FFFF), np.uint64(0xFFFFFFFF)
_16, _32 = np.uint64(16), np.uint64(32)
ZEROS = ("bias", "mean", "beta", "running_mean", "zero_point")
ONES = ("variance", "var", "running_var", "gamma", "scale")


def scheme_of(name: str, type: Type, init: InitSpec) -> TensorInit:
    """How a tensor is drawn: by the first matching pattern, else by its name, else by the
    scheme.
    """
    for pattern, choice in init.tensors.items():
        if fnmatchcase(name, pattern):
            return choice if isinstance(choice, TensorInit) else TensorInit(scheme=choice)
    last = name.rsplit(".", 1)[-1]
    if last in ZEROS:
        return TensorInit(scheme="zeros")
    if last in ONES or (last == "weight" and type.rank == 1):
        return TensorInit(scheme="ones")
    return init.scheme if isinstance(init.scheme, TensorInit) else TensorInit(scheme=init.scheme)


def draw(name: str, type: Type, seed: int, how: TensorInit) -> Array:
    """The values of one tensor."""
    shape = tuple(int(n) for n in type.shape)  # type: ignore[arg-type]
    dtype = type.dtype.numpy
    if how.scheme in ("zeros", "ones", "constant"):
        value = {"zeros": 0.0, "ones": 1.0}.get(how.scheme, how.value)
        array = np.full(shape, value).astype(dtype)
        array.flags.writeable = False
        return array
    bits = np.random.Philox(key=philox_key(seed, name))
    count = prod(shape)
    array = np.empty(count, dtype)
    low, high, mean, deviation = how.low, how.high, 0.0, 1.0
    fan_in, fan_out = fans(shape)
    match how.scheme:
        case "normal":
            mean, deviation = how.mean, 0.02 if how.std is None else how.std
        case "kaiming":
            deviation = sqrt(2 / fan_in)
        case "xavier":
            high = sqrt(6 / (fan_in + fan_out))
            low = -high
    normal = how.scheme in ("normal", "kaiming")
    for start in range(0, count, CHUNK):
        words = bits.random_raw(min(CHUNK, count - start))
        if normal:
            # each half of a word holds the sum of two quarters
            pairs = (words & _EVEN) + ((words >> _16) & _EVEN)
            sums = (pairs & _LOW) + (pairs >> _32)
            numbers = (sums.astype(np.int64) - 131070) * (deviation / _NORMAL) + mean
        else:
            numbers = (words >> np.uint64(11)) * 2.0**-53 * (high - low) + low
        array[start : start + CHUNK] = numbers.astype(dtype)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """The fan-in and fan-out of a weight, whose first axis is the output."""
    if len(shape) < 2:
        return max(1, prod(shape)), max(1, prod(shape))
    return max(1, prod(shape[1:])), max(1, shape[0] * prod(shape[2:]))
