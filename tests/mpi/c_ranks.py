"""C programs that call MPI, built by mpicc: what ranks give for their parts of whole arrays."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mpirun import ENVIRONMENT, alone
from numpy.typing import NDArray

from xlac.spmd.mesh import Mesh, assembled, part_of
from xlac_sdk.host.capi.names import parameters
from xlac_sdk.host.manifest import Manifest, read

Arrays = Mapping[str, NDArray[np.generic]]

FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2")

BEGIN = """\
#define _POSIX_C_SOURCE 200809L
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>

static void *loaded(const char *name, int number, size_t bytes)
{
    char path[200];
    void *data = NULL;
    FILE *file;
    snprintf(path, sizeof path, "%s.%d", name, number);
    if (posix_memalign(&data, 64, bytes + 1)) exit(90);
    file = fopen(path, "rb");
    if (file == NULL || fread(data, 1, bytes, file) != bytes) exit(91);
    fclose(file);
    return data;
}

static void kept(const char *name, int number, const void *data, size_t bytes)
{
    char path[200];
    FILE *file;
    snprintf(path, sizeof path, "%s.%d", name, number);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file)) exit(92);
}

int main(int argc, char **argv)
{
    static NAME_context context;
    NAME_status status;
    int rank = 0;
    void *memory = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (posix_memalign(&memory, 64, NAME_size())) exit(93);
"""
"""The beginning of a program for a model NAME: arrays are read from files and written to them; in
`main` there are `rank` and the `memory` of a context.
"""

MAIN = (
    BEGIN
    + """\
BEFORE
    status = NAME_init(&context, memory, NAME_size()WEIGHTS, MPI_COMM_WORLD);
    if (status == 0) {
CALL
    }
    if (status != 0) {
        const char *where = NAME_collective(&context);
        fprintf(stderr, "rank %d: %s [%d], in %s\\n", rank, NAME_status_text(status), status,
                where ? where : "none");
        fflush(stderr);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    NAME_free(&context);
    MPI_Finalize();
    return 0;
}
"""
)


def built(spec: Path, folder: Path, *options: str) -> Manifest:
    """What `xlac build --target c` writes of a spec, into a folder."""
    ran = alone("build", spec, "--target", "c", "-o", folder, *options)
    assert ran.returncode == 0, ran.stderr
    return read(folder)


def program(
    folder: Path,
    manifest: Manifest,
    before: str = "",
    calls: int = 1,
    between: str = "",
    flags: Sequence[str] = (),
) -> Path:
    """A program that calls the model of a folder some times, each rank with files of its parts.
    `before` and `between` are lines before the context is made, and before each call.
    """
    inputs, outputs = manifest.inputs, manifest.outputs
    names = parameters([t.name for t in (*inputs, *outputs)], "array")
    called, name = ", ".join(["&context", *names]), manifest.name
    lines = [
        f'void *{c} = loaded("{c}", rank, {tensor.bytes});'
        for tensor, c in zip(inputs, names, strict=False)
    ]
    results = list(zip(outputs, names[len(inputs) :], strict=True))
    lines += [f"void *{c} = malloc({tensor.bytes} + 1);" for tensor, c in results]
    lines += [f"for (int call = 0; call < {calls} && status == 0; ++call) {{"]
    lines += [between, f"status = {name}_run({called});", "}"]
    lines += [f'if (status == 0) kept("{c}", rank, {c}, {t.bytes});' for t, c in results]
    weights = ""
    if not manifest.weights.inside:
        total = f"{name}_part_bytes(rank)"
        before += f'\n    void *weights = loaded("weights", {name}_part(rank), {total});'
        weights = f", weights, {total}"
    text = MAIN.replace("BEFORE", before).replace("WEIGHTS", weights)
    text = text.replace("CALL", "\n".join(f"        {line}" for line in lines))
    (folder / "main.c").write_text(text.replace("NAME", name), encoding="utf-8")
    return compiled(folder, name, flags)


def compiled(folder: Path, name: str, flags: Sequence[str] = ()) -> Path:
    """`main.c` and the C file of a model, built by mpicc without a warning."""
    command = ["mpicc", *FLAGS, *flags, "main.c", f"{name}.c", "-lm", "-o", "main"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return folder / "main"


def started(binary: Path, count: int) -> subprocess.CompletedProcess[str]:
    """Runs a program as ranks."""
    return subprocess.run(
        ["mpirun", "-n", str(count), str(binary)],
        cwd=binary.parent,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def give(folder: Path, manifest: Manifest, given: Arrays) -> Mesh:
    """Writes each rank's parts of whole inputs, and links the files of weights."""
    assert manifest.ranks is not None
    mesh = Mesh(tuple((axis.name, axis.size) for axis in manifest.ranks.mesh))
    names = parameters([t.name for t in manifest.inputs], "array")
    for tensor, c in zip(manifest.inputs, names, strict=True):
        sharding = manifest.ranks.arrays[tensor.name].axes
        for rank in range(mesh.ranks):
            part = np.ascontiguousarray(part_of(given[tensor.name], mesh, rank, sharding))
            (folder / f"{c}.{rank}").write_bytes(part.tobytes())
    for file in folder.glob("*.weights"):
        (folder / f"weights.{file.name.split('.')[-2]}").symlink_to(file)
    return mesh


def ranks_give(
    folder: Path, manifest: Manifest, given: Arrays, calls: int = 1
) -> dict[str, NDArray[np.generic]]:
    """The whole outputs, of ranks that run the model on their parts of whole inputs."""
    mesh = give(folder, manifest, given)
    ran = started(program(folder, manifest, calls=calls), mesh.ranks)
    assert ran.returncode == 0, ran.stderr
    assert manifest.ranks is not None
    every = parameters([t.name for t in (*manifest.inputs, *manifest.outputs)], "array")
    results = {}
    for tensor, c in zip(manifest.outputs, every[len(manifest.inputs) :], strict=True):
        whole = manifest.ranks.arrays[tensor.name]
        kind, shape = tensor.dtype.numpy, tensor.shape
        parts = {
            rank: np.frombuffer((folder / f"{c}.{rank}").read_bytes(), kind).reshape(shape)
            for rank in range(mesh.ranks)
        }
        results[tensor.name] = assembled(parts, mesh, whole.axes, whole.shape)
    return results
