"""C that calls MPI, of `xlac build --target c --mesh`: `make test-mpi`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_ranks import Arrays, built, compiled, give, program, ranks_give, started
from mpirun import ROOT, alone
from test_mpi_run import BIG

from xlac.artefact import writer
from xlac.driver import lower
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.ranks import interpret_ranks
from xlac.model import MeshSection, Model
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.host.manifest import read
from xlac_sdk.host.package import Packaging
from xlac_sdk.host.ranks.parts import DividedArray, RankParts
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

MESH = (("data", 2), ("model", 2))
RNG = np.random.default_rng(8)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "big.yaml"
    path.write_text(BIG, "utf-8")
    return path


def agree(spec: Path, found: Arrays, inputs: Arrays, folder: Path, *options: str) -> None:
    """Results are those of one process."""
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
    given = [f"--input={name}=@{folder / name}.npy" for name in inputs]
    np.savez(folder / "found.npz", **found)
    compared = alone("run", spec, *options, *given, "--expect", f"@{folder / 'found.npz'}")
    assert compared.returncode == 0, compared.stdout + compared.stderr


@pytest.mark.parametrize("mesh", ["data=1", "data=2,model=1", "data=2"])
@pytest.mark.parametrize("weights", ["embed", "file", "mmap"])
def test_parts_of_ranks_are_the_whole(spec: Path, tmp_path: Path, mesh: str, weights: str) -> None:
    made = built(spec, tmp_path / "c", "--dim=batch=3", "--mesh", mesh, "--weights", weights)
    inputs = {"x": RNG.standard_normal((3, 32), np.float32)}
    found = ranks_give(tmp_path / "c", made, inputs)
    agree(spec, found, inputs, tmp_path, "--dim=batch=3")


def test_shipped_specs(tmp_path: Path) -> None:
    sizes = {"bert_layer": ["--dim=batch=2", "--dim=sequence=8"], "digits": ["--dim=batch=4"]}
    for name, dims in sizes.items():
        folder = tmp_path / name
        made = built(
            ROOT / "specs" / f"{name}.yaml", folder, *dims, "--mesh=data=2", "--weights=mmap"
        )
        inputs: dict[str, np.ndarray] = {}
        assert made.ranks is not None
        for tensor in made.inputs:
            shape = made.ranks.arrays[tensor.name].shape
            inputs[tensor.name] = RNG.random(shape, np.float32).astype(tensor.dtype.numpy)
        agree(
            ROOT / "specs" / f"{name}.yaml", ranks_give(folder, made, inputs), inputs, folder, *dims
        )


def test_a_state_is_kept_in_parts(tmp_path: Path) -> None:
    """Sums of three calls, of which each rank keeps its rows."""
    file = tmp_path / "sums.yaml"
    file.write_text(
        "xlac: 1\nmodel: sums\ninputs: {x: 'f32[4, 3]'}\nstate: {s: {type: 'f32[4, 3]', next: t}}\n"
        "graph: {t: s + x, y: sum(t, axis=1)}\noutputs: [y]\n"
    )
    made = built(file, tmp_path / "c", "--mesh", "data=2")
    x = RNG.standard_normal((4, 3), np.float32)
    found = ranks_give(tmp_path / "c", made, {"x": x}, calls=3)
    np.testing.assert_allclose(found["y"], 3 * x.sum(axis=1), rtol=1e-5)


def over(mnemonic: str, *inputs: Node, axes: tuple[str, ...], **about: object) -> Node:
    return apply(mnemonic, *inputs, mesh=MESH, axes=axes, **about)


def every_pair() -> np.ndarray:
    """Numbers of four ranks, of which two have every pair of special ones."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0]
    pairs = np.array([(a, b) for a in special for b in special]).T
    others = np.stack([pairs[0], pairs[1]])
    return np.stack([others, np.stack([pairs[1], pairs[1]])])


