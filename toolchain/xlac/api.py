"""`xlac.compile`: loads a compilation from the cache where there is one, and calls the driver
otherwise.

Nothing of the compiler is imported here unless there is something to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from xlac.cache.compilations import CompilationEntry, entry
from xlac.options import CompileOptions
from xlac.runtime.compiled import Compiled
from xlac.support.dependencies import Files, copying, note, noted, steady, unchanged
from xlac.support.failures import Asked

FUNCTIONS = "xlac.integrations.tensorflow"
"""What compiles functions for example arguments; imported for those alone."""

if TYPE_CHECKING:  # importing these takes longer than what is done here
    from xlac.placement.automatic import AutomaticPlaces
    from xlac.runtime.specialization import Specializing
    from xlac_sdk.host.mapped import MappedFile


def compile(
    source: object,
    target: str | Sequence[object] = "cpu",
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    sizes: Literal["specialize", "symbolic"] = "specialize",
    variants: Sequence[Mapping[str, int]] = (),
    threads: int | None = None,
    cpu: str = "",
    triple: str = "",
    arch: str = "",
    precision: str = "",
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
    checked: Asked = None,
    copy_weights: bool = False,
    schedules: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    passes: str = "",
    verify_each: bool = False,
    max_memory: int | str | None = None,
    allow_kernels: bool | None = None,
    signature: str = "",
    tune: float | bool | None = None,
    place: Mapping[str, str | Sequence[str]] | AutomaticPlaces | None = None,
) -> Compiled | Specializing:
    """Compiles a model for a target: a file (a spec, .onnx, .mlir), an xlac.Model or an
    onnx.ModelProto. Or a function of TensorFlow, with a tuple of example arguments in place of the
    target: as `xlac.from_tensorflow`, with threads, cpu, precision and checked.

    `dims` gives symbolic sizes, `params` overrides build-time constants, `threads` defaults to
    XLAC_THREADS or one. A model with sizes left open is compiled for each set of them when first
    called with it or, with `sizes` "symbolic", once for all within their bounds: then `variants`
    are sizes (`{"batch": 1}`) that this one program has code of its own for. One whose sizes depend
    on values of its inputs is compiled for each set of those.
    `precision` is "default" or "fast" whatever the model says, "" as it says: docs/SPEC.md has what
    fast permits. With `checked` the program finds indices out of range, NaN that appears, integers
    divided by zero and sizes that do not fit, and a call raises `xlac.CheckFailed`, which names the
    node: True, kinds of checks ("bounds,infinity"; "all"), or None for what XLAC_CHECKED says. One
    compilation (each, of a model that has several) takes at most `max_compile_seconds` and, beside
    what the process has, `max_compile_memory` bytes, or LimitError is raised; what is kept does not
    depend on these. A call takes at most `max_memory` beside its arrays (bytes, or text as "512M";
    arena, state and weights count): what does not fit is computed again, to the same bits, or
    LimitError is raised. Weights that are in files are mapped; with `copy_weights` they are read,
    and the files may be written to then.
    `schedules`, a file or what stands in one, says how kernels are to be written in place of what
    the compiler would choose: docs/SCHEDULES.md.
    With `tune`, a number of seconds (True: 60), each program is tuned on this machine before it is
    compiled, as `xlac.tune` does, unless the cache has schedules for which so long was searched:
    docs/TUNING.md. Programs with open sizes are not.
    `passes` is another pipeline of the optimizer, as text: `xlac inspect --stage passes` prints the
    default one. With `verify_each` a graph that is compiled is verified after every pass.
    `place` puts nodes on other targets, by patterns of their paths, of which the first that fits
    wins: {"encoder.*": "cpu", "decoder.*": "c"}; nodes that none fits are on `target`. Several
    targets, as ["c", "cpu"], are taken in turn where one is not installed or cannot compute the
    nodes, with a warning. It replaces what the model says; `AutomaticPlaces` are chosen by memory
    and predicted time: docs/PLACEMENT.md.
    `signature` is the one to compile of those that a .tflite file has; by default serving_default.
    `allow_kernels` says whether hand-written kernels that the model names are compiled, which are
    code: True compares them with what they mean and calls them, False computes what they mean, and
    where nobody says, a model that has one for the target is an error: docs/CUSTOM_OPS.md.
    Raises SourceError, UnsupportedError or LimitError.

    A file that was compiled before, and has not changed, is taken from the cache on disk; of one
    whose sizes are open, the program of each set of them is.

    (Long because every option is explained here, and passed on by name.)
    """
    if callable(source) and not isinstance(target, str):
        chosen = {"threads": threads, "cpu": cpu, "precision": precision, "checked": checked}
        return cast("Compiled", _function(source, target, chosen))  # it is called as one
    target = cast("str", target)  # what is no name is refused where backends are looked up
    options = CompileOptions(
        dims=dims or {},
        params=params or {},
        sizes=sizes,
        variants=variants,
        threads=threads,
        cpu=cpu,
        triple=triple,
        arch=arch,
        precision=precision,
        max_compile_seconds=max_compile_seconds,
        max_compile_memory=max_compile_memory,
        checked=checked,
        copy_weights=copy_weights,
        schedules=schedules,
        passes=passes,
        verify_each=verify_each,
        max_memory=max_memory,
        allow_kernels=allow_kernels,
        signature=signature,
        tune=tune,
        place=place,
    )
    kept = entry(source, target, options) if isinstance(source, str | os.PathLike) else None
    cached = load(kept, copy_weights)
    if cached is not None:
        return cached
    from xlac.support.gc_pause import paused

    with noted() as files, copying(copy_weights), steady() as maps, paused():
        from pathlib import Path

        from xlac.driver import compile as compile_now

        if kept and isinstance(source, str | os.PathLike):
            note(Path(source))
        compiled = compile_now(source, target, options)
    if isinstance(compiled, Compiled):
        keep(kept, compiled, files)
        return compiled

    def entry_for(sizes: Mapping[str, Any]) -> CompilationEntry | None:
        if not kept or not isinstance(source, str | os.PathLike):
            return None
        return entry(source, target, _specialized(options, sizes))

    return keeping(compiled, files, entry_for, maps, copy_weights)


def _function(source: Any, args: Sequence[object], options: Mapping[str, Any]) -> Any:
    """A function of TensorFlow, compiled for example arguments by the module of that door."""
    if not isinstance(args, tuple | list):
        raise TypeError("the target is the name of a backend, or a tuple of example arguments")
    return import_module(FUNCTIONS).from_tensorflow(source, *args, **options)


def _specialized(options: CompileOptions, sizes: Mapping[str, Any]) -> CompileOptions:
    """The options of the program for some sizes. A size that stays open is written as its symbol,
    with all that is known of it.
    """
    texts = {name: n if isinstance(n, int) else repr(n) for name, n in sizes.items()}
    return replace(options, dims={**options.dims, **texts}, sizes="specialize", variants=())


def load(place: CompilationEntry | None, copy: bool = False) -> Compiled | None:
    """The compilation stored in a cache entry, as a callable; None without an entry, or where it is
    empty. With `copy` the constants are read into memory instead of mapped.
    """
    kept = place.load(copy) if place else None
    return None if kept is None else Compiled(*kept)


def keep(place: CompilationEntry | None, compiled: Compiled, files: Files) -> None:
    """Stores a compilation, made from `files`, in a cache entry, if there is one."""
    if place and not isinstance(compiled.artifact, str):  # else it is from the cache
        place.keep(compiled.whole, compiled.target, compiled.artifact, files)


def keeping(
    compiled: Specializing,
    files: Files,
    entry_for: Callable[[Mapping[str, Any]], CompilationEntry | None],
    maps: Sequence[MappedFile],
    copy: bool,
) -> Specializing:
    """`compiled`, with a cache: each of its programs is loaded from the entry that `entry_for`
    gives for its sizes, or compiled and stored there.

    Not cached: programs specialized to values of inputs, and any program once `files` differ from
    what the model was read from. Raises SourceError where a file in `maps` (weights that the model
    has mapped) was changed.
    """

    def compile_for(sizes: Mapping[str, Any], values: Mapping[str, Any]) -> Compiled:
        place = entry_for(sizes) if not values and unchanged(files) else None
        program = load(place, copy)
        if program is None:
            with noted() as more, copying(copy), steady():
                program = compiled.compile_for(sizes, values)
            for file in maps:
                file.check()
            keep(place, program, {**more, **files})
        return program

    return type(compiled)(compiled.interface, compile_for, grows=compiled.grows)
