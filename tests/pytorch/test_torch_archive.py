"""Files of torch.export from strangers: nothing in one is run, whatever it says and wherever it
says it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import pickle
import sys
import types
import typing
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._export.serde import schema
from torch._export.serde.union import _Union

from xlac.api import compile
from xlac.frontends.loader import load
from xlac.frontends.torch import opened
from xlac.frontends.torch.checked import KEYS, LEFT_OUT, TEXTS
from xlac.frontends.torch.expressions import expression
from xlac.frontends.torch.operations import operation
from xlac_sdk.source import SourceError

CODE = "__import__('pathlib').Path('was_here').touch()"
PAYLOADS = {
    "expression": CODE,  # what is evaluated as it is
    "default": f"x={CODE}",  # a name of an argument, in the code that is written of a graph
    "statement": f"x = 1; {CODE}; y",
    "line": f"x\n    {CODE}\n    y",
    "attribute": f'x"), {CODE}, ("',  # the path of a parameter, between quotation marks there
    "key": f"x':{CODE}, 'y",
    "comment": f'File "a.py", line 1, in f\r{CODE}\r',
    "function": "torch.os.system",
    "call": "_operator.call",
    "reader": "torch.ops.aten.from_file.default",
    "writer": "torch.ops.aten.save.default",
    "library": "torch.ops.load_library",
    "inductor": "torch.ops.debugprims.load_tensor.default",
    "nest": '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": true, \\"fqn\\": \\"wicked:A\\", \\"name\\": \\"B\\"}]", "children_spec": []}]',
    "factory": '[1, {"type": "collections.defaultdict", "context": "{\\"default_factory_module\\": \\"wicked\\", '
               '\\"default_factory_name\\": \\"A\\", \\"dict_context\\": []}", "children_spec": []}]',
}  # fmt: skip
UNSAID = {
    ("CustomObjArgument", "name"),
    ("InputToCustomObjSpec", "custom_obj_name"),
    ("CustomObjArgument", "class_fqn"),
    ("Node", "metadata"),
    ("NamedTupleDef", "field_names"),
}
"""Fields of text that are refused, made anew or left out whole."""


class Rich(torch.nn.Module):
    """A parameter, a buffer that changes, a constant, sizes that are open, a dict and keywords, an
    operation with text.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.ones(4))

    def forward(
        self, x: torch.Tensor, more: dict[str, torch.Tensor], *, scale: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        y = torch.nn.functional.gelu(self.linear(x), approximate="tanh") * scale + torch.tensor(
            [1.0, 2.0, 3.0, 4.0]
        )
        self.total.add_(y.detach().sum(0))
        return {"y": y + more["z"] * x.shape[0], "mean": self.total / x.shape[0]}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("rich") / "rich.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    args, kwargs = (torch.ones(3, 4), {"z": torch.ones(3, 4)}), {"scale": torch.ones(())}
    sizes = {"x": {0: batch}, "more": {"z": {0: batch}}, "scale": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Rich(), args, kwargs, dynamic_shapes=sizes), file)
    return file


def changed(
    source: Path, file: Path, change: Callable[[str, bytes], bytes | None], **more: bytes
) -> Path:
    """A copy of an archive with members changed, or left out, and others put into it."""
    with zipfile.ZipFile(source) as given, zipfile.ZipFile(file, "w") as made:
        for name in given.namelist():
            data = change(name, given.read(name))
            if data is not None:
                made.writestr(zipfile.ZipInfo(name), data)
        root = given.namelist()[0].partition("/")[0]
        for name, data in more.items():
            made.writestr(zipfile.ZipInfo(f"{root}/{name}"), data)
    return file


