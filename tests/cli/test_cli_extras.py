"""A package that is missing, or a file of another kind, is one line that says what to do, at every
door.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from xlac.frontends.loader import READERS, load
from xlac_sdk.source import SourceError

ADD = (
    "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n  %0 = stablehlo.add %x, %x : "
    "tensor<2x3xf32>\n  return %0 : tensor<2x3xf32>\n}\n"
)
SPEC = 'xlac: 1\nmodel: m\ninputs: {x: "f32[2, 3]"}\ngraph: {y: relu(x)}\noutputs: [y]\n'
RUN = """
import contextlib, io, json, sys
for name in sys.argv[1].split(','): sys.modules[name] = None
from xlac.cli import status
import xlac
found = {}
def failed(error): return 2 if isinstance(error, xlac.SourceError) else 70, str(error)
for line in json.loads(sys.argv[2]):
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        code = status(line)
    found[' '.join(line)] = code, told.getvalue()
for name in ('from_torch', 'from_jax'):
    try: getattr(xlac, name)(abs); found[name] = 0, ''
    except Exception as error: found[name] = failed(error)
try: import xlac.integrations.onnx_backend; found['onnx_backend'] = 0, ''
except Exception as error: found['onnx_backend'] = failed(error)
print(json.dumps(found))
"""
NEEDING = {
    "onnx": {
        "check m.onnx",
        "export m.yaml --to onnx -o o.onnx",
        "import m.onnx -o i.yaml",
        "onnx_backend",
    },
    "torch": {"check m.pt2", "import m.pt2 -o j.yaml", "from_torch"},
    "jax,jaxlib": {"from_jax"},
    "PIL": set(),
    "ml_dtypes": {"export m.yaml --to onnx -o o.onnx", "onnx_backend", "from_jax"},
    "all extras": {
        "check m.onnx",
        "export m.yaml --to onnx -o o.onnx",
        "import m.onnx -o i.yaml",
        "onnx_backend",
        "check m.pt2",
        "import m.pt2 -o j.yaml",
        "from_torch",
        "from_jax",
    },
}
"""What needs a package: everything else has to work without it."""


def beyond_the_base() -> list[str]:
    """Every module of this environment that `pip install xlac` and its backends do not bring: also
    those that an extra's packages need, as they are missing along with it.
    """
    waiting = distributions_of_xlac()
    base: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in base:
            base.add(name)
            needs = [Requirement(text) for text in metadata.requires(name) or ()]
            waiting += [n.name for n in needs if not n.marker or n.marker.evaluate({"extra": ""})]
    return [
        module
        for module, owners in metadata.packages_distributions().items()
        if module.isidentifier() and not {canonicalize_name(owner) for owner in owners} & base
    ]


def distributions_of_xlac() -> list[str]:
    """The compiler, the SDK and the backends, as installed."""
    names = {one.name for one in metadata.distributions()}
    return sorted(name for name in names if name == "xlac" or name.startswith(("xlac-", "xlac_")))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    onnx = pytest.importorskip("onnx")
    info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:]
    )
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
        ),
        folder / "m.onnx",
    )
    (folder / "m.mlir").write_text(ADD)
    (folder / "m.yaml").write_text(SPEC)
    (folder / "m.pt2").write_bytes(b"PK\x05\x06" + bytes(18))
    return folder


@pytest.mark.sampled(16)
@pytest.mark.parametrize("package", [package for package in NEEDING if package != "all extras"])
@pytest.mark.long  # the test below misses them all
def test_a_missing_package_is_one_line(package: str, models: Path) -> None:
    one_line_where_missing(package, models)


def test_all_extras_may_be_missing(models: Path) -> None:
    one_line_where_missing("all extras", models)


def one_line_where_missing(package: str, models: Path) -> None:
    """Every door in a process that cannot import the package: one line with the command that
    installs it where the door needs it, and elsewhere no difference.
    """
    lines = [
        "check m.onnx",
        "check m.mlir",
        "check m.pt2",
        "check m.yaml",
        ("run m.yaml --target reference"),
        "import m.onnx -o i.yaml",
        "import m.pt2 -o j.yaml",
        "export m.yaml --to onnx -o o.onnx",
        ("export m.yaml --to stablehlo -o o.mlir"),
        "ops relu",
        "doctor",
    ]
    for made in ("i.yaml", "i.safetensors", "j.yaml", "o.onnx", "o.mlir"):
        (models / made).unlink(missing_ok=True)
    blocked = ",".join(beyond_the_base()) if package == "all extras" else package
    ran = subprocess.run(
        [sys.executable, "-c", RUN, blocked, json.dumps([line.split() for line in lines])],
        cwd=models,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    for line, (code, told) in found.items():
        assert code != 70 and "Traceback" not in told, f"{line}: {told}"
        if line in NEEDING[package]:
            assert (
                code == 2 and "hint: pip install" in told and len(told.strip().splitlines()) <= 2
            ), f"{line}: {told}"
        elif ".pt2" not in line and line not in ("from_torch", "from_jax", "doctor"):
            assert code == 0, f"{line}: {told}"


def kinds() -> dict[str, bytes]:
    """The beginning of files of every kind that somebody may confuse."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return {
        "StableHLO bytecode": b"ML\xefR\x0dStableHLO_v1.0.0\0" + bytes(40),
        "HLO text of XLA": b"HloModule jit_f, entry_computation_layout={()}\n",
        "GGUF": b"GGUF\x03\0\0\0" + bytes(40),
        "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(40),
        "a pickle": b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.",
        "safetensors": struct.pack("<Q", len(header)) + header + bytes(4),
        "a NumPy array": b"\x93NUMPY\x01\0v\0" + bytes(100),
        "a program or library": b"\x7fELF\x02\x01\x01" + bytes(40),
        "TensorFlow Lite": b"\x1c\0\0\0TFL3" + bytes(40),
        "a program of torch.export": b"PK\x03\x04\x14\0\0\0\0\0m/archive_format" + bytes(30),
        "a zip archive": b"PK\x03\x04\x14" + bytes(60),
    }


