"""A target claims composites whole: they keep their names, are not expanded, and run as the target
says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xlac.driver import executable, lower, specialized
from xlac.frontends.loader import load
from xlac_reference import ReferenceBackend
from xlac_sdk.backend import Executable
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.program import Call, Program
from xlac_sdk.target import Request, Target

SPECS = Path(__file__).parents[2] / "specs"


class Library(ReferenceBackend):
    """The interpreter with a softmax and a layer norm of its own."""

    name = "library"
    calls: list[str]

    def __init__(self) -> None:
        self.calls = []

    def target(self, request: Request) -> Target:
        return Target("library", claims=frozenset({"softmax", "layer_norm"}))

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Interpreter(program, {"softmax": self.softmax, "layer_norm": self.layer_norm})

    def softmax(self, attributes: Mapping[str, Any], x: Any, y: Any) -> None:
        self.calls.append("softmax")
        powers = np.exp(x - x.max(attributes["axis"], keepdims=True))
        y[...] = powers / powers.sum(attributes["axis"], keepdims=True)

    def layer_norm(
        self, attributes: Mapping[str, Any], x: Any, weight: Any, bias: Any, y: Any
    ) -> None:
        self.calls.append("layer_norm")
        centred = x - x.mean(-1, keepdims=True)
        y[...] = (
            centred / np.sqrt((centred**2).mean(-1, keepdims=True) + attributes["epsilon"]) * weight
            + bias
        )


def test_claimed_composites_run_whole() -> None:
    for spec, claimed in (("digits", "softmax"), ("layernorm_gelu", "layer_norm")):
        model = specialized(load(SPECS / f"{spec}.yaml"))
        backend = Library()
        lowered = lower(model, backend.target(Request()))
        assert [s.name for s in lowered.program.steps if isinstance(s, Call)] == [claimed]
        inputs = [np.random.default_rng(0).random(n.shape, dtype=np.float32) for n in model.inputs]
        found = executable(lowered, backend)(*inputs)
        assert backend.calls == [claimed]
        plain = ReferenceBackend()
        expected = executable(lower(model, plain.target(Request())), plain)(*inputs)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
