"""Arrays along axes that step over elements in row-major order: the elements of a copy, without one
where that can be.
"""

from __future__ import annotations

import numpy as np
import pytest

from xlac.ir.storage import stepped

# shape, order of axes in memory, extents, steps, elements before, own axes, seen where it lies
CASES = [
    ((3, 4, 5), (0, 1, 2), (3, 4, 5), (20, 5, 1), 0, 1, True),
    ((3, 4, 5), (2, 0, 1), (3, 4, 5), (20, 5, 1), 0, 1, True),
    ((3, 4, 5), (2, 1, 0), (12, 5), (5, 1), 0, 0, True),  # two axes as one
    ((3, 4, 5), (1, 0, 2), (6, 5), (5, 1), 0, 0, False),  # half of an axis: not those axes'
    # part of an axis, and one that does not step
    ((3, 4, 5), (2, 0, 1), (2, 1, 5), (20, 77, 1), 0, 1, True),
    ((3, 4, 5), (2, 0, 1), (12, 5), (5, 1), 0, 1, False),  # an axis of its own stays one
    ((3, 4, 5), (0, 1, 2), (2, 3, 5), (20, 5, 1), 5, 0, False),
    ((3, 4, 5), (0, 2, 1), (2, 3, 4), (20, 5, 5), 0, 0, False),  # two that step alike
    ((1, 1, 6), (2, 0, 1), (1, 6), (6, 1), 0, 0, True),
]


@pytest.mark.parametrize(("shape", "order", "extents", "steps", "offset", "own", "lies"), CASES)
def test_elements_are_those_of_the_row_major_order(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    extents: tuple[int, ...],
    steps: tuple[int, ...],
    offset: int,
    own: int,
    lies: bool,
) -> None:
    stored = np.arange(np.prod(shape), dtype=np.float32).reshape([shape[axis] for axis in order])
    array = stored.transpose(np.argsort(order))
    assert array.shape == shape
    flat = np.ascontiguousarray(array).reshape(-1)
    places = offset + np.tensordot(steps, np.indices(extents), 1)
    seen = stepped(array, extents, steps, offset, own)
    np.testing.assert_array_equal(seen.reshape(extents), flat[places])
    assert seen.shape[:own] == extents[:own] and seen.shape[-1] == extents[-1]
    contiguous = array.flags.c_contiguous
    assert np.shares_memory(seen, stored) == (lies or contiguous)
