"""Loads and runs the output of `xlac build` without the compiler: a manifest, a backend, and calls
by name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xlac.runtime.compiled import Compiled
from xlac.support.failures import FACT
from xlac_sdk.host.entry_calls import ProgramState, entry_calls
from xlac_sdk.host.manifest import Manifest, read
from xlac_sdk.host.registry import find
from xlac_sdk.target import Target


class Loaded(Compiled):
    """An artefact, called like a compiled model; `manifest` describes it. For a training model,
    `entries` are its other functions and `state` is shared by them.
    """

    def __init__(self, folder: Path, manifest: Manifest, copy_weights: bool = False) -> None:
        artefact = manifest.artefact(folder, copy_weights)
        executable = find(manifest.target).open(artefact)
        whole, program = getattr(executable, "program", artefact.program), artefact.program
        # the record of its checks is a separate output
        if len(whole.outputs) == len(program.outputs) and FACT in whole.facts:
            program = replace(program, facts={**program.facts, FACT: whole.facts[FACT]})
        super().__init__(program, Target(manifest.target), executable)
        self.manifest = manifest
        self.entries = entry_calls(artefact.program, executable)
        self.state = ProgramState(artefact.program, executable)


def load(folder: str | Path, *, copy_weights: bool = False) -> Loaded:
    """The artefact in a folder, as a callable. Nothing is compiled. With `copy_weights` no file is
    mapped.

    Raises SourceError for a folder that is not an artefact or whose files were changed, and
    UnsupportedError for one that cannot run here.
    """
    return Loaded(Path(folder), read(Path(folder)), copy_weights)
