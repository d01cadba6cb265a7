"""Files of torch.export from strangers: nothing in one is run, whatever it says and wherever it
says it.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from archive_files import CODE, changed, replaced, texts

from xlac.api import compile
from xlac.frontends.loader import load

torch = pytest.importorskip("torch")
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
    "nest": '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": true, \\"fqn\\": '
    '\\"wicked:A\\", \\"name\\": \\"B\\"}]", "children_spec": []}]',
    "factory": '[1, {"type": "collections.defaultdict", "context": "{\\"default_factory_module\\": '
    '\\"wicked\\", '
    '\\"default_factory_name\\": \\"A\\", \\"dict_context\\": []}", "children_spec": []}]',
}


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


class Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(0) + y.mean(0) * y.shape[0]


@pytest.mark.parametrize("form", [(2, 0), (1, 1), (3, -1)])
def test_sizes_derived_from_others(
    form: tuple[int, int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """PyTorch writes bounds of the expression too, as of a symbol with its text as the name."""
    factor, more = form
    n = torch.export.Dim("n", min=2, max=64)
    derived = factor * n if not more else factor * n + more
    x, y = (torch.from_numpy(rows(size)) for size in (4, factor * 4 + more))
    shapes = {"x": {0: n}, "y": {0: derived}}
    program = torch.export.export(Sums(), (x, y), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "sums.pt2")
    with zipfile.ZipFile(tmp_path / "sums.pt2") as held:
        (member,) = (n for n in held.namelist() if n.endswith("models/model.json"))
        assert len(json.loads(held.read(member))["range_constraints"]) == 2
    capfd.readouterr()
    model = compile(tmp_path / "sums.pt2")
    for size in (4, 9):
        x, y = rows(size), rows(factor * size + more)
        np.testing.assert_allclose(model(x=x, y=y), x.sum(0) + y.sum(0), rtol=1e-5, atol=1e-5)
    assert not any(capfd.readouterr())


def rows(size: int) -> np.ndarray:
    return np.random.default_rng(size).standard_normal((size, 3), np.float32)


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
    """PyTorch's own reader, unguarded, runs them: the traps above are no dummies."""

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
