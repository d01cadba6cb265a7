"""Names of classes as Keras writes them in the paths of weights."""

from __future__ import annotations

import re

CLASSES = {"GroupQueryAttention": "GroupedQueryAttention"}
"""What classes are called, where files call them otherwise."""


def snake_case(name: str) -> str:
    """`Conv2D` as `conv2d`, `SeparableConv2D` as `separable_conv2d`."""
    name = CLASSES.get(name, name)
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
