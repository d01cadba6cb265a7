"""Files of torch.export hold what they say: texts have a grammar, members their sizes, and
operations are known.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import types
import typing
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archive_files import CODE, changed
from torch._export.serde import schema
from torch._export.serde.union import _Union

from xlac.frontends.loader import load
from xlac.frontends.torch.expressions import expression
from xlac.frontends.torch.operations import operation
from xlac.frontends.torch.pt2.checked import KEYS, LEFT_OUT, TEXTS
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")
UNSAID = {
    ("CustomObjArgument", "name"),
    ("InputToCustomObjSpec", "custom_obj_name"),
    ("CustomObjArgument", "class_fqn"),
    ("Node", "metadata"),
    ("NamedTupleDef", "field_names"),
}
"""Fields of text that are refused, made anew or left out whole."""


def fields(
    kind: Any, held: tuple[str, str], found: set[tuple[str, str, str]], seen: set[type]
) -> None:
    """Every field of text below a class of the schema: (class, field, whether it is a key)."""
    kind = getattr(schema, kind.__forward_arg__) if isinstance(kind, typing.ForwardRef) else kind
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        found.add((*held, "text"))
    elif origin is dict:
        found.add((*held, "key"))
        fields(inner[1], held, found, seen)
    elif origin in (typing.Annotated, list, typing.Union, types.UnionType):
        fields(inner[0], held, found, seen)
    elif dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for name, hint in typing.get_type_hints(
            kind, globalns=vars(schema), include_extras=True
        ).items():
            if not (issubclass(kind, _Union) and name == "type"):
                fields(hint, (kind.__name__, name), found, seen)


def test_every_text_of_the_schema_has_a_grammar() -> None:
    """A field that a later PyTorch adds is refused by `checked`; this says so before a user meets
    it.
    """
    found: set[tuple[str, str, str]] = set()
    for kind in (schema.ExportedProgram, schema.PayloadConfig):
        fields(kind, ("", ""), found, set())
    ours = {(*f, "text") for f in TEXTS} | {(*f, "key") for f in KEYS}
    spared = {f for f in found if f[:2] in LEFT_OUT or f[:2] in UNSAID}
    assert found - spared == ours


@pytest.mark.parametrize(
    "change",
    [
        "compressed",
        "twice",
        "overlapping",
        "short",
        "beyond",
        "repeated",
        "negative",
        "cut",
        "missing",
    ],
)
def test_an_archive_holds_what_it_says(rich: Path, tmp_path: Path, change: str) -> None:
    """Members that unpack to more than the file, or tensors that reach outside of theirs, are
    refused before memory is taken.
    """

    def weights(change: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
        def apply(name: str, data: bytes) -> bytes:
            if not name.endswith("weights_config.json"):
                return data
            held = json.loads(data)
            change(held["config"]["linear.weight"]["tensor_meta"])
            return json.dumps(held).encode()

        return apply

    file = tmp_path / "wicked.pt2"
    match change:
        case "compressed":
            with (
                zipfile.ZipFile(rich) as given,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made,
            ):
                for name in given.namelist():
                    made.writestr(name, given.read(name))
        case "twice":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed(rich, file, lambda n, d: d, **{"models/model.json": b"{}"})
        case "overlapping":
            made = zipfile.ZipFile(file, "w")
            with made:
                made.writestr("a", b"0" * 100000)
                for number in range(20):
                    twin = zipfile.ZipInfo(f"b{number}")
                    twin.header_offset, twin.CRC = 0, made.getinfo("a").CRC
                    twin.file_size = twin.compress_size = 100000
                    made.filelist.append(twin)
        case "short":
            changed(rich, file, lambda n, d: d[:-3] if n.endswith("weight_0") else d)
        case "beyond":
            changed(
                rich, file, weights(lambda meta: meta.update(sizes=[{"as_int": 4}, {"as_int": 5}]))
            )
        case "repeated":
            changed(
                rich,
                file,
                weights(
                    lambda meta: meta.update(sizes=[{"as_int": 1 << 40}], strides=[{"as_int": 0}])
                ),
            )
        case "negative":
            changed(rich, file, weights(lambda meta: meta.update(storage_offset={"as_int": -1})))
        case "cut":
            file.write_bytes(rich.read_bytes()[:-400])
        case "missing":
            changed(rich, file, lambda n, d: None if n.endswith("weight_0") else d)
    with pytest.raises(SourceError, match=r"XL7308|XL7306"):
        load(file)


@pytest.mark.parametrize("text", [
    "Symbol('s77', positive=True, integer=True)",
    "Add(Mul(Integer(-1), Symbol('s0')), Pow(Symbol('s1'), Integer(2)))", "2*s0 + s1//3",
    "Max(Integer(1), FloorDiv(Symbol('u0', integer=True), Integer(2)))",
    "Float('0.5', precision=53)", "Pow(Symbol('s0'), Rational(1, 2))",
    "StrictLessThan(Symbol('s0'), Integer(9))", "-s0 % 4",
    "OpaqueUnaryFn_sqrt(ToFloat(Symbol('s0')))",
])  # fmt: skip
def test_sizes_are_read(text: str) -> None:
    """Written anew, an expression means to sympy what it meant."""
    import sympy

    assert sympy.sympify(expression(text)) == sympy.sympify(text)


@pytest.mark.parametrize("text", [
    CODE, "().__class__", "Symbol('x')", "Symbol('s0', cls=type)", "eval('1')", "s0.args", "[s0]",
    "s0 if s0 else 1", "lambda: 0", "True", "10**10**10", "Pow(Pow(Pow(9, 99), 99), 99)",
    "9" * 5000, "2**s0", "LShift(1, 99999)", "-" * 5000 + "s0", "(" * 4000 + "s0" + ")" * 4000,
    "s0" + " " * 9000, "ѕ0", "s0\n", "s0;s1", "Float('nan')", "Float('1e99999')", "f's0'", "",
])  # fmt: skip
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        expression(text)


@pytest.mark.parametrize(
    "name",
    [
        "torch.ops.aten.add.Tensor",
        "torch.ops.higher_order.cond",
        "_operator.mul",
        "torch.sym_max",
        "torch.ops.aten.gelu.default",
    ],
)
def test_operations_are_known(name: str) -> None:
    assert operation(name) == name


def test_an_operation_with_text_is_on_a_list() -> None:
    """Of all that PyTorch has, those that take text and may be named are operations on tensors;
    text names a mode there.
    """
    taken = []
    for one in torch._C._jit_get_all_schemas():
        space, _, packet = one.name.partition("::")
        if any("str" in str(a.type) for a in one.arguments):
            with contextlib.suppress(ValueError):
                operation(f"torch.ops.{space}.{packet}.{one.overload_name or 'default'}")
                taken.append(one)
    assert len(taken) > 50
    for one in taken:
        kinds = {str(a.type) for a in (*one.arguments, *one.returns)}
        assert any("Tensor" in k or "number" in k or "Scalar" in k for k in kinds), one
        assert not any(
            "str" in str(a.type) and ("file" in a.name or "path" in a.name) for a in one.arguments
        ), one
