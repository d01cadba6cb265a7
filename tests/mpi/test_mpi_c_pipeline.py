"""C of pipelines that calls MPI, of `xlac build --target c --mesh`: `make test-mpi`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from c_ranks import BEGIN, built, compiled, ranks_give, started
from numpy.typing import NDArray
from test_mpi_c import agree

import xlac
from xlac.spmd.mesh import Mesh, part_of, slices
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.host.capi.names import parameters
from xlac_sdk.host.manifest import Manifest

Arrays = dict[str, NDArray[np.generic]]

RNG = np.random.default_rng(21)

CHAIN = """\
xlac: 1
model: chain
mesh: {data: null, stage: null}
pipeline: {axis: stage, STAGES}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f32[batch, 6]", mask: "f32[batch]"}
graph:
  l1: {op: linear, in: x, units: 8}
  a1: relu(l1)
  l2: {op: linear, in: a1, units: 8}
  l3: {op: linear, in: relu(l2) + a1, units: 8}
  head: {op: linear, in: "tanh(l3) * reshape(mask, [-1, 1])", units: 70}
outputs: [head, l2]
"""
TWO = "stages: [[l1, a1, l2], [l3, head]]"
FOUR = "stages: [[l1, a1], [l2], [l3], [head]]"


@pytest.mark.parametrize(
    ("stages", "mesh", "weights"),
    [
        (TWO, "data=1,stage=2", "embed"),
        (TWO, "data=2,stage=2", "file"),
        (FOUR, "data=1,stage=2", "mmap"),
        (FOUR, "data=1,stage=4", "embed"),
        ("chunks: 2", "data=1,stage=2", "embed"),
    ],
)
def test_a_model_is_called_in_stages(stages: str, mesh: str, weights: str, tmp_path: Path) -> None:
    """On two and four ranks, with one and two stages for each."""
    spec = tmp_path / "chain.yaml"
    spec.write_text(CHAIN.replace("STAGES", stages), "utf-8")
    made = built(spec, tmp_path / "c", "--mesh", mesh, "--weights", weights)
    inputs = {"x": RNG.standard_normal((8, 6), np.float32), "mask": RNG.random(8, np.float32)}
    agree(spec, ranks_give(tmp_path / "c", made, inputs), inputs, tmp_path)


STEPS = 3
LEARNS = """\
xlac: 1
model: layers
mesh: {data: null, stage: null}
pipeline: {axis: stage, schedule: SCHEDULE, stages: [[l1, a1], [l2], [l3, a3], [l4]]}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 0}}
inputs: {y: "i32[batch]", x: "f32[batch, 6]"}
graph:
  l1: {op: linear, in: x, units: 8}
  a1: {op: dropout, in: relu(l1), p: 0.1}
  l2: {op: linear, in: a1, units: 8}
  l3: {op: linear, in: relu(l2) + a1, units: 8}
  a3: tanh(l3)
  l4: {op: linear, in: a3, units: 4}
outputs: [l4]
train:
  batch: batch
  accumulate: 4
  loss: mean(cross_entropy(l4, y))
  metrics: {accuracy: "mean(f32(argmax(l4, axis=-1) == y))"}
  optimizer: {adamw: {lr: {cosine: {peak: 0.05, warmup: 1}}}}
  clip: {norm: 1.0}
"""
TIED = """\
xlac: 1
model: tied
mesh: {data: null, stage: null}
pipeline: {axis: stage, schedule: SCHEDULE, stages: [[rows, a], [b, bn], [c, logits], [none]]}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 0}}
inputs: {x: "i32[batch, 6]", y: "i32[batch]"}
graph:
  table: {op: weight, type: "f32[20, 8]"}
  rows: sum(table[x], axis=1)
  a: {op: linear, in: rows, units: 8}
  b: {op: linear, in: relu(a), units: 8, bias: false} # a batch norm follows
  bn: {op: batch_norm, in: b, axis: 1}
  c: {op: linear, in: relu(bn) + rows, units: 8}
  logits: matmul(c, transpose(table, [1, 0]))
  none: logits * 1
outputs: [none]
train:
  batch: batch
  accumulate: 4
  loss: mean(cross_entropy(none, y))
  optimizer: {adamw: {lr: 0.05}}
  ema: {decay: 0.9}
