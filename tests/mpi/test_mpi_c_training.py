"""C that trains among ranks, of `xlac build --target c --mesh`: `make test-mpi`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_ranks import BEGIN, built, compiled, started
from mpirun import ROOT
from numpy.typing import NDArray

import xlac
from xlac.spmd.mesh import Mesh, assembled, part_of
from xlac_sdk.host.capi.names import parameters
from xlac_sdk.host.manifest import Manifest

STEPS = 3
RNG = np.random.default_rng(12)

TRAINED = """\
xlac: 1
model: wide
MESH
dims: {batch: {max: 64, opt: 8}}
inputs: {x: "f32[batch, 12]", y: "f32[batch, 6]"}
weights: {init: {seed: 3}}
graph:
  n: {op: batch_norm, in: x, axis: 1}
  up: {op: linear, in: n, units: 16}
  down: {op: linear, in: relu(up), units: 6}
outputs: [down]
train:
  batch: batch
  loss: mean((down - y) * (down - y))
  metrics: {most: max(abs(down - y))}
  optimizer: {adam: {lr: 0.01}}
  clip: {norm: 1.0}
SHARD"""

MAIN = (
    BEGIN
    + """\
    status = NAME_init(&context, memory, NAME_size(), MPI_COMM_WORLD);
    for (int step = 0; step < STEPS && status == 0; ++step) {
LOADED
        status = NAME_step(&context, CALLED);
        if (rank == 0) printf("%.9g\\n", (double)loss[0]);
    }
    for (int tensor = 0; tensor < UPPER_TENSORS && status == 0; ++tensor) {
        const NAME_tensor_facts *facts = NAME_tensor(tensor);
        void *values = malloc(facts->bytes + 1);
        status = NAME_get(&context, tensor, values);
        kept(facts->name, rank, values, facts->bytes);
    }
    if (status != 0) {
        fprintf(stderr, "rank %d: %s [%d]\\n", rank, NAME_status_text(status), status);
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    NAME_free(&context);
    MPI_Finalize();
    return 0;
}
"""
)

Arrays = dict[str, NDArray[np.generic]]


def batches() -> list[Arrays]:
    shape = {"x": (8, 12), "y": (8, 6)}
    return [{n: RNG.standard_normal(s, np.float32) for n, s in shape.items()} for _ in range(STEPS)]


def program(folder: Path, made: Manifest, given: list[Arrays]) -> tuple[Path, Mesh]:
    """A program that makes steps, beside files with each rank's parts of the batches."""
    assert made.ranks is not None and made.entries is not None
    mesh = Mesh(tuple((axis.name, axis.size) for axis in made.ranks.mesh))
    step = next(entry for entry in made.entries.functions if entry.name == "step")
    names = parameters([t.name for t in (*step.inputs, *step.outputs)], "array")
    loads = []
    for tensor, c in zip(step.inputs, names, strict=False):
        loads.append(
            f'        void *{c} = loaded("{c}", step * UPPER_RANKS + rank, {tensor.bytes});'
        )
        for number, batch in enumerate(given):
            for rank in range(mesh.ranks):
                part = part_of(batch[tensor.name], mesh, rank, made.ranks.arrays[tensor.name].axes)
                (folder / f"{c}.{number * mesh.ranks + rank}").write_bytes(part.tobytes())
    for tensor, c in zip(step.outputs, names[len(step.inputs) :], strict=True):
        loads.append(f"        static float {c}[{tensor.bytes // 4}];")
    text = MAIN.replace("LOADED", "\n".join(loads)).replace("CALLED", ", ".join(names))
    text = text.replace("STEPS", str(STEPS)).replace("UPPER", made.name.upper())
    (folder / "main.c").write_text(text.replace("NAME", made.name), "utf-8")
    return compiled(folder, made.name), mesh


@pytest.mark.parametrize(
    ("mesh", "said", "shard"),
    [
        ("data=2", "", ""),
        ("data=2,model=2", "mesh: {data: 2, model: 2}\nshard: {up.weight: [model, null]}", ""),
        ("data=2", "", "optimizer"),
        ("data=2", "", "weights"),
    ],
)
def test_steps_are_those_of_one_process(tmp_path: Path, mesh: str, said: str, shard: str) -> None:
    """Losses, and the whole state after some steps, from the parts of ranks."""
    spec, folder = tmp_path / "wide.yaml", tmp_path / "c"
    text = TRAINED.replace("SHARD", f"  shard: {shard}\n" if shard else "")
    spec.write_text(text.replace("MESH", said or "mesh: {data: null}"), "utf-8")
    made = built(spec, folder, "--mesh", mesh)
    given = batches()
    binary, ranks = program(folder, made, given)
    ran = started(binary, ranks.ranks)
    assert ran.returncode == 0, ran.stderr
    alone = xlac.trainer(spec, target="reference")
    alone.set_length(STEPS)
    losses = [float(alone.step(**batch)["loss"]) for batch in given]
    np.testing.assert_allclose([float(line) for line in ran.stdout.split()], losses, rtol=2e-5)
    assert made.ranks is not None
    for name, array in alone.state().items():
        about = made.ranks.arrays[name]
        parts = {}
        for rank in range(ranks.ranks):
            block = (folder / f"{name}.{rank}").read_bytes()
            sizes = [
                -(-size // ranks.parts(axes))
                for size, axes in zip(about.shape, about.axes, strict=True)
            ]
            parts[rank] = np.frombuffer(block, array.dtype).reshape(sizes)
        whole = assembled(parts, ranks, about.axes, about.shape)
        np.testing.assert_allclose(whole, array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_shipped_spec_that_trains(tmp_path: Path) -> None:
    """mpicc builds it without a warning."""
    made = built(ROOT / "specs" / "digits_train.yaml", tmp_path / "c", "--mesh=data=2")
    assert made.entries is not None
    (tmp_path / "c" / "main.c").write_text("int main(void) { return 0; }\n", "utf-8")
    compiled(tmp_path / "c", made.name)
