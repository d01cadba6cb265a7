"""Sizes that each call chooses, through the C API of native code: within bounds they count, beyond
them nothing runs.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from packages import SPECS, build, by_name
from pickled_models import OPEN

import xlac
import xlac_runtime
from xlac.cli import status
from xlac.driver import specialized
from xlac.frontends.loader import load as load_model
from xlac_cpu import BACKEND
from xlac_sdk.dims import symbol, symbols
from xlac_sdk.dtypes import DType
from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.host.capi import Status
from xlac_sdk.host.capi.library import ContextStruct, Library, aligned
from xlac_sdk.host.package import Packaging, ProcessorVariant
from xlac_sdk.kernel_ir.build import Builder, apply, load
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.dimdata import data_of, dim_of
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

BERT = ("--set", "hidden=64", "--set", "heads=4", "--set", "ffn=128")
COUNT = symbol("n", min=4, max=100, opt=8, multiple_of=4)
OFFSET = symbol("k", min=0, max=7)


def doubling() -> Program:
    """y = x + x for x: f32[n]; k is a size that nothing has."""
    n = Var("n", DType.I64)
    x, y = Buffer("x", DType.F32, n), Buffer("y", DType.F32, n, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, n) as i:
        b.store(y, i, apply(Primitive.ADD, load(x, i), load(x, i)))
    kernel = Kernel("double", (x, y), b.body(), (n,))
    given = Slot("x", "x", DType.F32, (COUNT,), Role.INPUT)
    made = Slot("y", "y", DType.F32, (COUNT,), Role.OUTPUT)
    step = Launch(kernel, (Argument(given), Argument(made)), (COUNT,))
    sizes = tuple(one for dim in (COUNT, OFFSET) for one in symbols(dim))
    return Program("doubling", (given,), (made,), (given, made), (step,), {}, sizes=sizes)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("sizes")
    target = BACKEND.target(Request())
    BACKEND.package([ProcessorVariant(doubling(), target)], Packaging(("so", "h", "o")), folder)
    assert "int64_t n; /* 'n': 4 to 100, a multiple of 4 */" in (folder / "doubling.h").read_text()
    return ctypes.CDLL(str(folder / "libdoubling.so"))


@pytest.mark.parametrize(
    ("n", "k", "status"),
    [
        (4, 0, Status.OK),
        (100, 7, Status.OK),
        (64, 3, Status.OK),
        (0, 0, Status.OUT_OF_BOUNDS),
        (104, 0, Status.OUT_OF_BOUNDS),
        (-4, 0, Status.OUT_OF_BOUNDS),
        (6, 0, Status.OUT_OF_BOUNDS),
        (8, 8, Status.OUT_OF_BOUNDS),
        (8, -1, Status.OUT_OF_BOUNDS),
    ],
)
def test_sizes_count_within_their_bounds(
    n: int, k: int, status: Status, library: ctypes.CDLL
) -> None:
    size, init, run = library.doubling_size, library.doubling_init, library.doubling_run
    sizes = (ctypes.c_int64 * 2)(n, k)
    context, memory = ContextStruct(), aligned(64)
    assert (
        init(ctypes.byref(context), ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(64)) == 0
    )
    x = np.arange(104, dtype=np.float32)
    y = np.full(104, -1, np.float32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
    assert run(ctypes.byref(context), sizes, *pointers) == status.number
    wanted = n if status is Status.OK else 0
    assert np.array_equal(y[:wanted], 2 * x[:wanted]) and (y[wanted:] == -1).all()
    assert run(ctypes.byref(context), None, *pointers) == Status.NULL_POINTER.number
    assert size(None) == 0


def test_open_sizes_cross_json() -> None:
    n, k = COUNT, OFFSET
    known = {one.name: one for dim in (n, k) for one in symbols(dim)}
    for dim in (3, n, n * 2 + 1, n * k - 3, (n + 1) // 2, ((n + k) // 3 + 5) // 7 * k, -k):
        again = dim_of(json.loads(json.dumps(data_of(dim))), known)
        assert again == dim and str(again) == str(dim)
    for wrong in (
        "n",
        None,
        1.5,
        True,
        [["n", []]],
        [[1, ["m"]]],
        [[1, [{"of": 3, "by": 0}]]],
        {"of": 1},
    ):
        with pytest.raises(ValueError):
            dim_of(wrong, known)


def test_an_artefact_with_open_sizes_is_called_by_shape(tmp_path: Path) -> None:
    """The manifest keeps the sizes and their bounds; what is out of them is refused before anything
    runs.
    """
    program = doubling()
    package = BACKEND.package(
        [ProcessorVariant(program, BACKEND.target(Request()))], Packaging(("so",)), tmp_path
    )
    told = manifest.Manifest(
        format=2,
        name=program.name,
        target="cpu",
        forms=("so",),
        library=package.library,
        inputs=tuple(map(manifest.TensorFacts.of, program.inputs)),
        outputs=tuple(map(manifest.TensorFacts.of, program.outputs)),
        sizes=tuple(map(manifest.Size.of, program.sizes)),
        memory=manifest.Memory(arena=0, state=0, weights=0, peak=0),
        kernels=1,
        flops=1,
        provenance=manifest.Provenance(
            xlac="0",
            backend="0",
            spec="0" * 64,
            weights="0" * 64,
            options={},
            machines=(BACKEND.target(Request()).machine,),
        ),
        files={package.library: manifest.file_hash(tmp_path / package.library)},
    )
    (tmp_path / manifest.NAME).write_text(told.text())
    again = manifest.read(tmp_path)
    assert again == told and again.artefact(tmp_path).program.inputs[0].shape == (COUNT,)
    broken = json.loads(told.text())
    broken["outputs"][0]["shape"] = [[[1, ["m"]]]]
    broken.pop("sha256")
    broken["sha256"] = manifest_facts.digest(broken)
    (tmp_path / manifest.NAME).write_text(json.dumps(broken))
    with pytest.raises(SourceError, match=r"no size of the model: m \[XL3013"):
        manifest.read(tmp_path)


@pytest.mark.parametrize(
    ("spec", "options", "sizes"),
    [
        ("digits", ["--dim", "batch=1..40"], [(1,), (2,), (7,), (16,), (33,), (40,)]),
        ("lstm_3x60", ["--dim", "T=1..32"], [(1,), (5,), (32,)]),
        (
            "bert_layer",
            ["--dim", "batch=1..3", "--dim", "sequence=1..24", *BERT],
            [(1, 24), (3, 1), (2, 17)],
        ),
    ],
)
@pytest.mark.parametrize("weights", ["embed", "mmap"])
@pytest.mark.sampled(8)
def test_one_artefact_takes_every_size_within_its_bounds(
    spec: str, options: list[str], sizes: list[tuple[int, ...]], weights: str, tmp_path: Path
) -> None:
    model = xlac.load(build(spec, tmp_path / "out", *options, "--weights", weights))
    names = [size.name for size in model.manifest.sizes]
    params = {"hidden": 64, "heads": 4, "ffn": 128} if spec == "bert_layer" else {}
    for values in sizes:
        chosen = dict(zip(names, values, strict=True))
        inputs = {
            s.name: np.random.default_rng(0)
            .standard_normal(s.extents(chosen))
            .astype(s.dtype.numpy)
            for s in model.program.inputs
        }
        ours = by_name(model(**inputs), model.outputs)
        right = xlac.compile(
            specialized(load_model(SPECS / f"{spec}.yaml", dims=chosen, params=params)), "cpu"
        )
        for name, want in by_name(right(**inputs), right.outputs).items():
            np.testing.assert_allclose(
                ours[name], want, rtol=2e-5, atol=2e-5, err_msg=f"{spec} {chosen} {name}"
            )
    wrong = {
        s.name: np.zeros(s.extents(dict.fromkeys(names, 41)), s.dtype.numpy)
        for s in model.program.inputs
    }
    with pytest.raises(SourceError, match="XL6003"):
        model(**wrong)
    assert model.manifest.memory.arena >= 0 and all(
        size.max >= max(column)
        for size, column in zip(model.manifest.sizes, zip(*sizes, strict=True), strict=True)
    )


@pytest.mark.parametrize("static", [[], ["--static"]])
@pytest.mark.sampled(4)
def test_a_program_takes_its_sizes_from_its_files(static: list[str], tmp_path: Path) -> None:
    folder = build("digits", tmp_path / "out", "--dim", "batch=1..12", "--emit", "exe", *static)
    for batch in (1, 7, 12, 13):
        x = np.random.default_rng(batch).standard_normal((batch, 64)).astype(np.float32)
        np.save(tmp_path / "x.npy", x)
        command = [str(folder / "digits"), f"image={tmp_path}/x.npy", f"probs={tmp_path}/y.npy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if batch == 13:
            assert done.returncode == 1 and "its shape is (13, 64)" in done.stderr
            continue
        assert done.returncode == 0, done.stderr
        right = xlac.compile(SPECS / "digits.yaml", dims={"batch": batch})(x)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), right, rtol=2e-5, atol=1e-6)


def test_the_command_runs_an_artefact_at_any_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build("digits", tmp_path / "out", "--dim", "batch=1..8")
    assert status(["run", str(folder), "--input", "image=3x64xf32=0.5"]) == 0
    assert "probs: float32[3, 10]" in capsys.readouterr().out
    assert status(["run", str(folder)]) == 0
    assert status(["run", str(folder), "--input", "image=9x64xf32=0.5"]) == 2
    assert "XL6003" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_in_c_a_state_of_open_sizes_has_one_size_until_it_is_reset(
    target: str, tmp_path: Path
) -> None:
    """Whoever calls the functions has no other check than theirs."""
    if target == "c" and shutil.which("cc") is None:
        pytest.skip("needs cc")
    (tmp_path / "m.yaml").write_text(OPEN, "utf-8")
    asked = ["build", str(tmp_path / "m.yaml"), "--dim", "n", "--emit", "so,h,hpp,rs"]
    folder = tmp_path / "out"
    assert status([*asked, "--target", target, "-o", str(folder)]) == 0
    library = Library(next(folder.glob("*open.so")), xlac.load(folder).program)

    def total(rows: int) -> float:
        """An element of what has been seen, each call seeing ones."""
        outputs = {"total": np.zeros((rows, 3), np.float32)}
        library.run({"x": np.ones((rows, 3), np.float32)}, outputs)
        assert (outputs["total"] == outputs["total"][0, 0]).all()
        return float(outputs["total"][0, 0])

    assert [total(2), total(2)] == [1, 2]
    with pytest.raises(SourceError, match="the state holds values of a run of other sizes"):
        total(3)
    assert total(2) == 3, "the call that was refused changed nothing"
    library.reset()
    assert [total(3), total(3)] == [1, 2]
    library.write_state(np.zeros(library.program.state_bytes, np.uint8))
    assert total(9) == 1, "a state that was written may be of any sizes"


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_state_of_open_sizes_has_one_size_until_it_is_reset(target: str, tmp_path: Path) -> None:
    """Its elements are elsewhere in a state of another size."""
    (tmp_path / "m.yaml").write_text(OPEN, "utf-8")
    folder = tmp_path / "out"
    asked = ["build", str(tmp_path / "m.yaml"), "--target", target, "--dim", "n", "-o", str(folder)]
    assert status(asked) == 0
    two, three = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)
    for model in (xlac.load(folder), xlac_runtime.load(folder)):
        model(two)
        with pytest.raises(SourceError, match="state 'seen' was made with n=2, and this call has"):
            model(three)
        np.testing.assert_array_equal(model(two), 2 * two)
        model.reset()
        np.testing.assert_array_equal(model(three), three)
    if target == "cpu":
        assert "one with another returns OTHER_SIZES" in (folder / "open.h").read_text("utf-8")
    facts = json.loads((folder / manifest.NAME).read_text("utf-8"))
    assert (facts["format"], facts["state_sizes"]) == (5, {"n": "seen"})
    for change in ({"format": 4}, {"state_sizes": {"m": "seen"}}):
        other = {name: fact for name, fact in (facts | change).items() if name != "sha256"}
        text = json.dumps(other | {"sha256": manifest.digest(other)})
        (folder / manifest.NAME).write_text(text, "utf-8")
        with pytest.raises(SourceError, match="state_sizes"):
            xlac.load(folder)
