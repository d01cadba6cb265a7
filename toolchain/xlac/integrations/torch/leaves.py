"""Checks the tensors of a call against a program's inputs, which are read by address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from xlac.frontends.torch.tensors import COMPLEX, TORCH
from xlac.ir.types import Type
from xlac_sdk.host.array_values import NOWHERE, check_regular, on_device, without_memory, wrong
from xlac_sdk.host.call_binding import check_apart, fits, other_shape, other_type


def checked(name: str, wanted: Type, tensor: torch.Tensor, complex: bool = False) -> torch.Tensor:
    """The tensor itself, if it is strided, on the CPU, and has the wanted dtype and shape; of
    `complex` numbers `wanted` has the parts along a last axis. Raises SourceError otherwise, and
    for a tensor without memory (meta, fake).
    """
    if tensor.device.type != "cpu":
        raise on_device(name, str(tensor.device))
    check_regular(tensor, name)
    dtype = (COMPLEX if complex else TORCH)[wanted.dtype]
    shape = wanted.shape[:-1] if complex else wanted.shape
    if tensor.dtype is not dtype:
        raise other_type(
            "input",
            name,
            np.dtype(f"complex{2 * wanted.dtype.bits}") if complex else wanted.dtype,
            str(tensor.dtype).removeprefix("torch."),
            f"convert it: x.to({dtype})",
        )
    if not fits(tensor.shape, shape):
        raise other_shape("input", name, shape, tensor.shape)
    if without_memory(tensor):
        raise on_device(name, NOWHERE)
    return tensor


def check_written(written: Iterable[str], tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises SourceError where an input that the program writes to overlaps another in memory."""
    changed = [name for name in written if name in tensors]
    if changed:
        extents = {
            name: (f"input '{name}', which is changed,", *_extent(tensor))
            for name, tensor in tensors.items()
        }
        check_apart(
            [extents[n] for n in changed],
            [(f"input '{n}'", *extents[n][1:]) for n in tensors if n not in changed],
        )


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The address of a tensor's first element, and the bytes from there to the end of its last."""
    if not tensor.numel():
        return 0, 0
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return tensor.data_ptr(), (reach + 1) * tensor.element_size()


def constant(name: str, wanted: Any, given: Any) -> None:
    """Raises SourceError where an argument that is a constant of the program has another value."""
    same = type(given) is type(wanted) and (
        given is wanted or repr(given) == repr(wanted)
        if isinstance(given, float)
        else given == wanted
    )
    if not same:
        problem = (
            f"input '{name}' is part of the program, which was made for {wanted!r}, and is now "
            f"{given!r:.80}"
        )
        raise wrong("XL6001", problem, "make another with this value among the example arguments")
