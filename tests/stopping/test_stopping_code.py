"""Loops of kernels that look whether they are to stop are the loops of kernels that do not: only
who calls them differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac_cpu import BACKEND
from xlac_sdk.lowering import stop_checks
from xlac_sdk.target import Request

MODELS = {
    "softmax": ('x: "f32[4096, 8192]"', "softmax(x, axis=-1)"),
    "variance": ('x: "f32[16384, 8192]"', "var(x, axis=-1)"),
    "chain": ('x: "f32[67108864]"', "tanh(exp(sin(x)) * x)"),
    "sum": ('x: "f32[134217728]"', "sum(x)"),
    "product": ('a: "f32[2048, 2048]", b: "f32[2048, 2048]"', "a @ b"),
}
"""Inputs, and what is computed: a row of some is a look, and a few rows of others."""


def functions(name: str, folder: Path, threads: int) -> dict[str, str]:
    """The bodies of a model's LLVM functions by name."""
    inputs, formula = MODELS[name]
    file = folder / "model.yaml"
    file.write_text(
        f'xlac: 1\nmodel: m\ninputs: {{{inputs}}}\ngraph: {{y: "{formula}"}}\noutputs: [y]\n'
    )
    target = BACKEND.target(
        Request(threads=threads, cpu="x86-64-v3", triple="x86_64-unknown-linux-gnu")
    )
    text = "\n".join(BACKEND.emit(lower(specialized(load(file)), target).program, target).values())
    return dict(
        re.findall(r"^define [^@]*@([\w.]+)\([^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled(6)
def test_loops_are_what_they_would_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ in where they begin and end."""
    ours = functions(name, tmp_path, 1)
    strips = {
        symbol.removesuffix(".strip"): body
        for symbol, body in ours.items()
        if symbol.endswith(".strip")
    }
    monkeypatch.setattr(stop_checks, "LONG", inf)
    plain = functions(name, tmp_path, 1)
    assert strips, "what takes this long looks"
    for symbol, body in strips.items():
        assert "@stopped" in ours[symbol] and "@stopped" not in body
        # of the loop around all others
        *_, end = re.findall(r"icmp slt i64 %n\d+, (\d+)", plain[symbol])
        assert re.sub(r"%end\b", end, body.replace("%begin", "0")) == plain[symbol]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled(6)
def test_no_strip_looks(name: str, tmp_path: Path) -> None:
    ours = functions(name, tmp_path, 2)
    strips = [symbol for symbol in ours if symbol.endswith(".strip")]
    assert strips
    for symbol in strips:
        assert "@stopped" not in ours[symbol], symbol
        assert "%begin" in ours[symbol] and "%end" in ours[symbol]


def test_compiling_imports_no_template_engine() -> None:
    """With stop checks neither: importing one takes longer than all of a small program."""
    code = (
        "import sys, numpy, xlac;"
        "f = xlac.jit(lambda a, b: a @ b); a = numpy.ones((640, 640), numpy.float32); f(a, a);"
        "from xlac_cpu.emit.stopping import function;"
        "print(function._template.cache_info().currsize, 'jinja2' in sys.modules)"
    )
    environment = {**os.environ, "XLAC_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["1", "False"]
