"""Loads and runs the output of `xlac build` without the compiler: a manifest, a backend, and calls
by name. What was loaded can be pickled: it is the files of its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xlac.runtime.compiled import Compiled, PresentState
from xlac.support.failures import FACT
from xlac.support.unpacked import remove_with, unpacked
from xlac_sdk.host.entry_calls import ProgramState, entry_calls
from xlac_sdk.host.manifest import NAME, Manifest, read
from xlac_sdk.host.registry import find
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target import Target


class Loaded(Compiled):
    """An artefact, called like a compiled model; `manifest` describes it. For a training model,
    `entries` are its other functions and `state` is shared by them.

    A pickle of it holds the files of its folder and its state, so other processes and machines run
    it without the folder, and compile nothing.
    """

    def __init__(self, folder: Path, manifest: Manifest, copy_weights: bool = False) -> None:
        artefact = manifest.alone(folder, copy_weights)
        executable = find(manifest.target).open(artefact)
        whole, program = getattr(executable, "program", artefact.program), artefact.program
        # the record of its checks is a separate output
        if len(whole.outputs) == len(program.outputs) and FACT in whole.facts:
            program = replace(program, facts={**program.facts, FACT: whole.facts[FACT]})
        super().__init__(program, Target(manifest.target), executable)
        self.manifest, self._folder, self._copied = manifest, folder, copy_weights
        self.entries = entry_calls(artefact.program, executable)
        self.state = ProgramState(artefact.program, executable)

    def __reduce__(self) -> tuple[Callable[..., Loaded], tuple[Any, ...]]:
        """The files of the folder by name, the weights among them. Raises SourceError where they
        have changed since they were loaded.
        """
        folder = self._folder
        if read(folder).files != self.manifest.files:
            problem = f"the artefact in {folder} was built again since it was loaded"
            raise SourceError(Diagnostic("XL3013", problem, hint="load it again"))
        files = {name: (folder / name).read_bytes() for name in (*self.manifest.files, NAME)}
        return _unpickled, (files, self._copied, self._present_state())


def _unpickled(files: Mapping[str, bytes], copy_weights: bool, present: PresentState) -> Loaded:
    """What was pickled, from files in a folder that is gone with it. Raises UnsupportedError where
    it cannot run on this machine.
    """
    with unpacked(files) as folder:
        loaded = load(folder, copy_weights=copy_weights)
    remove_with(loaded, folder)
    loaded._restore(present)
    return loaded


def load(folder: str | Path, *, copy_weights: bool = False) -> Loaded:
    """The artefact in a folder, as a callable. Nothing is compiled. With `copy_weights` no file is
    mapped.

    Raises SourceError for a folder that is not an artefact or whose files were changed, and
    UnsupportedError for one that cannot run here.
    """
    return Loaded(Path(folder), read(Path(folder)), copy_weights)
