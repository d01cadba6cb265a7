"""Registered operations in PyTorch: eager, differentiated, exported and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from registered_ops import ROOT, forgotten, gated, run_chapter

import xlac

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def gated_op() -> Iterator[object]:
    """The operation, registered for this file's tests."""
    from xlac.frontends.torch.table import BUILDERS

    known = dict(BUILDERS)
    with forgotten():
        yield gated("torchtest").torch
    BUILDERS.clear()
    BUILDERS.update(known)


class Module(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.torchtest.gated(a, b, slope=3.0)
        return found + 1


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    a, b = torch.randn(4, 6, generator=made), torch.randn(6, generator=made)
    return a.requires_grad_(), b.requires_grad_()


def test_pytorchs_own_checks_of_operations(gated_op: object) -> None:
    """Schema, registration of the derivative, shapes for open sizes, compiled by AOTAutograd."""
    torch.library.opcheck(gated_op, operands(), {"slope": 2.0})


def test_its_derivative() -> None:
    a, b = operands()
    torch.ops.torchtest.gated(a, b, slope=2.0).square().sum().backward()
    wanted = torch.autograd.grad((a * b * 2).square().sum(), (a, b))
    torch.testing.assert_close((a.grad, b.grad), wanted)


@pytest.mark.parametrize("dynamic", [False, True])
def test_from_torch_has_the_operation(dynamic: bool) -> None:
    shapes = ({0: torch.export.Dim("rows")}, {}) if dynamic else None
    made = xlac.from_torch(Module(), *operands(), dynamic_shapes=shapes, allow_kernels=True)
    a, b = operands()
    torch.testing.assert_close(made(a, b), a * b * 3 + 1)


def test_exported_files_have_it(tmp_path: Path) -> None:
    a, b = operands()
    torch.export.save(torch.export.export(Module(), (a, b)), tmp_path / "own.pt2")
    compiled = xlac.compile(tmp_path / "own.pt2", "cpu", allow_kernels=True)
    (fact,) = compiled.program.facts["hand_written"]
    assert fact["name"] == "gated"
    torch.testing.assert_close(
        torch.from_numpy(compiled(a.detach().numpy(), b.detach().numpy())), (a * b * 3 + 1).detach()
    )


def test_torch_compile_and_its_derivative() -> None:
    a, b = operands()
    step = torch.compile(
        Module(), backend="xlac", options={"allow_kernels": True, "fallback": False}
    )
    step(a, b).sum().backward()
    torch.testing.assert_close(b.grad, 3 * a.sum(0))


def test_the_chapters_snippets_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with forgotten():
        run_chapter("torch")