"""
GAN = """\
xlac: 1
model: gan
mesh: {data: null, stage: null}
pipeline: {axis: stage, schedule: SCHEDULE, stages: [[up, fake], [seen, first, score]]}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 3}}
inputs: {x: "f64[batch, 6]", y: "f64[batch]"}
graph:
  up: {op: linear, in: x, units: 6}
  fake: {op: linear, in: tanh(up), units: 1}
  seen: "concat([reshape(y, [-1, 1]), fake], axis=1)"
  first: {op: linear, in: "reshape(seen, [-1, 1])", units: 5}
  score: "reshape(linear(leaky_relu(first, alpha=0.2), units=1), [-1, 2])"
outputs: [fake]
train:
  batch: batch
  accumulate: 4
  losses:
    critic:
      loss: mean(softplus(-score[:, 0])) + mean(softplus(score[:, 1]))
      wrt: ["first.*", "score.*"]
      optimizer: {adam: {lr: 0.01}}
      clip: {norm: 0.5}
    maker:
      loss: mean(softplus(-score[:, 1]))
      wrt: ["up.*", "fake.*"]
      optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
"""
MAIN = (
    BEGIN
    + """\
    status = NAME_init(&context, memory, NAME_size(), MPI_COMM_WORLD);
LENGTH
    for (int step = 0; step <= STEPS && status == 0; ++step) {
LOADED
        status = step < STEPS ? NAME_step(&context, CALLED) : NAME_evaluate(&context, CALLED);
        const double sum = (double)LOSS[0] + LOSS[1] + LOSS[2] + LOSS[3];
        if (status == 0) printf("%d %d %.9g\\n", rank, step, sum / 4);
        if (step == STEPS) {
            status = NAME_run(&context, x, outputs);
            kept("outputs", rank, outputs, sizeof outputs);
        }
    }
    for (int tensor = 0; tensor < UPPER_TENSORS && status == 0; ++tensor) {
        const NAME_tensor_facts *facts = NAME_tensor(tensor);
        void *values = malloc(facts->bytes + 1);
        status = NAME_get(&context, tensor, values);
        if (NAME_holds(&context, tensor)) kept(facts->name, rank, values, facts->bytes);
        else if (status != UPPER_NO_TENSOR) exit(94);
        else status = UPPER_OK;
        free(values);
    }
    if (status != 0) {
        const char *where = NAME_collective(&context);
        fprintf(stderr, "rank %d: %s [%d], in %s\\n", rank, NAME_status_text(status), status,
                where ? where : "none");
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    NAME_free(&context);
    MPI_Finalize();
    return 0;
}
"""
)


def program(folder: Path, made: Manifest, given: list[Arrays]) -> tuple[Path, Mesh]:
    """A program that makes steps and evaluates, with files of each rank's parts of the batches."""
    assert made.ranks is not None and made.entries is not None
    mesh = Mesh(tuple((axis.name, axis.size) for axis in made.ranks.mesh))
    step = next(entry for entry in made.entries.functions if entry.name == "step")
    names = parameters([t.name for t in (*step.inputs, *step.outputs)], "array")
    loads = []
    for tensor, c in zip(step.inputs, names, strict=False):
        loads.append(
            f'        void *{c} = loaded("{c}", step * UPPER_RANKS + rank, {tensor.bytes});'
        )
        about = made.ranks.arrays[tensor.name]
        for number, batch in enumerate(given):
            whole = batch[tensor.name].reshape(about.shape)  # micro-batches come first
            for rank in range(mesh.ranks):
                part = np.ascontiguousarray(part_of(whole, mesh, rank, about.axes))
                (folder / f"{c}.{number * mesh.ranks + rank}").write_bytes(part.tobytes())
    for tensor, c in zip(step.outputs, names[len(step.inputs) :], strict=True):
        loads.append(
            f"        static {TYPES[tensor.dtype]} {c}[{tensor.bytes // tensor.dtype.nbytes}];"
        )
    (output,) = made.outputs
    kind, count = TYPES[output.dtype], output.bytes // output.dtype.nbytes
    loads.append(f"        static {kind} outputs[{count}];")
    text = MAIN.replace("LOADED", "\n".join(loads)).replace("CALLED", ", ".join(names))
    length = "    if (status == 0) status = NAME_set_length(&context, STEPS);"
    text = text.replace("LENGTH", length if "length" in str(made.entries) else "")
    text = text.replace("STEPS", str(STEPS)).replace("UPPER", made.name.upper())
    text = text.replace("LOSS", names[len(step.inputs)])
    (folder / "main.c").write_text(text.replace("NAME", made.name), "utf-8")
    return compiled(folder, made.name, ["-O0"]), mesh


