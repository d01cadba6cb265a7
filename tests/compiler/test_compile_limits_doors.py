"""Every door of Python takes limits of compilations, for each of its programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.support import limits

X = np.ones((3, 4), np.float32)


def jitted(**given: Any) -> Callable[[], Any]:
    program = xlac.jit(target="reference", **given)(lambda x: x * 2.0)
    return lambda: program(X)


def of_jax(**given: Any) -> Callable[[], Any]:
    pytest.importorskip("jax")
    return lambda: xlac.from_jax(lambda x: x * 2.0, X, target="reference", **given)(X)


def of_torch(**given: Any) -> Callable[[], Any]:
    torch = pytest.importorskip("torch")

    class Twice(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x * 2.0

    return lambda: xlac.from_torch(Twice(), torch.from_numpy(X), target="reference", **given)(
        torch.from_numpy(X)
    )


def of_dynamo(**given: Any) -> Callable[[], Any]:
    torch = pytest.importorskip("torch")
    torch.compiler.reset()
    options = {"target": "reference", "fallback": False, **given}
    program = torch.compile(lambda x: x * 2.0, backend="xlac", options=options)
    return lambda: program(torch.from_numpy(X))


def of_file(**given: Any) -> Callable[[], Any]:
    @xlac.jit
    def twice(x: Any) -> Any:
        return x * 2.0

    return lambda: xlac.compile(twice.trace(X), target="reference", **given)(X)


@pytest.mark.parametrize("door", [of_file, jitted, of_jax, of_torch, of_dynamo])
def test_every_door_takes_limits(
    door: Callable[..., Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    assert (np.asarray(door(max_compile_seconds=1000, max_compile_memory=1 << 40)()) == 2).all()
    with pytest.raises(Exception, match=r"above 0[\s\S]*XL4031"):
        door(max_compile_seconds=0)()
    with pytest.raises(Exception, match=r"above 0[\s\S]*XL4032"):
        door(max_compile_memory="much")()
    with monkeypatch.context() as patch:
        patch.setattr(limits, "resident", iter(range(0, 1 << 50, 1 << 30)).__next__)
        with pytest.raises(Exception, match="XL4032"):
            door(max_compile_memory=1 << 20)()
    with pytest.raises(Exception, match="XL4031"):
        door(max_compile_seconds=1e-9)()