def test_every_collective(tmp_path: Path) -> None:
    """Each kind, along one axis and two, of types that are moved and of those that are combined."""
    x = build.param("x", DType.F32, (4, 6))
    i = build.param("i", DType.I32, (4,))
    n = build.param("n", DType.F64, (36,))
    h = build.cast(x, DType.BF16)
    both = ("data", "model")
    outputs = {
        "sums": over("all_reduce", x, axes=("model",)),
        "most": over("all_reduce", i, axes=both, combine="max"),
        "largest": over("all_reduce", n, axes=both, combine="max"),
        "least": over("all_reduce", n, axes=both, combine="min"),
        "product": over("all_reduce", i, axes=("data",), combine="mul"),
        "scattered": over("reduce_scatter", x, axes=("data",), axis=0),
        "gathered": over("all_gather", i, axes=both, axis=0),
        "columns": over("all_gather", x, axes=("model",), axis=1),
        "turned": over("all_to_all", x, axes=("model",), split=1, concat=0),
        "moved": over("collective_permute", i, axes=both, pairs=((0, 1), (1, 3))),
        "sent": over("collective_broadcast", x, axes=("data",), root=1),
        "number": over("axis_index", axes=("model",)),
        "halves": build.cast(over("all_reduce", h, axes=("data",)), DType.F32),
        "bits": build.cast(over("all_gather", h, axes=("data",), axis=0), DType.F32),
    }
    graph = Graph("every", (x, i, n), outputs)
    given = {
        "x": RNG.standard_normal((2, 2, 4, 6), np.float32),
        "n": every_pair(),
        "i": RNG.integers(-9, 9, (2, 2, 4), np.int32),
    }
    backend = find("c")
    model = Model(graph, {}, ranks=MeshSection(dict(MESH), rank=0))
    lowered = lower(model, backend.target(Request()))
    # the "whole" arrays have the ranks first, each with its own
    arrays = {
        name: DividedArray((4 * shape[0], *shape[1:]), (both, *((),) * (len(shape) - 1)))
        for name, shape in ((s.name, s.shape) for s in lowered.program.inputs)
    }
    parts = RankParts((lowered.program,), (0, 0, 0, 0), arrays)
    file = tmp_path / "every.yaml"
    file.write_text("")
    folder = tmp_path / "c"
    source = writer.BuildSource.of(model, file, {})
    writer.write([lowered], backend, folder, Packaging(("c", "h")), source, ranks=parts)
    made = read(folder)
    whole = {name: array.reshape(-1, *array.shape[3:]) for name, array in given.items()}
    give(folder, made, whole)
    ran = started(program(folder, made), 4)
    assert ran.returncode == 0, ran.stderr
    wanted = interpret_ranks(graph, MESH, given)
    for tensor in made.outputs:
        for rank in range(4):
            block = (folder / f"{tensor.name}.{rank}").read_bytes()
            own = np.frombuffer(block, tensor.dtype.numpy).reshape(tensor.shape)
            want = wanted[tensor.name][rank // 2, rank % 2]
            np.testing.assert_allclose(own, want, rtol=1e-6, err_msg=f"{tensor.name} on {rank}")
            if tensor.name in ("largest", "least"):
                negative = (np.signbit(a[~np.isnan(want)]) for a in (own, want))
                np.testing.assert_array_equal(*negative)


def test_a_rank_that_does_not_come(spec: Path, tmp_path: Path) -> None:
    """The others name the collective in which they waited, after the time that they were given."""
    made = built(spec, tmp_path / "c", "--dim=batch=2", "--mesh", "data=2")
    give(tmp_path / "c", made, {"x": np.zeros((2, 32), np.float32)})
    late = (
        "big_limit(&context, 0.5); if (rank == 3) { status = BIG_STOPPED; break; } "
        "/* it does not call */"
    )
    ran = started(program(tmp_path / "c", made, between=late), 4)
    assert ran.returncode != 0
    assert (
        "rank 2: other ranks did not come to a collective in time [18], in l.0.down" in ran.stderr
    )


def test_what_one_rank_refuses_all_refuse(spec: Path, tmp_path: Path) -> None:
    made = built(spec, tmp_path / "c", "--dim=batch=2", "--mesh", "data=2")
    give(tmp_path / "c", made, {"x": np.zeros((2, 32), np.float32)})
    ran = started(program(tmp_path / "c", made, before="if (rank == 1) memory = NULL;"), 4)
    for rank in range(4):
        assert f"rank {rank}: a pointer is null [1]" in ran.stderr


def test_as_many_ranks_as_the_mesh_has(spec: Path, tmp_path: Path) -> None:
    made = built(spec, tmp_path / "c", "--dim=batch=2", "--mesh", "data=2")
    ran = started(program(tmp_path / "c", made), 2)
    assert "rank 0: the communicator has another number of ranks than the mesh [15]" in ran.stderr


def test_weights_of_another_rank(spec: Path, tmp_path: Path) -> None:
    made = built(spec, tmp_path / "c", "--dim=batch=2", "--mesh", "data=2", "--weights", "file")
    folder = tmp_path / "c"
    give(folder, made, {"x": np.zeros((2, 32), np.float32)})
    (folder / "weights.1").unlink()
    (folder / "weights.1").symlink_to(folder / "big.0.weights")
    ran = started(program(folder, made), 4)
    assert "the weights are not those that the model was built with [6]" in ran.stderr


def test_a_rank_that_never_comes_to_init(spec: Path, tmp_path: Path) -> None:
    """The others end their wait in the time that is stated."""
    made = built(spec, tmp_path / "c", "--dim=batch=2", "--mesh", "data=2")
    give(tmp_path / "c", made, {"x": np.zeros((2, 32), np.float32)})
    late = (
        "const double now = MPI_Wtime();\n    while (rank == 1) if (MPI_Wtime() - now > 8) exit(3);"
    )
    ran = started(program(tmp_path / "c", made, late, flags=["-DBIG_INIT_SECONDS=2"]), 4)
    assert "other ranks did not come to a collective in time [18]" in ran.stderr


def test_a_run_is_stopped_on_all_ranks(spec: Path, tmp_path: Path) -> None:
    """A rank that waits for one that was stopped sees its own stop."""
    made = built(spec, tmp_path / "c", "--dim=batch=2", "--mesh", "data=2")
    give(tmp_path / "c", made, {"x": np.zeros((2, 32), np.float32)})
    stop = "big_limit(&context, 60); big_stop(&context);"
    ran = started(program(tmp_path / "c", made, between=stop), 4)
    assert ran.stderr.count("the run was stopped [10]") == 4


def test_the_program_of_the_documentation(tmp_path: Path) -> None:
    """The spec and the C program of docs/DISTRIBUTED.md, as it says to build them."""
    text = (ROOT / "docs" / "DISTRIBUTED.md").read_text("utf-8")
    main = text.split("```c\n")[1].split("```")[0]
    spec = next(p for p in text.split("```yaml\n")[1:] if "model: big" in p).split("```")[0]
    (tmp_path / "big.yaml").write_text(spec, "utf-8")
    folder = tmp_path / "c"
    built(tmp_path / "big.yaml", folder, "--dim=batch=8", "--mesh", "data=2,model=2")
    (folder / "main.c").write_text(main, "utf-8")
    ran = started(compiled(folder, "big"), 4)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
