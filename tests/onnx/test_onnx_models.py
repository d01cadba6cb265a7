"""Whole models beside ONNX Runtime, on seeded random weights: `make test-onnx`, since they take
minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

import xlac

ort = pytest.importorskip("onnxruntime")
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LONG = pytest.mark.timeout(1800)


@pytest.fixture(autouse=True)
def wanted(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all"):
        pytest.skip("make test-onnx")


def runtime(model: bytes | str, inputs: dict[str, Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def compare(model: Any, given: bytes | str, inputs: dict[str, Any]) -> None:
    """The outputs of ours and of the runtime's differ by no more than a thousandth of what is
    largest.
    """
    found = xlac.compile(model)(**inputs)
    outputs = list(found.values()) if isinstance(found, dict) else [found]
    for mine, theirs in zip(outputs, runtime(given, inputs), strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(
            mine, theirs, rtol=1e-3, atol=1e-5 * max(1.0, float(np.abs(theirs).max()))
        )


def seeded(model: ModelProto) -> ModelProto:
    """The model with random weights for its constant ones, and what its last softmax takes as one
    more output.
    """
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    uses: dict[str, list[tuple[str, int]]] = {}
    for node in graph.node:
        for number, name in enumerate(node.input):
            uses.setdefault(name, []).append((node.op_type, number))
    rng, kept, made = np.random.default_rng(len(graph.node)), [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape, used = shapes[node.input[0]].tolist(), uses.get(node.output[0], [])
        if any(
            use
            in (("BatchNormalization", 1), ("BatchNormalization", 4), ("Unsqueeze", 0), ("Mul", 1))
            for use in used
        ):
            drawn = rng.uniform(0.5, 1.5, shape)
        else:
            scale = np.sqrt(2 / max(1, np.prod(shape[1:]))) if len(shape) >= 2 else 0.05
            drawn = rng.standard_normal(shape) * scale
        made.append(numpy_helper.from_array(np.asarray(drawn, np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(made)
    # as this version wants it
    graph.input.extend(helper.make_tensor_value_info(t.name, 1, list(t.dims)) for t in made)
    softmax = [node for node in graph.node if node.op_type == "Softmax"]
    if softmax:
        graph.output.append(
            helper.make_value_info(softmax[-1].input[0], helper.make_tensor_type_proto(1, None))
        )
    return model


@LONG
@pytest.mark.parametrize("file", sorted(LIGHT.glob("*.onnx")), ids=lambda file: file.stem)
def test_light_models(file: Path) -> None:
    model = seeded(onnx.load(file))
    held = {t.name for t in model.graph.initializer}
    (asked,) = [i for i in model.graph.input if i.name not in held]
    shape = [d.dim_value for d in asked.type.tensor_type.shape.dim]
    compare(
        model,
        model.SerializeToString(),
        {asked.name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)},
    )


def transformers(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A small model of the transformers library, and inputs for it."""
    torch, library = pytest.importorskip("torch"), pytest.importorskip("transformers")
    small = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 96,
    }
    words = torch.randint(0, 90, (2, 11))
    match name:
        case "bert":
            return library.BertModel(
                library.BertConfig(**small, vocab_size=100, attn_implementation="eager")
            ), (words,)
        case "gpt2":
            config = library.GPT2Config(
                n_embd=64, n_layer=2, n_head=4, vocab_size=100, use_cache=False
            )
            return library.GPT2LMHeadModel(config), (words,)
        case "llama":
            config = library.LlamaConfig(
                **small, num_key_value_heads=2, vocab_size=100, use_cache=False
            )
            return library.LlamaForCausalLM(config), (words,)
    return library.ViTModel(library.ViTConfig(**small, image_size=32, patch_size=8)), (
        torch.randn(2, 3, 32, 32),
    )


@LONG
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit"])
def test_transformers(name: str, dynamic: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module, inputs = transformers(name)
    open_sizes = (
        {"dynamic_shapes": tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)} if dynamic else {}
    )
    file = tmp_path / "model.onnx"
    with torch.no_grad():
        torch.onnx.export(
            plain(torch, module),
            inputs,
            str(file),
            dynamo=True,
            external_data=True,
            verbose=False,
            **open_sizes,
        )
    names = [i.name for i in onnx.load(file, load_external_data=False).graph.input]
    for batch in (2, 3) if dynamic else (2,):
        arrays = [np.concatenate([i.numpy()] * batch)[:batch] for i in inputs]
        compare(str(file), str(file), dict(zip(names, arrays, strict=True)))


def plain(torch: Any, module: Any) -> Any:
    """A module that gives the first result of another."""

    class Wrapped(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module.eval()

        def forward(self, x: Any) -> Any:
            return self.module(x)[0]

    return Wrapped()


class Feeds:
    """Inputs for the runtime's quantiser, one after another."""

    def __init__(self, inputs: list[dict[str, Any]]) -> None:
        self.rest = iter(inputs)

    def get_next(self) -> dict[str, Any] | None:
        return next(self.rest, None)


@LONG
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_int8(name: str, form: str, tmp_path: Path) -> None:
    """Beside the runtime without its rewrites, which round in other places: what is left is less
    than what 8 bits lose.
    """
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    torch.manual_seed(0)
    module, inputs = transformers(name)
    whole, small = tmp_path / "whole.onnx", tmp_path / "small.onnx"
    with torch.no_grad():
        torch.onnx.export(
            plain(torch, module),
            inputs,
            str(whole),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    names = [i.name for i in onnx.load(whole).graph.input]
    given = dict(zip(names, (i.numpy() for i in inputs), strict=True))
    quantize_static(
        whole,
        small,
        Feeds([given]),
        quant_format=QuantFormat[form],
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=form == "QDQ",
    )
    found = xlac.compile(small)(**given)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (theirs,) = ort.InferenceSession(str(small), options).run(None, given)
    (exact,) = runtime(str(whole), given)
    lost = float(np.abs(theirs - exact).max())
    assert lost > 0
    assert float(np.abs(found - theirs).max()) <= lost / 2
