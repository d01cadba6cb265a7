"""Checked programs from PyTorch: a failed check is an error, never a reason to fall back."""

from __future__ import annotations

from typing import Any

import pytest

import xlac

torch = pytest.importorskip("torch")


class Rows(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, ids: Any) -> Any:
        return torch.log(self.table(ids) ** 2)


def test_a_failed_check_is_raised() -> None:
    module, ids = Rows(), torch.arange(6).reshape(2, 3)
    compiled = torch.compile(module, backend="xlac", options={"checked": True})
    made = xlac.from_torch(module, ids, checked=True)
    for call in (compiled, made):
        torch.testing.assert_close(call(ids), module(ids), rtol=1e-5, atol=1e-5)
        with pytest.raises(xlac.CheckFailed, match=r"index 11 is outside 0 to 9 at \[1, 2\]"):
            call(torch.tensor([[0, 1, 2], [3, 4, 11]]))
