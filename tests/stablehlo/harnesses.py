"""JAX's own test cases for its primitives, compiled by xlac and compared with XLA's CPU client.

    python tests/stablehlo/harnesses.py [--every 10] [--offset 0] [--group REGEX] [--json FILE]

The cases come with the jax wheel (jax._src.internal_test_util.test_harnesses). Each is lowered by
JAX, run by XLA and by xlac on the same arguments, and must agree in type and shape, in every NaN
and infinity, and in numbers within a few units of the last place of its type. Signs of eigenvectors
and singular vectors are not determined, so the products of factors and their orthogonality are
compared instead. A case that XLA does not execute does not count.

Those that are known to differ are in harnesses_left_out.yaml, by expressions for their whole names,
with how many and why. A run of all cases fails where any other differs, or fewer than it says.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml
from jax._src.internal_test_util import test_harnesses

import xlac
from xlac_sdk.source import XlacError

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_default_matmul_precision", "highest")

TOLERANCE = {
    "float64": 1e-11,
    "float32": 1e-5,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 1e-5,
    "complex128": 1e-11,
}
"""Of a number's size, and of the root of the mean square of its tensor."""
CODES = 1  # a minifloat may be the next one


LEFT_OUT: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("harnesses_left_out.yaml").read_text("utf-8")
)


class Differs(Exception):
    """The results are not the same."""


def every(step: int, offset: int, group: str) -> Iterator[Any]:
    """The cases, evenly thinned out."""
    chosen = [
        h
        for h in test_harnesses.all_harnesses
        if re.search(group, h.group_name) or re.search(group, h.fullname)
    ]
    yield from chosen[offset::step]


def executed(harness: Any) -> tuple[Any, list[Any], list[Any]] | None:
    """The function of a case, its arguments and what XLA gives; None where XLA or JAX does not
    execute it.
    """
    if any(limit.filter(device="cpu", dtype=harness.dtype) for limit in harness.jax_unimplemented):
        return None
    try:
        arguments = harness.dyn_args_maker(np.random.RandomState(0))
        wanted = jax.tree.leaves(jax.jit(harness.dyn_fun)(*arguments))
    except Exception:  # whatever JAX raises, it is no case of ours
        return None
    return harness.dyn_fun, list(arguments), wanted


def check(found: Any, wanted: Any) -> None:
    """Raises Differs."""
    if jax.dtypes.issubdtype(wanted.dtype, jax.dtypes.extended):
        found, wanted = jax.random.key_data(found), jax.random.key_data(wanted)
    a, b = np.asarray(found), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        raise Differs(f"{a.dtype}{list(a.shape)} is not {b.dtype}{list(b.shape)}")
    name = b.dtype.name
    if b.dtype.kind in "biu" or name.startswith(("int", "uint", "void")):
        if not np.array_equal(a, b):
            raise Differs(
                f"{int(np.sum(a != b))} of {b.size} integers differ: {first(a, b, a != b)}"
            )
        return
    if name.startswith(("float8", "float4")):
        wrong = np.abs(a.view(np.int8).astype(int) - b.view(np.int8).astype(int)) > CODES
        wrong &= ~(np.isnan(a.astype(np.float32)) & np.isnan(b.astype(np.float32)))
        if wrong.any():
            raise Differs(f"{int(wrong.sum())} of {b.size} codes differ: {first(a, b, wrong)}")
        return
    if b.dtype.kind == "c":
        part = np.float32 if name == "complex64" else np.float64
        a, b = (np.ascontiguousarray(x).view(part) for x in (a, b))
    numbers(a.astype(np.float64), b.astype(np.float64), TOLERANCE[name])


def factors(group: str, results: list[Any]) -> list[tuple[str, Any]] | None:
    """What does not depend on signs, or on the matrix's condition, in the results of `eigh`, `svd`
    and `cholesky`, with names: values, the matrix that the factors make, and V* V for their
    vectors. None for other functions.
    """
    arrays = [np.asarray(x) for x in results]
    if group == "cholesky":
        return [("the product of factors", arrays[0] @ turned(arrays[0]))]
    if group not in ("eigh", "svd") or len(results) == 1:
        return None
    (values,) = (x for x in arrays if x.ndim == min(a.ndim for a in arrays))
    matrices = [x for x in arrays if x is not values]
    left, right = matrices[0], matrices[-1]
    if group == "eigh":
        right = turned(left)
    size = values.shape[-1]
    made = (left[..., :size] * values[..., None, :]) @ right[..., :size, :]
    found = [("values", values), ("the product of factors", made), ("U* U", turned(left) @ left)]
    return found if group == "eigh" else [*found, ("V* V", right @ turned(right))]


def turned(x: Any) -> Any:
    """The adjoint."""
    return np.conj(np.swapaxes(x, -1, -2))


