"""Operations that libraries compute whole, by the names of their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlac_sdk.libraries.attention import ATTENTION, Attention
from xlac_sdk.libraries.convolution import CONVOLUTION, Convolution
from xlac_sdk.libraries.product import PRODUCT, Product

Problem = Product | Convolution | Attention
CALLS = (PRODUCT, CONVOLUTION, ATTENTION)


def problem(attributes: Mapping[str, Any]) -> Problem:
    """The description of a call's operation: its one attribute."""
    (operation,) = attributes.values()
    assert isinstance(operation, Problem)
    return operation


def compute(attributes: Mapping[str, Any], *arguments: Any) -> None:
    """Runs such a call, in NumPy."""
    problem(attributes).compute(*arguments)


COMPUTED: Mapping[str, Callable[..., None]] = dict.fromkeys(CALLS, compute)
