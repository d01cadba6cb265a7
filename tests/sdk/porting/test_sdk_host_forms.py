"""Artefacts of a port that a stranger could have written: checks and training steps, from C and
C++, from Rust, by CMake and from Python.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from host_programs import Opened
from small_training import TRAINED

import xlac
from xlac.cli import status
from xlac_sdk.host.capi.library import Library
from xlac_sdk.source import SourceError

ROOT = Path(__file__).parents[3]
CHECKED = """
xlac: 1
model: rows
weights: {init: {seed: 0}}
dims: {n: {min: 1, max: 8, opt: 3}}
inputs: {ids: "i32[n]", x: "f32[n]"}
state: {calls: {type: "i32[]", next: calls + 1}}
graph: {e: {op: embedding, in: ids, count: 10, dim: 4}}
outputs: {r: sqrt(x), calls: calls + 1}
"""
WARNINGS = ("-pedantic", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(autouse=True)
def slate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target `slate` is installed, as an entry point of a distribution."""
    if shutil.which("cc") is None:
        pytest.skip("the system's C compiler")
    known = tmp_path / "installed" / "slate-1.dist-info"
    known.mkdir(parents=True)
    (known / "entry_points.txt").write_text("[xlac.backends]\nslate = hosted_slate:BACKEND\n")
    monkeypatch.syspath_prepend(str(known.parent))


def built(spec: Path | str, folder: Path, *options: str) -> Path:
    """An artefact for the slate, of a shipped spec or of a text."""
    file = spec if isinstance(spec, Path) else folder / "spec.yaml"
    if isinstance(spec, str):
        file.write_text(spec)
    command = ["build", str(file), "-t", "slate", "-o", str(folder / "made"), *options]
    assert status(command) == 0
    return folder / "made"


def test_a_check_that_fails_is_told_from_c_and_from_python(tmp_path: Path) -> None:
    folder = built(CHECKED, tmp_path, "--checked", "--emit", "so", "--dim", "n")
    rows, model = Opened(folder, "rows"), xlac.load(folder)
    failure = rows.library["rows_failure"]
    failure.restype = ctypes.c_char_p
    ids, x = np.asarray([1, 2, 3], np.int32), np.asarray([1, 4, 9], np.float32)
    r, calls = np.zeros(3, np.float32), np.zeros((), np.int32)
    position, value = ctypes.c_int64(-7), ctypes.c_int64(-7)
    told = ctypes.byref(position), ctypes.byref(value)
    assert rows.call("run", ids, x, r, calls) == 0 and failure(rows.context, *told) is None
    assert (r == [1, 2, 3]).all() and position.value == -7
    assert (model(ids, x)["r"] == r).all()
    x[1] = -4
    assert rows.call("run", ids, x, r, calls) == 9
    text = failure(rows.context, *told)
    assert b"NaN appears in the result of sqrt" in text and position.value == 1
    with pytest.raises(SourceError, match=r"result of sqrt.*element 1.*XL6022"):
        model(ids, x)
    x[1] = 4
    assert rows.call("run", ids, x, r, calls) == 0 and failure(rows.context, *told) is None
    assert calls == 3 == model(ids, x)["calls"]  # the state is that of runs without checks
    rows("close", rows.context)


def test_one_c_file_has_both_programs(tmp_path: Path) -> None:
    """With checks where it is compiled so; weights that both read are in it once."""
    spec = CHECKED.replace("outputs: {", "outputs: {e: e, ")
    folder = built(spec, tmp_path, "--checked", "--emit", "c,h", "--dim", "n")
    text = (folder / "rows.c").read_text()
    assert text.count("static const float constant_") == 1
    ids, x = np.asarray([1, 2, 3], np.int32), np.asarray([1, 4, -9], np.float32)
    wanted = []
    for kind, answer in (("CHECKED", 9), ("PLAIN", 0)):
        (folder / kind).mkdir()
        shared = ("-std=c99", "-fPIC", "-shared", f"-DROWS_{kind}", "rows.c", "-ldl")
        run("cc", *WARNINGS[1:], "-Wno-type-limits", *shared, "-o", f"{kind}/rows.so", cwd=folder)
        rows = Opened(folder / kind, "rows")
        e, r, calls = np.zeros((3, 4), np.float32), np.zeros(3, np.float32), np.zeros((), np.int32)
        assert rows.call("run", ids, x, e, r, calls) == answer
        failure = rows.library["rows_failure"]
        failure.restype = ctypes.c_char_p
        assert (failure(rows.context, None, None) is None) == (answer == 0)
        assert np.isnan(r[2]) and calls == 1
        wanted.append(e)
        rows("close", rows.context)
    np.testing.assert_array_equal(*wanted)