@pytest.mark.parametrize("suffix", [".yaml", *READERS])
@pytest.mark.parametrize("kind", kinds())
def test_a_file_of_another_kind_is_called_by_its_name(
    kind: str, suffix: str, tmp_path: Path
) -> None:
    """Each kind at each door: its name and what to do, or its own reader's word where it is that
    door's kind.
    """
    file = tmp_path / f"model{suffix}"
    file.write_bytes(kinds()[kind])
    with pytest.raises(SourceError) as told:
        load(file)
    assert all(d.code != "XL9001" for d in told.value.diagnostics)
    at_home = {
        ".mlirbc": ("StableHLO bytecode",),
        ".pt2": ("a program of torch.export", "a zip archive"),
        ".keras": ("a zip archive",),
        ".h5": ("HDF5",),
    }.get(suffix, ())
    assert kind in at_home or kind in str(told.value), str(told.value)


@pytest.mark.parametrize("kind", [k for k in kinds() if k not in ("safetensors", "a NumPy array")])
@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".bin"])
def test_weights_of_another_kind_are_called_by_their_name(
    kind: str, suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / "m.yaml"
    (tmp_path / f"w{suffix}").write_bytes(kinds()[kind])
    file.write_text(
        f'xlac: 1\nmodel: m\nweights: w{suffix}\ninputs: {{x: "f32[2, 3]"}}\ngraph: {{y: {{op: '
        "linear, in: x, units: 2}}\noutputs: [y]\n"
    )
    with pytest.raises(SourceError) as told:
        load(file)
    text = str(told.value)
    assert "claims" not in text and "XL9001" not in text and f"w{suffix}" in text, text
    assert np.any(
        [
            word in text
            for word in (
                kind,
                "not safetensors",
                "not a safetensors",
                "is not",
                "state dict",
                "pickle",
                "zip",
            )
        ]
    ), text
