"""The contenders: which interpreter runs which adapter with which options and environment.

To add one, write an adapter (see peers/contenders/protocol.py) and add a line here. Flags are those
that its maintainers recommend for latency on a CPU; README.md says where they say so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
VENVS = Path(os.environ.get("SUITE_VENVS", ROOT / "bench" / ".venvs"))

OURS, AGAIN = "xlac", "xlac_again"
NOT_PEERS = frozenset({OURS, AGAIN})


@dataclass(frozen=True)
class Contender:
    """One way to run a row, in a process of its own.

    `forms` are what it can read of a row: "onnx", "jax" (a function of peers/jax_models), "torch"
    (one of peers/torch_models, or a module of makers), "step" (training steps of
    bench/training), "stablehlo". `slow` compilers' programs are kept between processes; `cache` is
    the variable that names a folder in which those of a quick one are kept after the first round.
    """

    name: str
    venv: str
    adapter: str
    forms: frozenset[str]
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    cache: str = ""
    usual: bool = True  # whether a run takes part with it when nobody says otherwise
    python: Path | None = None

    @property
    def interpreter(self) -> Path:
        """The interpreter that has it installed."""
        return self.python or VENVS / self.venv / "bin" / "python"

    def command(self, folder: Path, threads: int) -> list[str]:
        """What starts it on the row in a folder."""
        options = [x for option in self.options for x in ("--option", option)]
        adapter = PEERS / "contenders" / f"{self.adapter}_adapter.py"
        start = [str(self.interpreter), str(adapter), str(folder)]
        return [*start, "--threads", str(threads), *options]


def _of(*forms: str) -> frozenset[str]:
    return frozenset(forms)


# PyTorch's tuning guide: threads bound to cores that are next to each other; few spins when idle.
_OPENMP = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
_XLAC = _of("onnx", "step", "stablehlo")
_TORCH = _of("torch", "step")

CONTENDERS = {
    one.name: one
    for one in (
        Contender(OURS, "xlac", "xlac", _XLAC, cache="XLAC_CACHE"),
        Contender(AGAIN, "xlac", "xlac", _XLAC, cache="XLAC_CACHE"),
        Contender("onnxruntime", "ort", "onnxruntime", _of("onnx")),
        Contender("openvino", "openvino", "openvino", _of("onnx")),
        Contender("jax", "jax", "jax", _of("jax", "step")),
        Contender("jax_const", "jax", "jax", _of("jax"), ("weights=constant",), usual=False),
        Contender("torch_eager", "torch", "torch", _TORCH, ("mode=eager",), _OPENMP),
        Contender(
            "torch_inductor", "torch", "torch", _TORCH, ("mode=inductor",), _OPENMP, slow=True
        ),
        Contender(
            "torch_aoti",
            "torch",
            "torch",
            _of("torch"),
            ("mode=aoti",),
            _OPENMP,
            slow=True,
            usual=False,
        ),
        Contender("iree", "iree", "iree", _of("onnx"), slow=True),
        # Neither is quick untuned, and tuning takes hours a row: only where they are asked for.
        Contender("tvm", "tvm", "tvm", _of("onnx"), usual=False),
        Contender("tinygrad", "tinygrad", "tinygrad", _of("onnx"), usual=False),
    )
}


def installed(names: list[str] | None = None) -> tuple[dict[str, Contender], list[str]]:
    """The contenders asked for (none: the usual ones) whose environments are there, and what is
    said of the others.
    """
    asked = names or [one.name for one in CONTENDERS.values() if one.usual]
    unknown = [name for name in asked if name not in CONTENDERS]
    if unknown:
        known = ", ".join(CONTENDERS)
        raise SystemExit(f"no contender is called {', '.join(unknown)}; there are {known}")
    found = {name: CONTENDERS[name] for name in asked}
    absent = [name for name, one in found.items() if not one.interpreter.exists()]
    said = [f"{name}: not installed (bench-setup makes its environment)" for name in absent]
    return {name: one for name, one in found.items() if name not in absent}, said
