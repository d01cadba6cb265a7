"""The cases by which JAX checks the derivatives of its primitives (`check_grads` in its tests), in
f64: functions of jax.lax, jax.numpy and jax.nn with arguments away from kinks.
"""

from __future__ import annotations

import itertools

from lax_case import Case
from lax_elementwise_cases import elementwise, numpy_functions
from lax_product_cases import convolutions, indexed, products
from lax_shape_cases import orders, reductions, slices, structure, windows

CASES: dict[str, Case] = dict(
    itertools.chain(
        elementwise(),
        numpy_functions(),
        structure(),
        slices(),
        reductions(),
        windows(),
        orders(),
        products(),
        convolutions(),
        indexed(),
    )
)