@pytest.fixture
def trap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[Path], None]]:
    """Loads a file, and says whether anything that it brought was run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(os, "system", lambda text: Path("was_here").touch())
    (tmp_path / "wicked.py").write_text(
        "import pathlib; pathlib.Path('was_here').touch()\nclass A: pass\n"
    )

    imported: list[Path] = []

    def check(file: Path) -> None:
        with contextlib.suppress(SourceError):
            program = opened(file)
            if request.config.getoption("--all") and len(imported) < 3:  # takes ten times as long
                imported.append(file)
                load(program)
        assert not Path("was_here").exists() and "wicked" not in sys.modules

    yield check
    sys.modules.pop("wicked", None)


def texts(held: Any) -> Iterator[str]:
    """Every text of a JSON, keys as well."""
    if isinstance(held, str):
        yield held
    for part in held.items() if isinstance(held, dict) else held if isinstance(held, list) else ():
        yield from (t for p in (part if isinstance(part, tuple) else (part,)) for t in texts(p))


def replaced(held: Any, old: str, new: str) -> Any:
    """A JSON with one text in place of another everywhere."""
    if isinstance(held, str):
        return new if held == old else held
    if isinstance(held, dict):
        return {replaced(k, old, new): replaced(v, old, new) for k, v in held.items()}
    return [replaced(v, old, new) for v in held] if isinstance(held, list) else held


def test_a_program_of_every_kind_is_read(rich: Path) -> None:
    read = load(rich)
    model = compile(read)
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal((5, 4), np.float32) for _ in range(2))
    scale, total = np.array(2, np.float32), np.ones(4, np.float32)
    found = model(
        **dict(zip([p.name for p in read.graph.inputs], (total, x, z, scale), strict=True))
    )
    weights = read.weights
    h = torch.nn.functional.gelu(
        torch.from_numpy(x @ weights["linear.weight"].T + weights["linear.bias"]),
        approximate="tanh",
    ).numpy()
    y = h * 2 + np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_allclose(found["output_0"], y + z * 5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_of_an_archive_is_run(
    rich: Path,
    tmp_path: Path,
    trap: Callable[[Path], None],
    payload: str,
    request: pytest.FixtureRequest,
) -> None:
    """Each text of each JSON in turn is replaced everywhere by one that would run: with --all every
    text by every payload.
    """
    every, first = (
        (1, 0)
        if request.config.getoption("--all")
        else (2 * len(PAYLOADS), list(PAYLOADS).index(payload))
    )
    with zipfile.ZipFile(rich) as held:
        parts = {n: json.loads(held.read(n)) for n in held.namelist() if n.endswith(".json")}
    for name, part in parts.items():
        for text in sorted(set(texts(part)))[first::every]:
            wicked = json.dumps(replaced(part, text, PAYLOADS[payload])).encode()
            trap(
                changed(
                    rich,
                    tmp_path / "wicked.pt2",
                    lambda n, d, name=name, wicked=wicked: wicked if n == name else d,
                )
            )


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("was_here"),)


def test_no_member_of_an_archive_is_unpickled(
    rich: Path, tmp_path: Path, trap: Callable[[Path], None]
) -> None:
    """Whatever pickle is put in place of a member, or where PyTorch would look for one, it is not
    run.
    """
    written = io.BytesIO()
    torch.save(Malicious(), written)
    with zipfile.ZipFile(rich) as held:
        names = held.namelist()
        config = {n: json.loads(held.read(n)) for n in names if n.endswith("_config.json")}
    for data in (written.getvalue(), pickle.dumps(Malicious())):
        for name in names:
            trap(
                changed(
                    rich,
                    tmp_path / "wicked.pt2",
                    lambda n, d, name=name, data=data: data if n == name else d,
                )
            )
        for folder in ("weights", "constants"):
            trap(
                changed(
                    rich,
                    tmp_path / "wicked.pt2",
                    lambda n, d: d,
                    **{f"data/{folder}/model.pt": data},
                )
            )
        for name, held_there in config.items():
            for entry, prefix in (
                (e, p)
                for e in held_there["config"]
                for p in ("weight_0", "constant_0", "custom_obj_0", "opaque_obj_0")
            ):
                wicked = json.loads(json.dumps(held_there))
                wicked["config"][entry] |= {
                    "use_pickle": True,
                    "path_name": prefix,
                    "tensor_meta": None,
                }
                folder = name.rpartition("/")[0].partition("/")[2]
                trap(
                    changed(
                        rich,
                        tmp_path / "wicked.pt2",
                        lambda n, d, name=name, wicked=wicked, end=f"{folder}/{prefix}": (
                            json.dumps(wicked).encode()
                            if n == name
                            else None
                            if n.endswith(end)
                            else d
                        ),
                        **{f"{folder}/{prefix}": data},
                    )
                )


def test_a_library_in_an_archive_is_not_loaded(
    rich: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # would fail if it were asked for
    monkeypatch.setattr(torch._C._aoti, "AOTIModelPackageLoader", None)
    file = changed(
        rich,
        tmp_path / "more.pt2",
        lambda n, d: d,
        **{"data/aotinductor/m/a.so": b"\x7fELF", "extra/x": b"\0"},
    )
    assert load(file).weights


def test_the_payloads_would_run(rich: Path, trap: Callable[[Path], None]) -> None:
    """PyTorch's own reader runs them, where it is not kept from it: the traps above are no dummies."""

    def model(n: str, d: bytes) -> bytes:
        return (
            d
            if not n.endswith("model.json")
            else d.replace(expr.encode(), json.dumps(CODE)[1:-1].encode())
        )

    with zipfile.ZipFile(rich) as held:
        told = [
            t
            for n in held.namelist()
            if n.endswith("model.json")
            for t in texts(json.loads(held.read(n)))
        ]
    expr = next(t for t in told if t.startswith("Symbol("))
    with contextlib.suppress(Exception):
        torch.export.load(changed(rich, Path("wicked.pt2"), model))
    assert Path("was_here").exists()


def fields(
    kind: Any, held: tuple[str, str], found: set[tuple[str, str, str]], seen: set[type]
) -> None:
    """Every field of text that the schema has below a class: (class, field, whether it is a key)."""
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
                    twin.header_offset, twin.file_size, twin.compress_size, twin.CRC = (
                        0,
                        100000,
                        100000,
                        made.getinfo("a").CRC,
                    )
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
    "Symbol('s77', positive=True, integer=True)", "Add(Mul(Integer(-1), Symbol('s0')), Pow(Symbol('s1'), Integer(2)))", "2*s0 + s1//3",
    "Max(Integer(1), FloorDiv(Symbol('u0', integer=True), Integer(2)))", "Float('0.5', precision=53)", "Pow(Symbol('s0'), Rational(1, 2))",
    "StrictLessThan(Symbol('s0'), Integer(9))", "-s0 % 4", "OpaqueUnaryFn_sqrt(ToFloat(Symbol('s0')))",
])  # fmt: skip
def test_sizes_are_read(text: str) -> None:
    """Written anew, an expression means to sympy what it meant."""
    import sympy

    assert sympy.sympify(expression(text)) == sympy.sympify(text)


@pytest.mark.parametrize("text", [
    CODE, "().__class__", "Symbol('x')", "Symbol('s0', cls=type)", "eval('1')", "s0.args", "[s0]", "s0 if s0 else 1", "lambda: 0", "True",
    "10**10**10", "Pow(Pow(Pow(9, 99), 99), 99)", "9" * 5000, "2**s0", "LShift(1, 99999)", "-" * 5000 + "s0", "(" * 4000 + "s0" + ")" * 4000,
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
