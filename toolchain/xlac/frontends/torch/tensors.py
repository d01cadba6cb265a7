"""Conversions between torch tensors and NumPy arrays that share memory, and their element types."""

from __future__ import annotations

import numpy as np
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from xlac.ir.op import Array
from xlac_sdk.dtypes import DType

DTYPES = {
    torch.float64: DType.F64, torch.float32: DType.F32, torch.float16: DType.F16,
    torch.bfloat16: DType.BF16, torch.int8: DType.I8, torch.int16: DType.I16,
    torch.int32: DType.I32, torch.int64: DType.I64, torch.uint8: DType.U8, torch.uint16: DType.U16,
    torch.uint32: DType.U32, torch.uint64: DType.U64, torch.bool: DType.BOOL,
}  # fmt: skip
TORCH = {ours: theirs for theirs, ours in DTYPES.items()}
PARTS = {torch.complex64: DType.F32, torch.complex128: DType.F64}
"""The element type of the parts of complex numbers."""
COMPLEX = {part: whole for whole, part in PARTS.items()}


def array_of(tensor: torch.Tensor) -> Array:
    """The elements of a CPU tensor; copied only if they are not dense in row-major order. Complex
    numbers become real ones with a last axis of 2.
    """
    with unset_fake_temporarily():  # while a graph is being traced, PyTorch refuses real tensors
        dense = tensor.detach().contiguous()
        if dense.is_conj() or dense.is_neg():
            dense = dense.resolve_conj().resolve_neg()
        if dense.is_complex():
            dense = torch.view_as_real(dense)
        if dense.dtype is torch.bfloat16:  # dtypes that NumPy lacks
            bits: Array = dense.view(torch.uint16).numpy()
            return bits.view(DType.BF16.numpy)
        array: Array = dense.numpy()
        return array


def tensor_of(array: Array) -> torch.Tensor:
    """A tensor that shares the memory of a dense array."""
    if array.dtype == DType.BF16.numpy:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)
