"""The rows: their classes, what each can be run from, and their folders, made when they are needed.

A folder has meta.json, inputs.npz, weights.npz, expected.npz and model.onnx or what else the row
is run from. It is made again when the row's definition changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .contenders import PEERS, ROOT, VENVS

HERE = Path(__file__).parent
CLASSES = (
    *("overhead", "gemm", "conv", "memory-bound", "transformer", "cnn", "recurrent", "int8"),
    *("training", "whole models"),
)
OVERHEAD = "overhead"


@dataclass(frozen=True)
class Row:
    """A calculation that contenders are measured on; `kind` is its class, `forms` what it can be
    run from, `maker` who makes its folder of `what`.
    """

    name: str
    kind: str
    forms: frozenset[str]
    maker: str
    what: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def digest(self) -> str:
        """Of the definition."""
        text = json.dumps([self.maker, self.what], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def rows() -> list[Row]:
    """All rows of the suite."""
    listed: dict[str, Any] = yaml.safe_load((HERE / "rows.yaml").read_text("utf-8"))
    models: dict[str, Any] = yaml.safe_load((HERE / "making" / "models.yaml").read_text("utf-8"))
    found = []
    for kind, names in listed["workloads"].items():
        forms = ("jax", "torch", "stablehlo") if kind == "training" else ("onnx", "jax", "torch")
        found += [Row(name, kind, frozenset(forms), "workload") for name in names]
    for name, entry in models["models"].items():
        usual = {"common": models["common"], "opset": models["opset"]}
        kind, what = entry.get("class", "whole models"), {**usual, **entry}
        found.append(Row(name, kind, frozenset(("onnx", "torch")), "model", what))
    for name in listed["steps"]:
        what = {"step": name}
        found.append(Row(f"train_{name}", "training", frozenset(("step",)), "step", what))
    for form, names in listed["int8"].items():
        for name in names:
            model = {"opset": models["opset"], **models["models"][name]}
            what = {"form": form, "of": name, "model": model}
            found.append(Row(f"{name}_{form}", "int8", frozenset(("onnx",)), "int8", what))
    unknown = {row.kind for row in found} - set(CLASSES)
    assert not unknown, f"rows.yaml and models.yaml name classes that there are not: {unknown}"
    return found


def chosen(names: Sequence[str]) -> list[Row]:
    """The rows of these names or classes; all where none is given."""
    known = rows()
    wrong = [n for n in names if n not in CLASSES and n not in {row.name for row in known}]
    if wrong:
        raise SystemExit(f"no row or class is called {', '.join(wrong)}")
    return [row for row in known if not names or row.name in names or row.kind in names]


class Maker:
    """Makes rows' folders in a folder of folders, each kind in the environment that it needs."""

    def __init__(self, models: Path) -> None:
        self.models = models

    def folder(self, row: Row) -> Path:
        """The row's folder, made if it is not there."""
        if not self.is_made(row):
            self.make([row])
        if not self.is_made(row):
            raise RuntimeError(f"{row.name} was not written; {self._log(row.maker)} says why")
        return self.models / row.name

    def is_made(self, row: Row) -> bool:
        """Whether the folder is there and of this definition."""
        mark = self.models / row.name / "made"
        return mark.exists() and mark.read_text() == row.digest

    def make(self, wanted: Sequence[Row]) -> list[Row]:
        """Makes those that are not there, and returns those that could not be made."""
        for maker, write in MAKERS.items():
            todo = [row for row in wanted if row.maker == maker and not self.is_made(row)]
            for row in todo:
                shutil.rmtree(self.models / row.name, ignore_errors=True)
            if todo:
                write(self, todo)
            for row in todo:
                folder = self.models / row.name
                if (folder / "meta.json").exists() and (folder / "expected.npz").exists():
                    (folder / "made").write_text(row.digest)
        return [row for row in wanted if not self.is_made(row)]

    def workloads(self, wanted: Sequence[Row]) -> None:
        """Those of peers/workloads; training steps also as JAX exports them, and the reference
        that PyTorch makes.
        """
        names = [row.name for row in wanted]
        script = str(PEERS / "materialize.py")
        self._run("workload", "suite", [script, str(self.models), *names])
        for row in (row for row in wanted if row.kind == "training"):
            folder = str(self.models / row.name)
            if not (self.models / row.name / "expected.npz").exists():
                reference = str(PEERS / "contenders" / "torch_reference.py")
                self._run("workload", "torch", [reference, folder])
            self._run("workload", "jax", ["-m", "suite.making.stablehlo", folder])

    def whole(self, wanted: Sequence[Row]) -> None:
        """Models of models.yaml."""
        names = [row.name for row in wanted]
        self._run("model", "torch", ["-m", "suite.making.export", str(self.models), *names])

    def steps(self, wanted: Sequence[Row]) -> None:
        """Training steps: weights by xlac, the losses that are expected by eager PyTorch."""
        for row in wanted:
            folder = str(self.models / row.name)
            for venv, what in (("xlac", "begin"), ("torch", "expect")):
                self._run(
                    "step", venv, ["-m", "suite.making.steps", what, folder, row.what["step"]]
                )

    def quantized(self, wanted: Sequence[Row]) -> None:
        """Quantized models, of models that are made first if they are not there."""
        known = {row.name: row for row in rows()}
        self.make([known[row.what["of"]] for row in wanted])
        for row in wanted:
            base = str(self.models / row.what["of"])
            what = [
                "-m",
                "suite.making.quantize",
                base,
                str(self.models / row.name),
                row.what["form"],
            ]
            self._run("int8", "suite", what)

    def _log(self, maker: str) -> Path:
        return self.models.parent / "logs" / f"make.{maker}.log"

    def _run(self, maker: str, venv: str, what: list[str]) -> None:
        log = self._log(maker)
        log.parent.mkdir(parents=True, exist_ok=True)
        paths = [str(HERE.parent), str(HERE.parent / "training"), str(PEERS)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "XLAC_CACHE": "off"}
        python = VENVS / venv / "bin" / "python"
        with log.open("a") as out:
            command = [str(python), *what]
            subprocess.run(command, check=False, stdout=out, stderr=out, env=env, cwd=ROOT)


MAKERS: dict[str, Callable[[Maker, Sequence[Row]], None]] = {
    "workload": Maker.workloads,
    "model": Maker.whole,
    "step": Maker.steps,
    "int8": Maker.quantized,
}
