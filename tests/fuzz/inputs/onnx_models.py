"""ONNX models: what `xlac check model.onnx` reads. Seeds are ONNX's own cases for operators, and
specs written as ONNX.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from harness.target import NUMBERS, ROOT, Target, plain

import xlac.frontends.onnx.ops  # noqa: F401 - fills the registry
from xlac.frontends.onnx import load, registry
from xlac.frontends.onnx.file.messages import messages
from xlac.ir.verify import verify
from xlac.model import Model
from xlac.spec.summary import summarize

FAMILIES = (
    "scan",
    "loop",
    "gather",
    "tfidfvectorizer",
    "split",
    "splittosequence",
    "sequenceinsert",
    "resize",
)
SHIPPED = ("softmax", "layernorm_gelu", "mul_add_reduce", "branch_cond", "loop_scan", "loop_while")


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(data)
        model = load(file)
        verify(model.graph)
        summarize(model)


@cache
def few() -> list[Any]:
    """Models of one node from a few of ONNX's modules: making all of its cases takes seconds."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for family in FAMILIES:
            import_module(f"{node.__name__}.{family}")
        return [case.model for case in node._NodeTestCases]


@cache
def every() -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case.model for case in load_model_tests(kind="node") if case.model]
    return sorted(found, key=lambda model: int(model.ByteSize()))


def few_seeds() -> Iterator[bytes]:
    yield from (model.SerializeToString() for model in few())


def seeds() -> Iterator[bytes]:
    yield from map(exported, SHIPPED)
    yield from (model.SerializeToString() for model in few())
    yield from (model.SerializeToString() for model in every())


def exported(name: str) -> bytes:
    from xlac.exporters.onnx.model import write
    from xlac.spec.load import load as read

    model: Model = read(ROOT / "specs" / f"{name}.yaml")
    with tempfile.TemporaryDirectory() as folder:
        write(model, Path(folder) / "m.onnx")
        return (Path(folder) / "m.onnx").read_bytes()


def mutate(data: bytes, random: Random) -> bytes | None:
    """A field of a message changed, dropped, doubled, or taken from another model."""
    model = messages().ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # protobuf's, which is of no fixed class
        return None
    # text that is no UTF-8 after all, and numbers that the field does not hold
    with suppress(ValueError, TypeError):
        for _ in range(random.randrange(1, 4)):
            change(model, random)
    made: bytes = model.SerializeToString()
    return made


def change(message: Any, random: Random) -> None:
    """Goes down to some field, and changes it."""
    fields = [descriptor for descriptor, _ in message.ListFields()]
    if not fields or random.random() < 0.03:
        fields = list(message.DESCRIPTOR.fields)
    field = random.choice(fields)
    if not field.is_repeated:
        if field.message_type:
            change(getattr(message, field.name), random)
        else:
            changed = scalar(field, getattr(message, field.name), random)
            if changed is not None:
                setattr(message, field.name, changed)
        return
    held = getattr(message, field.name)
    if not len(held):
        return
    at, action = random.randrange(len(held)), random.random()
    if action < 0.1:
        del held[at]
    elif action < 0.2:
        doubled = held[at]
        held.extend([doubled])
    elif field.message_type:
        if field.message_type.name == "NodeProto" and action < 0.35:
            borrow(message, random)
        else:
            change(held[at], random)
    else:
        changed = scalar(field, held[at], random)
        if changed is not None:
            held[at] = changed


def scalar(field: Any, value: Any, random: Random) -> Any:
    """Another value of a field that is no message; None where it is not changed."""
    if isinstance(value, bytes):
        return (
            random.choice(NUMBERS[:-3]).to_bytes(8, "little", signed=True)
            if random.random() < 0.3
            else plain(value, random)
        )
    if isinstance(value, str):
        return random.choice(["", "x", "y", "data", value[:-1], random.choice(OPERATORS)])
    if isinstance(value, float):
        return random.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
    if field.enum_type is not None:
        return random.choice(field.enum_type.values).number
    number = random.choice((*NUMBERS, value + 1, value - 1))
    bits = 31 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 63
    return (
        max(-(1 << bits), min(number, (1 << bits) - 1))
        if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
        else None
    )


def borrow(graph: Any, random: Random) -> None:
    """Another model's node, which reads what this graph has."""
    if graph.DESCRIPTOR.name != "GraphProto":
        return
    node = graph.node.add()
    node.CopyFrom(random.choice(few()).graph.node[0])
    names = (
        [info.name for info in graph.input] + [tensor.name for tensor in graph.initializer] + [""]
    )
    for number in range(len(node.input)):
        node.input[number] = random.choice(names)


OPERATORS = [name for _, name in registry.OPERATORS]
TARGET = Target(run, seeds, mutate, longest=1 << 15, needs=("onnx",))
