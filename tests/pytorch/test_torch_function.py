"""`xlac.from_torch`, and programs of torch.export as files."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xlac
from xlac.cli import status
from xlac.frontends.loader import load
from xlac.frontends.torch.tensors import array_of
from xlac_sdk.source import SourceError


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Counting(torch.nn.Module):
    """Keeps a running sum, which each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("total", torch.ones(3))

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        y = self.linear(x) * scale
        self.total.add_(y.detach().sum(0))
        return {"y": y, "mean": self.total / x.shape[0]}


def test_a_module_is_called_as_before_and_its_state_changes_alike() -> None:
    module = Counting()
    twin = Counting()
    twin.load_state_dict(module.state_dict())
    compiled = xlac.from_torch(
        module, torch.randn(5, 4), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},)
    )
    for batch in (5, 3, 9):
        x = torch.randn(batch, 4)
        ours, theirs = compiled(x), twin(x)
        assert ours.keys() == theirs.keys()
        for key in ours:
            torch.testing.assert_close(ours[key], theirs[key])
    torch.testing.assert_close(compiled.buffers["total"], twin.total)


def test_sizes_have_the_names_and_bounds_of_the_user() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    compiled = xlac.from_torch(
        torch.nn.Linear(4, 3), torch.randn(5, 4), dynamic_shapes=({0: batch},)
    )
    assert {n: (s.min, s.max) for n, s in compiled.model.dims.items()} == {"batch": (2, 64)}


def test_weights_are_not_copied() -> None:
    module = torch.nn.Linear(4, 3)
    model = xlac.from_torch(module, torch.randn(5, 4)).model
    assert np.shares_memory(model.weights["weight"], module.weight.detach().numpy())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_element_types(dtype: torch.dtype) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.SiLU(), torch.nn.LayerNorm(5)).to(
        dtype
    )
    x = torch.randn(3, 6, dtype=dtype)
    torch.testing.assert_close(xlac.from_torch(module, x)(x), module(x).detach())


def test_a_wrong_shape_is_named() -> None:
    compiled = xlac.from_torch(torch.nn.Linear(4, 3), torch.randn(5, 4))
    with pytest.raises((SourceError, RuntimeError), match="4"):
        compiled(torch.randn(5, 6))


class Transformed(torch.nn.Module):
    """A step of gradient descent, and gradients for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        def loss(state: dict[str, torch.Tensor]) -> torch.Tensor:
            result: torch.Tensor = torch.func.functional_call(self.layer, state, (x,))
            return (result - y).square().mean()

        state = dict(self.layer.named_parameters())
        gradients = torch.func.grad(loss)(state)
        rows = torch.func.vmap(torch.func.grad(lambda row: self.layer(row).sin().sum()))(x)
        return {"rows": rows} | {name: state[name] - 0.1 * gradients[name] for name in state}


def test_transforms_of_torch_func() -> None:
    """PyTorch's own export of them has constants for inputs."""
    module, x, y = Transformed(), torch.randn(4, 3), torch.randn(4, 1)
    function = xlac.from_torch(module, x, y)
    assert set(function.exported_program.state_dict) == {"layer.weight", "layer.bias"}
    assert "forward" not in module.__dict__
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    torch.testing.assert_close(
        function(x, y), {name: value.detach() for name, value in module(x, y).items()}
    )


class Impossible(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nanmedian(x), torch.special.bessel_j0(x)


def test_everything_that_is_missing_is_told_at_once_with_its_line() -> None:
    with pytest.raises(SourceError) as wrong:
        xlac.from_torch(Impossible(), torch.eye(3))
    codes = [d.code for d in wrong.value.diagnostics]
    assert codes.count("XL7301") >= 2
    assert all(
        d.span is not None and d.span.file == Path(__file__) for d in wrong.value.diagnostics
    )
    assert "torch.nanmedian(x), torch.special.bessel_j0(x)" in str(wrong.value)


class Undecided(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Wrong(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(7)


@pytest.mark.parametrize(("module", "told"), [(Undecided, "data-dependent"), (Wrong, "7")])
def test_what_pytorch_cannot_export_is_one_error_and_nothing_else(
    module: type[torch.nn.Module],
    told: str,
    capfd: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
) -> None:
    with pytest.raises(SourceError, match=told) as wrong:
        xlac.from_torch(module(), torch.ones(3, 3))
    (found,) = wrong.value.diagnostics
    assert found.code == "XL7310" and found.span is not None and found.span.file == Path(__file__)
    assert "return x" in found.span.excerpt() and wrong.value.__suppress_context__
    assert capfd.readouterr() == ("", "") and not recwarn.list


def test_the_module_is_not_called_with_what_was_exported_away() -> None:
    compiled = xlac.from_torch(Counting(), torch.randn(5, 4), 2.0)
    with pytest.raises(
        SourceError,
        match=r"input 'scale' is part of the program, which was made for 2\.0, and is now 3\.0",
    ):
        compiled(torch.randn(5, 4), 3.0)
    compiled(torch.randn(5, 4), scale=2.0)


class Adding(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y


def test_an_input_that_is_changed_shares_no_memory() -> None:
    compiled = xlac.from_torch(Adding(), torch.ones(4), torch.ones(4))
    x, y = torch.ones(4), torch.ones(4)
    torch.testing.assert_close(compiled(x, y), torch.full((4,), 3.0))
    torch.testing.assert_close(x, torch.full((4,), 2.0))
    with pytest.raises(
        SourceError, match="input 'x', which is changed, shares memory with input 'y'"
    ):
        compiled(x, x)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, torch.nn.Module]:
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    ).eval()
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(module, (torch.randn(3, 4),)), file)
    return file, module


def test_a_file_is_a_model(saved: tuple[Path, torch.nn.Module]) -> None:
    file, module = saved
    x = torch.randn(3, 4)
    found = xlac.compile(file)(x.numpy())
    np.testing.assert_allclose(found, array_of(module(x)), rtol=1e-5, atol=1e-6)
    assert set(load(file).weights) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_commands_take_the_file(saved: tuple[Path, torch.nn.Module]) -> None:
    assert status(["check", str(saved[0])]) == 0
    assert status(["run", str(saved[0])]) == 0


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.pt2"
    file.write_bytes(b"PK\x03\x04 not an archive")
    with pytest.raises(SourceError, match="XL7306"):
        load(file)
    with pytest.raises(SourceError, match=r"XL3001|XL7306"):
        load(tmp_path / "absent.pt2")


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("was_here"),)


def test_a_file_cannot_run_code(
    saved: tuple[Path, torch.nn.Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever pickle is put in place of one that the archive has, it is not run."""
    monkeypatch.chdir(tmp_path)
    wicked = io.BytesIO()
    torch.save(Malicious(), wicked)
    for name in (
        n for n in zipfile.ZipFile(saved[0]).namelist() if n.endswith(".pt") or "weight" in n
    ):
        file = tmp_path / "wicked.pt2"
        with zipfile.ZipFile(saved[0]) as source, zipfile.ZipFile(file, "w") as made:
            for part in source.namelist():
                made.writestr(part, wicked.getvalue() if part == name else source.read(part))
        with contextlib.suppress(SourceError):
            load(file)
        assert not (tmp_path / "was_here").exists()