def test_a_step_learns_from_c_and_from_python(tmp_path: Path) -> None:
    folder = built(TRAINED, tmp_path, "--emit", "so", "--dim", "batch=1..8")
    small, model = Opened(folder, "small"), xlac.load(folder)
    trainer = xlac.trainer(tmp_path / "spec.yaml", target="reference")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((3, n)).astype(np.float32) for n in (3, 2))
    loss = np.zeros((), np.float32)
    assert small.call("step", x, y, loss) == 12  # the length of the run is not set
    with pytest.raises(SourceError, match="XL6030"):
        model.entries["step"](x, y)
    length = small.library["small_set_length"]
    assert length(small.context, ctypes.c_double(-1)) == 14
    assert length(small.context, ctypes.c_double(5)) == 0
    trainer.set_length(5)
    model.state.set_number("length", 5)
    for _ in range(3):
        wanted = trainer.step(x=x, y=y)["loss"]
        assert small.call("step", x, y, loss) == 0
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)
        assert model.entries["step"](x, y)["loss"] == loss
    weight = list(model.state.names).index("z.weight")
    found = np.zeros_like(model.state["z.weight"])
    assert small("get", small.context, weight, ctypes.c_void_p(found.ctypes.data)) == 0
    np.testing.assert_array_equal(found, model.state["z.weight"])
    np.testing.assert_allclose(found, trainer.state()["z.weight"], rtol=1e-5, atol=1e-7)
    assert small.call("step", x * np.float32("nan"), y, loss) == 11
    with pytest.raises(SourceError, match="XL6031"):
        model.entries["step"](x * np.float32("nan"), y)
    again = found + 1
    assert small("get", small.context, weight, ctypes.c_void_p(again.ctypes.data)) == 0
    np.testing.assert_array_equal(again, found)  # nothing was learned from that batch
    assert small("get", small.context, 99, ctypes.c_void_p(again.ctypes.data)) == 13
    assert small("reset", small.context) == 0
    model.reset()
    assert small.call("evaluate", x, y, loss) == 0
    np.testing.assert_array_equal(loss, model.entries["evaluate"](x, y)["loss"])
    small("close", small.context)


@pytest.mark.parametrize("weights", ["embed", "file", "mmap"])
def test_a_program_reads_and_writes_files(tmp_path: Path, weights: str) -> None:
    forms = ("--emit", "main,exe", "--dim", "n", "--checked", "--weights", weights)
    folder = built(CHECKED.replace("outputs: {", "outputs: {e: e, "), tmp_path, *forms)

    def told(*arguments: str) -> tuple[int, str]:
        command = ["./rows", *arguments]
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        return done.returncode, done.stderr

    np.save(folder / "ids.npy", np.asarray([1, 2, 3], np.int32))
    np.save(folder / "x.npy", np.asarray([1, 4, 9], np.float32))
    given = ("ids=ids.npy", "x=x.npy")
    assert told(*given, "--device", "0", "r=r.npy") == (0, "")
    wanted = xlac.load(folder)(*(np.load(folder / f"{name}.npy") for name in ("ids", "x")))
    np.testing.assert_array_equal(np.load(folder / "e.npy"), wanted["e"])
    np.testing.assert_array_equal(np.load(folder / "r.npy"), [1, 2, 3])
    assert np.load(folder / "calls.npy") == 1
    np.save(folder / "x.npy", np.asarray([1, 4, -9], np.float32))
    code, said = told(*given)
    assert code == 1 and "NaN appears in the result of sqrt" in said and "at element 2" in said
    code, said = told(*given, "--device", "7")
    assert code == 1 and "the device or its driver failed" in said and "there is one slate" in said
    for wrong in ("", "one", "1x"):
        code, said = told(*given, "--device", wrong)
        assert code == 2 and f"no device is meant by {wrong}" in said and "[--device N]" in said
    if weights != "embed":
        (folder / "program.weights").rename(folder / "moved")
        assert told(*given)[0] == 1
        assert "No such file" in told(*given, "--weights", "absent")[1]
        assert "at element 2" in told(*given, "--weights", "moved")[1]
    main = ("-std=c99", *WARNINGS, "-c", "rows_main.c", "-o", "main.o")
    run("cc", *main, cwd=folder)


