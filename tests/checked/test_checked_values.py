"""Every operation of floats, checked: NaN and infinity that appear are found, and nothing else."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from checked_runs import NAMES, model_of, run

from xlac.ir.faults import INFINITY, NAN
from xlac.ir.op import OPS, Array, Sample
from xlac.ops.sampling import draw
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.formula import Formula
from xlac.ops.scalar.primitive import Scalar
from xlac_sdk.dtypes import DType

FLOATS = [n for n in NAMES if any(t.dtype.is_float for s in OPS[n].samples() for t in s.inputs)]
HARD = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, np.inf, -np.inf, 1e30, -1e30, 7e4, 1e-30)
LARGEST = 3000  # elements of an operand


def appears(array: Array, kind: str) -> Array:
    wide = np.asarray(array).astype(np.float64)
    return np.isnan(wide) if kind == NAN else np.isinf(wide)


def small(name: str) -> Iterator[Sample]:
    for sample in OPS[name].samples():
        if any(t.dtype.is_float for t in sample.inputs) and all(
            isinstance(t.size, int) and t.size <= LARGEST for t in sample.inputs
        ):
            yield sample


def drawn(sample: Sample, seed: str, holes: bool) -> tuple[Array, ...]:
    """Operands with hard values and, for `holes`, one NaN; the others are small numbers."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    arrays = []
    for array in draw(sample):
        if DType.of(array.dtype).is_float and array.size:
            with np.errstate(all="ignore"):
                array = np.array(
                    rng.uniform(0.5, 2, array.shape) if holes else rng.choice(HARD, array.shape)
                ).astype(array.dtype)
            if holes:
                array.reshape(-1)[rng.integers(array.size)] = np.nan
        arrays.append(array)
    return tuple(arrays)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("kind", [NAN, INFINITY])
@pytest.mark.parametrize("name", FLOATS)
def test_what_appears_is_found_and_nothing_else(name: str, kind: str) -> None:
    """Also says whether an operation creates more than it declares."""
    for number, sample in enumerate(list(small(name))[:6]):
        for holes in (False, True):
            op, arrays = (
                OPS[name](**sample.attributes),
                drawn(sample, f"{name}{number}{kind}", holes),
            )
            with np.errstate(all="ignore"):
                made = op.evaluate(*arrays)
            wanted: int | None = None
            floats = [a for a in arrays if DType.of(a.dtype).is_float]
            for result in made if isinstance(made, tuple) else (made,):
                result = np.asarray(result)
                if not DType.of(result.dtype).is_float or wanted is not None:
                    continue
                bad = appears(result, kind)
                if isinstance(op, Scalar | Cast | Formula):
                    for a in floats:
                        bad = bad & ~np.broadcast_to(appears(a, kind), bad.shape)
                elif any(appears(a, kind).any() for a in floats):
                    bad = np.zeros_like(bad)
                if bad.any():
                    wanted = int(np.flatnonzero(bad)[0])
            check, record = run(model_of(op, *sample.inputs), arrays, kind)
            assert (check is None) == (wanted is None), (sample, holes, check)
            if check is not None:
                assert (check.kind, record[0]) == (kind, wanted), sample
