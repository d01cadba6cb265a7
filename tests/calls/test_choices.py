"""Options that are words: one that there is not is an error, which names the one that is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.source import XlacError

SPECS = Path(__file__).parents[2] / "specs"
SPEC = SPECS / "digits.yaml"
X = np.ones(3, np.float32)


def compiled(**options: Any) -> Any:
    return xlac.compile(SPEC, **options)


def jitted(**options: Any) -> Any:
    return xlac.jit(**options)(lambda x: x + 1)(X)


def from_jax(**options: Any) -> Any:
    pytest.importorskip("jax")
    return xlac.from_jax(lambda x: x + 1, X, **options)


def from_torch(**options: Any) -> Any:
    torch = pytest.importorskip("torch")
    return xlac.from_torch(torch.nn.Linear(2, 2), torch.ones(2, 2), **options)


def torch_compile(**options: Any) -> Any:
    torch = pytest.importorskip("torch")
    from xlac.integrations.torch.backend import options_of

    torch._dynamo.reset()
    return options_of(options)


WRONG: list[tuple[Callable[..., Any], str, str, str]] = [
    (compiled, "sizes", "symbolc", "symbolic"), (compiled, "target", "cpuu", "cpu"),
    (compiled, "precision", "fats", "fast"), (compiled, "sizes", "Specialize", "specialize"),
    (compiled, "precision", "FAST", "fast"), (compiled, "cpu", "skylke", "skylake"),
    (compiled, "triple", "x86_64-unknown-linux-gun", "x86_64-unknown-linux-gnu"),
    (jitted, "target", "cpuu", "cpu"), (jitted, "precision", "fats", "fast"),
    (jitted, "cpu", "skylke", "skylake"), (from_jax, "target", "cpuu", "cpu"),
    (from_torch, "target", "cpuu", "cpu"), (torch_compile, "precision", "fats", "fast"),
    (torch_compile, "thread", "2", "threads"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("way", "option", "word", "meant"), WRONG, ids=[f"{w.__name__}-{o}-{v}" for w, o, v, _ in WRONG]
)
def test_a_word_that_is_no_choice_is_refused_with_the_one_that_is(
    way: Callable[..., Any], option: str, word: str, meant: str
) -> None:
    with pytest.raises(XlacError, match="hint: ") as error:
        way(**{option: word})
    assert meant in str(error.value)


@pytest.mark.parametrize("value", [3, None, b"cpu", ["cpu"]])
@pytest.mark.parametrize("option", ["sizes", "target", "precision"])
def test_what_is_no_word_is_refused(option: str, value: Any) -> None:
    with pytest.raises(XlacError, match="hint: "):
        compiled(**{option: value})


@pytest.mark.parametrize("target", ["cpu:", "cpu:x", "cuda:-1", "cpu:0:1"])
def test_a_device_that_is_no_number_is_refused(target: str) -> None:
    with pytest.raises(XlacError, match="XL5001"):
        compiled(target=target)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["--emit", "soo"], "'so'"),
        (["--target", "cpuu"], "'cpu'"),
        (["--precision", "fats"], "fast"),
        (["--cpu", "skylke"], "skylake"),
    ],
)
def test_commands(
    arguments: list[str], meant: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status(["build", str(SPEC), "-o", str(tmp_path / "out"), *arguments]) == 2
    assert meant in capfd.readouterr().err


@pytest.mark.parametrize("way", [compiled, jitted, from_jax, from_torch])
def test_no_threads_are_not_the_default(way: Callable[..., Any]) -> None:
    with pytest.raises(XlacError, match="threads must be 1 to 1024, not 0"):
        way(threads=0)