def run(*command: object, cwd: Path) -> str:
    """What a command prints."""
    if shutil.which(str(command[0])) is None and not (cwd / str(command[0])).is_file():
        pytest.skip(f"no {command[0]}")
    given = [str(part) for part in command]
    done = subprocess.run(given, cwd=cwd, check=False, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("weights", ["embed", "file"])
def test_the_example_in_cpp_learns_on_the_device(tmp_path: Path, weights: str) -> None:
    forms = ("--emit", "hpp,so", "--dim", "batch=16", "--weights", weights)
    folder = built(ROOT / "specs" / "digits_train.yaml", tmp_path, *forms)
    text = (ROOT / "examples" / "cpp" / "train.cpp").read_text()
    if weights == "file":
        assert text.count("digits_train::Model ") == 2
        for name in ("model", "other"):
            text = text.replace(f"Model {name};", f"Model {name}(weights);")
        text = text.replace(
            "    Batch batch;\n",
            '    std::ifstream file("program.weights", std::ios::binary);\n'
            "    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});\n"
            "    std::vector<unsigned char> weights(bytes.begin(), bytes.end());\n"
            "    Batch batch;\n",
            1,
        ).replace("#include <cstdio>", "#include <cstdio>\n#include <fstream>")
    (folder / "train.cpp").write_text(text)
    linked = ("-std=c++17", *WARNINGS, "train.cpp", "./digits_train.so", "-o", "train")
    run("g++", *linked, cwd=folder)
    first, *_, refused, last = run("./train", cwd=folder).splitlines()
    assert float(first.split("loss ")[1]) > 2 and "100 % right" in last
    assert refused == "refused: the tensor has another number of elements"


@pytest.mark.long
def test_what_the_driver_says_reaches_cpp(tmp_path: Path) -> None:
    folder = built(TRAINED, tmp_path, "--emit", "hpp,so")
    (folder / "main.cpp").write_text(
        '#include "small.hpp"\n#include <iostream>\nint main()\n{\n    try {\n'
        "        small::Model model(1);\n    } catch (const small::Error &error) {\n"
        "        std::cout << error.status() << error.what();\n    }\n}\n"
    )
    run("g++", "-std=c++17", *WARNINGS, "main.cpp", "./small.so", "-o", "main", cwd=folder)
    said = "16the device or its driver failed: there is one slate"
    assert run("./main", cwd=folder) == said


@pytest.mark.long
def test_cmake_links_what_the_driver_needs(tmp_path: Path) -> None:
    folder = built(TRAINED, tmp_path, "--emit", "cmake")
    (folder / "main.c").write_text(
        '#include "small.h"\nint main(void)\n{\n    small_context *context;\n'
        "    return small_open(&context, 0);\n}\n"
    )
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(main C)\n"
        "find_package(small REQUIRED CONFIG)\nadd_executable(main main.c)\n"
        "target_link_libraries(main PRIVATE small::small)\n"
    )
    run("cmake", "-S", ".", "-B", "made", f"-Dsmall_DIR={folder}", cwd=folder)
    run("cmake", "--build", "made", cwd=folder)
    run("made/main", cwd=folder)


@pytest.mark.long
def test_rust_declares_the_functions(tmp_path: Path) -> None:
    folder = built(TRAINED, tmp_path, "--emit", "rs,so", "--dim", "batch=2")
    (folder / "main.rs").write_text(
        "mod small;\nfn main() {\n    let mut context = std::ptr::null_mut();\n"
        "    let (x, y) = ([1f32; small::X_COUNT], [0f32; small::Y_COUNT]);\n"
        "    let mut loss = 0f32;\n    unsafe {\n"
        "        assert_eq!(small::open(&mut context, 0), small::OK);\n"
        "        let mut step = || small::step(context, x.as_ptr(), y.as_ptr(), &mut loss);\n"
        "        assert_eq!(step(), small::NO_LENGTH);\n"
        "        assert_eq!(small::set_length(context, 5.0), small::OK);\n"
        "        assert_eq!(step(), small::OK);\n        small::close(context);\n    }\n"
        '    print!("{}", loss > 0.0);\n}\n'
    )
    linked = ("-D", "warnings", "main.rs", "-C", f"link-arg={folder / 'small.so'}")
    run("rustc", "--edition", "2024", *linked, cwd=folder)
    assert run("./main", cwd=folder) == "true"


@pytest.mark.long
def test_a_shared_library_of_a_device_is_no_library_of_the_processor(tmp_path: Path) -> None:
    """Another interface, which is refused by name where it is loaded as the usual one."""
    folder = built(TRAINED, tmp_path, "--emit", "so", "--dim", "batch=2")
    program = xlac.load(folder).entries["step"].program
    with pytest.raises(SourceError, match="XL5024"):
        Library(folder / "small.so", program)
    assert (folder / "small.h").is_file()  # what the others are built from