@pytest.mark.parametrize(
    ("text", "mesh", "schedule", "shard"),
    [
        (LEARNS, "data=1,stage=2", "1f1b", ""),
        (LEARNS, "data=1,stage=4", "gpipe", ""),
        (LEARNS, "data=2,stage=2", "1f1b", "optimizer"),
        (TIED, "data=1,stage=4", "1f1b", ""),
        (TIED, "data=2,stage=2", "gpipe", ""),
        (GAN, "data=1,stage=2", "1f1b", ""),
    ],
)
def test_steps_are_those_of_one_process(
    text: str, mesh: str, schedule: str, shard: str, tmp_path: Path
) -> None:
    """Losses, the whole state after some steps, an evaluation and the model's outputs."""
    spec, folder = tmp_path / "model.yaml", tmp_path / "c"
    text = text.replace("SCHEDULE", schedule) + (f"  shard: {shard}\n" if shard else "")
    spec.write_text(text, "utf-8")
    made = built(spec, folder, "--mesh", mesh)
    given = [drawn(text) for _ in range(STEPS + 1)]
    binary, ranks = program(folder, made, given)
    ran = started(binary, ranks.ranks)
    assert ran.returncode == 0, ran.stderr
    alone = xlac.trainer(spec, target="reference")
    alone.set_length(STEPS)
    losses = [float(alone.step(**batch)[alone.losses[0]]) for batch in given[:-1]]
    losses.append(float(alone.evaluate(**given[-1])[alone.losses[0]]))
    told = sorted(tuple(map(float, line.split())) for line in ran.stdout.splitlines())
    assert len(told) == ranks.ranks * (STEPS + 1)
    for rank, step, loss in told:
        assert loss == pytest.approx(losses[int(step)], rel=2e-5), (rank, step)
    assert made.ranks is not None
    wanted = np.asarray(alone(x=given[-1]["x"]))
    (output,) = made.outputs
    same(folder, made, ranks, "outputs", output.name, wanted)
    for name, array in alone.state().items():
        same(folder, made, ranks, name, name, array)


def drawn(text: str) -> Arrays:
    """A batch for a spec, of 32 rows."""
    kinds = dict(re.findall(r'(\w): "(\w+)\[batch', text))
    shapes, most = {"x": (32, 6), "y": (32,)}, {"x": 20, "y": 4}
    return {
        name: RNG.integers(0, most[name], shape).astype(np.int32)
        if kinds[name] == "i32"
        else RNG.standard_normal(shape).astype(DType(kinds[name]).numpy)
        for name, shape in shapes.items()
    }


def same(
    folder: Path, made: Manifest, mesh: Mesh, file: str, name: str, wanted: np.ndarray
) -> None:
    """What ranks have kept in files, put together, is as it should be."""
    assert made.ranks is not None
    about, parts = made.ranks.arrays[name], {}
    for rank in range(mesh.ranks):
        if (folder / f"{file}.{rank}").exists():
            block = (folder / f"{file}.{rank}").read_bytes()
            sizes = [-(-n // mesh.parts(a)) for n, a in zip(about.shape, about.axes, strict=True)]
            parts[rank] = np.frombuffer(block, wanted.dtype).reshape(sizes)
    for stage in {mesh.place(rank)["stage"] for rank in parts}:  # each has the whole of it
        own = {rank: part for rank, part in parts.items() if mesh.place(rank)["stage"] == stage}
        whole = np.zeros(about.shape, wanted.dtype)
        for rank, part in sorted(own.items(), reverse=True):
            at = slices(mesh, rank, about.axes, about.shape)
            whole[at] = part[tuple(slice(s.stop - s.start) for s in at)]
        whole = whole.reshape(wanted.shape)
        np.testing.assert_allclose(whole, wanted, rtol=1e-4, atol=1e-5, err_msg=name)
    assert parts, name
