"""Parses the numbers of `dense<...>` and `array<...>` into NumPy arrays of the element's storage
type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.text.syntax import Element
from xlac.ir.op import Array
from xlac.ops.scalar.minifloat_codes import EncodeFloat

PAIR = re.compile(r"\(([^,()]*),([^,()]*)\)")


def storage(element: Element) -> np.dtype[Any]:
    """The NumPy dtype of an array of elements; complex numbers are not split here."""
    if element.complex:
        return np.dtype(np.complex64 if element.dtype.bits == 32 else np.complex128)
    return element.dtype.numpy


def dense(text: str, element: Element, shape: tuple[int, ...]) -> Array:
    """Parses the inside of `dense<...>` that is not a string: nested lists, or a splat. Raises
    ValueError.
    """
    text = text.strip()
    count = prod(shape)
    if not text:
        if count:
            raise ValueError(f"{count} numbers are missing")
        return np.zeros(shape, storage(element))
    words = _words(text, element)
    if not text.startswith("["):
        if len(words) != 1:
            raise ValueError(f"{len(words)} numbers outside of brackets")
        return np.broadcast_to(numbers(words, element).reshape(()), shape)
    brackets, wanted = text.count("["), sum(prod(shape[:axis]) for axis in range(len(shape)))
    if len(words) != count or brackets != wanted or text.count("]") != brackets:
        raise ValueError(f"{len(words)} numbers in {brackets} lists do not fill {list(shape)}")
    return numbers(words, element).reshape(shape)


def _words(text: str, element: Element) -> Sequence[Any]:
    if element.complex:
        return PAIR.findall(text)
    inside = text.replace("[", " ").replace("]", " ")
    return [word for word in map(str.strip, inside.split(",")) if word] if inside.strip() else []


def numbers(words: Sequence[Any], element: Element) -> Array:
    """Numbers as MLIR writes them: decimal, or the bits after 0x. Raises ValueError."""
    if element.complex:
        real, imaginary = (
            numbers([word[part].strip() for word in words], part_of(element)) for part in (0, 1)
        )
        return (
            (real + 1j * imaginary.astype(storage(element))).astype(storage(element))
            if len(words)
            else np.zeros(0, storage(element))
        )
    if element.format:
        return _codes(words, element.format)
    if element.dtype.is_float:
        return _floats(words, element.dtype.numpy)
    bits = element.bits or (1 if element.text == "i1" else element.dtype.bits)
    values = [_whole(word, bits) for word in words]
    return (
        np.array(values, np.uint64).astype(element.dtype.numpy)
        if not element.bits
        else _narrow(values, element)
    )


def _whole(word: str, bits: int) -> int:
    """An integer modulo 2^64; conversion to the type restores the sign."""
    value = {"true": 1, "false": 0}.get(word)
    value = int(word, 0) if value is None else value
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise ValueError(f"{word[:40]} does not fit {bits} bits")
    return value % (1 << 64)


def _narrow(values: list[int], element: Element) -> Array:
    if element.dtype.is_signed:
        half = 1 << (element.bits - 1)
        values = [(v + half) % (2 * half) - half for v in values]
    return np.array(values, element.dtype.numpy)


def _floats(words: Sequence[str], dtype: np.dtype[Any]) -> Array:
    if not any(word.startswith(("0x", "-0x")) for word in words):
        with np.errstate(over="ignore"):
            return np.array([float(word) for word in words], np.float64).astype(dtype)
    whole = np.dtype(f"u{dtype.itemsize}")
    with np.errstate(over="ignore"):
        each = [
            np.array(_whole(w, 8 * dtype.itemsize)).astype(whole)
            if "0x" in w
            else np.array(float(w)).astype(dtype).view(whole)
            for w in words
        ]
    return np.array(each, whole).view(dtype)


def _codes(words: Sequence[str], format: str) -> Array:
    encode = EncodeFloat(format)
    each = [
        _whole(w, 8) if w.startswith("0x") else int(encode.evaluate(np.array([float(w)]))[0])
        for w in words
    ]
    return np.array(each, np.uint8)


def hexadecimal(text: str) -> bytes:
    """The bytes of `dense<"0x…">`. Raises ValueError for other characters, or half a byte."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError("the text after 0x is not hexadecimal digits, two for each byte") from None


def raw(data: bytes, element: Element, shape: tuple[int, ...]) -> Array:
    """Elements from their bytes, or a splat from the bytes of one; i1 has eight elements per byte.
    Raises ValueError.
    """
    count, dtype = prod(shape), storage(element)
    if element.text == "i1" and len(data) != count and len(data) == -(-count // 8):
        return (
            np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count]
            .astype(np.bool_)
            .reshape(shape)
        )
    elements = np.frombuffer(data, np.uint8 if element.text == "i1" else dtype)
    if element.text == "i1":
        elements = elements != 0
    if element.bits and element.dtype.is_signed:
        elements = (elements << (8 - element.bits)).astype(np.int8) >> (8 - element.bits)
    if elements.size == 1:
        return np.broadcast_to(elements.reshape(()), shape)
    if elements.size != count:
        raise ValueError(f"{len(data)} bytes do not fill {list(shape)} of {element.text}")
    return elements.reshape(shape)