def check_factors(group: str, found: list[Any], wanted: list[Any]) -> None:
    """Each product is within 30 n eps of the matrix, in the Frobenius norm, so that two are within
    60 n eps of each other. Raises Differs.
    """
    for a, b in zip(found, wanted, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Differs(f"{a.dtype}{list(a.shape)} is not {b.dtype}{list(b.shape)}")
    pairs = zip(factors(group, found) or (), factors(group, wanted) or (), strict=True)
    for (name, a), (_, b) in pairs:
        axes = -1 if name == "values" else (-2, -1)
        far = np.linalg.norm(a - b, axis=axes)
        allowed = 60 * b.shape[-1] * np.finfo(b.dtype).eps * np.linalg.norm(b, axis=axes)
        if not np.all(far <= allowed):
            raise Differs(f"{name} differs by {np.max(far)}, {np.min(allowed)} is allowed")


def check_eigen(params: Any, a: Any, found: list[Any], wanted: list[Any]) -> None:
    """Eigenvalues are XLA's in some order, within 60 n eps |a| times the condition of the
    eigenvectors, and vectors, which have length 1, solve their equations within 60 n eps |a|.
    Raises Differs.
    """
    for x, y in zip(found, wanted, strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            raise Differs(f"{x.dtype}{list(x.shape)} is not {y.dtype}{list(y.shape)}")
    size = a.shape[-1]
    values, *vectors = (np.asarray(x) for x in found)
    sides = [k for k in ("left", "right") if params[f"compute_{k}_eigenvectors"]]
    allowed = 60 * size * np.finfo(values.dtype).eps * np.linalg.norm(a, axis=(-2, -1))
    for side, v in zip(sides, vectors, strict=True):
        matrix, w = (turned(a), values.conj()) if side == "left" else (a, values)
        far = np.linalg.norm(matrix @ v - v * w[..., None, :], axis=-2)
        if not np.all(far <= allowed[..., None]):
            raise Differs(f"{side} eigenvectors: {np.max(far)}, {np.min(allowed)} is allowed")
        if not np.allclose(np.linalg.norm(v, axis=-2), 1.0, atol=1e-5):
            raise Differs(f"{side} eigenvectors are not of length 1")
    for at in np.ndindex(*a.shape[:-2]):
        rest, limit = list(values[at]), allowed[at]
        limit *= np.linalg.cond(np.linalg.eig(a[at])[1]) if size else 1.0
        for value in np.asarray(wanted[0])[at]:
            nearest = rest.pop(int(np.argmin(np.abs(np.array(rest) - value))))
            if not abs(nearest - value) <= limit:
                raise Differs(f"the eigenvalue {nearest} for {value}, {limit} is allowed")


def numbers(a: Any, b: Any, tolerance: float) -> None:
    finite = np.isfinite(b)
    with np.errstate(all="ignore"):
        spread = np.sqrt(np.mean(np.square(b[finite]))) if finite.any() else 0.0
        close = np.abs(a - b) <= tolerance * (np.abs(b) + spread)
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | (close & finite)
    if not same.all():
        raise Differs(f"{int((~same).sum())} of {b.size} numbers differ: {first(a, b, ~same)}")


def first(a: Any, b: Any, wrong: Any) -> str:
    spots = np.argwhere(wrong)[:3]
    return ", ".join(f"{a[tuple(s)]!s} for {b[tuple(s)]!s}" for s in spots)


def outcome(harness: Any) -> str:
    """Nothing when a case agrees, `-` when it does not count, else how it fails."""
    case = executed(harness)
    if case is None:
        return "-"
    function, arguments, wanted = case
    try:
        found = jax.tree.leaves(xlac.from_jax(function, *arguments)(*arguments))
        if len(found) != len(wanted):
            return f"{len(found)} results instead of {len(wanted)}"
        if harness.group_name == "eig":
            check_eigen(harness.params, np.asarray(arguments[0]), found, wanted)
        elif factors(harness.group_name, wanted):
            check_factors(harness.group_name, found, wanted)
        else:
            for a, b in zip(found, wanted, strict=True):
                check(a, b)
    except (Differs, XlacError) as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # a crash is a failure like any other, and the rest must run
        return f"crash: {type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.partition("\n\n")[0].split()))  # type: ignore[union-attr]
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--group", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    failures: dict[str, str] = {}
    known: Counter[str] = Counter()
    began = time.process_time()
    for harness in every(given.every, given.offset, given.group):
        told = outcome(harness)
        kind = "agree" if not told else "not run" if told == "-" else "differ"
        if kind == "differ":
            listed = next((k for k in LEFT_OUT if re.fullmatch(k, harness.fullname)), None)
            if listed is not None:
                kind = "known to differ"
                known[listed] += 1
        counts[kind] += 1
        groups[harness.group_name][kind] += 1
        if kind == "differ":
            failures[harness.fullname] = told
            print(harness.fullname, "--", told.replace("\n", " ")[:300], flush=True)
    counted = counts["agree"] + counts["differ"] + counts["known to differ"]
    print(
        f"{counts['agree']} of {counted} agree, {counts['known to differ']} are known to differ, "
        f"{counts['not run']} do not count; "
        f"{time.process_time() - began:.0f} CPU seconds"
    )
    if given.json:
        given.json.write_text(json.dumps({"groups": groups, "failures": failures}, indent=1))
    whole = given.every == 1 and not given.group
    stale = {k: v["cases"] for k, v in LEFT_OUT.items() if known[k] != v["cases"]} if whole else {}
    for expression, cases in stale.items():
        print(f"{known[expression]} and not {cases} differ, change the list: {expression}")
    return 1 if failures or stale else 0


if __name__ == "__main__":
    sys.exit(main())
