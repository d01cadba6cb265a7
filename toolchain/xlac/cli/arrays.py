"""Arrays given on the command line: files, random numbers, zeros, or literals."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EISDIR
from math import isinf, prod
from pathlib import Path

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.array_values import as_array
from xlac_sdk.host.call_binding import shape_text
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.files import regular

LITERAL = re.compile(r"(?:(?P<shape>\d+(?:x\d+)*)x)?(?P<dtype>[a-z]+\d*)=(?P<values>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class UntypedNumbers:
    """Literal numbers whose type and shape are those of the input: a single one fills it, several
    are its elements in order.
    """

    values: tuple[float | int, ...]

    def of(self, name: str, dtype: DType, shape: Sequence[int]) -> Array:
        """The array. Raises SourceError where the type cannot hold them, or the shape has not as
        many elements.
        """
        if len(self.values) > 1 and len(self.values) != prod(shape):
            problem = (
                f"input '{name}' has {prod(shape)} elements ({shape_text(tuple(shape))}), but "
                f"{len(self.values)} numbers are given"
            )
            raise SourceError(Diagnostic("XL6003", problem))
        one = as_array(list(self.values) if len(self.values) > 1 else self.values[0], dtype, name)
        return np.broadcast_to(one if one.ndim == 0 else one.reshape(shape), shape).copy()


def read(text: str, name: str) -> Array | UntypedNumbers:
    """`@file.npy`, `file.npy`, `2x64xf32=1,2,…`, or numbers alone, whose type and shape are the
    input's.

    Raises SourceError naming the input.
    """
    if text.startswith("@") or text.endswith(".npy"):
        return load_npy(Path(text.removeprefix("@")), name)
    match = LITERAL.fullmatch(text)
    if match is None:
        with suppress(ValueError):
            return UntypedNumbers(tuple(_number(v) for v in text.strip("[] \n").split(",")))
    if match is None or match["dtype"] not in {d.value for d in DType}:
        hint = (
            "write 2.5, 1,2,3, FILE.npy, random, zeros, ones, or a literal with its type such as "
            "2x64xf32=0.5"
        )
        raise SourceError(
            Diagnostic("XL6005", f"cannot read '{text}' as the array for '{name}'", hint=hint)
        )
    dtype = DType(match["dtype"])
    shape = tuple(map(int, match["shape"].split("x"))) if match["shape"] else ()
    try:
        values = [_number(v) for v in re.split(r"[,\s]+", match["values"].strip("[] \n")) if v]
        array = as_array(values, dtype, name)
        whole = np.broadcast_to(array.reshape(() if array.size == 1 else shape), shape)
        return np.array(whole, order="C")
    except ValueError as error:
        raise SourceError(Diagnostic("XL6005", f"array for '{name}': {error}")) from None


def _number(text: str) -> float | int:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text, 0)
    except ValueError:
        number = float(text)
    if isinf(number) and "inf" not in text.lower():
        problem = f"{text.strip()} is beyond every type of floats"
        raise SourceError(Diagnostic("XL4015", problem, hint="an infinity is written inf"))
    return number


def load_npy(file: Path, name: str) -> Array:
    """An array from a .npy file; pickles are rejected."""
    array = _loaded(file, f"array for '{name}': {file}")
    if isinstance(array, dict):
        raise SourceError(
            Diagnostic(
                "XL6005",
                f"array for '{name}': {file} is an archive of several arrays",
                hint="give it as a whole, with --inputs or --expect FILE.npz",
            )
        )
    return array


def load_npz(file: Path) -> dict[str, Array]:
    """The arrays of a .npz archive by name; pickles are rejected."""
    arrays = _loaded(file, str(file))
    if not isinstance(arrays, dict):
        problem = f"{file}: it holds one array without a name; a .npz holds several by name"
        raise SourceError(Diagnostic("XL6005", problem))
    return arrays


def _loaded(file: Path, what: str) -> Array | dict[str, Array]:
    """Loads a file with NumPy. Raises OSError where it cannot be opened, and SourceError for
    invalid content.
    """
    if file.is_dir():
        raise IsADirectoryError(EISDIR, "Is a directory", str(file))
    with regular(file).open("rb") as data:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about sizes that overflow
                content = np.load(data, allow_pickle=False)
                return (
                    content
                    if isinstance(content, np.ndarray)
                    else {name: content[name] for name in content.files}
                )
        except MemoryError:
            raise SourceError(
                Diagnostic(
                    "XL6005", f"{what}: its header claims more bytes than this machine's memory"
                )
            ) from None
        except Exception as error:
            # NumPy, zipfile and zlib raise many types of exceptions on invalid data
            raise SourceError(Diagnostic("XL6005", f"{what}: {_reason(error)}")) from None


def _reason(error: Exception) -> str:
    """A reason for the user: NumPy takes every unknown file for a pickle, and then advises loading
    it as one.
    """
    text = str(error)
    if "pickle" in text and "Object arrays" not in text:
        return "it is no .npy or .npz file"
    return (
        "its elements are Python objects, which are not read" if "Object arrays" in text else text
    )


def make(kind: str, dtype: DType, shape: Sequence[int], generator: np.random.Generator) -> Array:
    """An array of random numbers, zeros or ones."""
    if kind == "zeros":
        return np.zeros(shape, dtype.numpy)
    if kind == "ones":
        return np.ones(shape, dtype.numpy)
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 8, shape).astype(dtype.numpy)


KINDS = ("random", "zeros", "ones")
