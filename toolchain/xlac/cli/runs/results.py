"""What `xlac run` does with outputs: prints, writes or compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import pairs
from xlac.cli.inputs import check_outputs

Outputs = dict[str, Any]


def finished(
    outputs: Outputs | None,
    wanted: tuple[str, ...],
    written: Path | None,
    expected: tuple[str, ...],
    rtol: float,
    atol: float,
) -> int:
    """Writes, compares or prints outputs; the exit code. None: another rank does it."""
    import numpy as np

    if outputs is None:
        return 0
    files = pairs(wanted, "--output")
    check_outputs(files, outputs)
    for name, file in files.items():
        np.save(Path(file.removeprefix("@")), outputs[name])
    if written:
        np.savez(written, allow_pickle=False, **outputs)
    if not wanted and not written and not expected:
        for name, array in outputs.items():
            click.echo(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]")
            click.echo(np.array2string(np.asarray(array), threshold=200, edgeitems=3, precision=6))
    return 0 if compare(outputs, expected, rtol, atol) else 1


def check_expected(expected: tuple[str, ...]) -> None:
    """Raises SourceError where a file to compare with is not there."""
    from xlac_sdk.source import Diagnostic, SourceError

    paths = [Path(text.rpartition("=")[2].removeprefix("@")) for text in expected]
    missing = [Diagnostic("XL3001", f"no such file: {p}") for p in paths if not p.is_file()]
    if missing:
        raise SourceError(*missing)


def compare(outputs: dict[str, Any], expected: tuple[str, ...], rtol: float, atol: float) -> bool:
    """Compares outputs with expected ones and prints the differences."""
    import numpy as np

    from xlac.cli.arrays import load_npy, load_npz

    wanted: dict[str, Any] = {}
    for text in expected:
        name, equals, file = text.rpartition("=")
        path = Path(file.removeprefix("@"))
        if equals:
            wanted[name] = load_npy(path, name)
        elif path.suffix == ".npz":
            wanted.update(load_npz(path))
        else:
            only = next(iter(outputs))
            wanted[only] = load_npy(path, only)
    fine = True
    for name, want in wanted.items():
        got = np.asarray(outputs[name])
        if got.shape != want.shape:
            click.echo(f"{name}: shape {got.shape}, expected {want.shape}")
            fine = False
            continue
        a, b = got.astype(np.float64), want.astype(np.float64)
        close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        error = float(np.nanmax(np.abs(a - b), initial=0.0))
        click.echo(
            f"{name}: {'agrees' if close.all() else 'DIFFERS'}, largest difference {error:.3g}"
        )
        if not close.all():
            place = tuple(int(i) for i in np.argwhere(~close)[0])
            click.echo(
                f"  {int((~close).sum())} of {close.size} elements, first at {place}: {a[place]} "
                f"!= {b[place]}"
            )
            fine = False
    return fine
