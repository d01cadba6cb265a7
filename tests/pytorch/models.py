"""Small models of transformers, made from their configuration with seeded random weights, and
inputs for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {}


def model(
    make: Callable[[], tuple[Any, dict[str, Any]]],
) -> Callable[[], tuple[Any, dict[str, Any]]]:
    MODELS[make.__name__] = make
    return make


def tokens(batch: int, time: int) -> torch.Tensor:
    return torch.randint(0, 200, (batch, time))


@model
def bert() -> tuple[Any, dict[str, Any]]:
    config = hf.BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=200,
    )
    mask = torch.ones(2, 17, dtype=torch.long)
    mask[1, 11:] = 0
    return hf.BertModel(config), {"input_ids": tokens(2, 17), "attention_mask": mask}


@model
def gpt2() -> tuple[Any, dict[str, Any]]:
    config = hf.GPT2Config(
        n_embd=64,
        n_layer=2,
        n_head=4,
        vocab_size=200,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    return hf.GPT2LMHeadModel(config), {"input_ids": tokens(2, 13), "use_cache": False}


@model
def llama() -> tuple[Any, dict[str, Any]]:
    config = hf.LlamaConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=96,
        vocab_size=200,
        max_position_embeddings=64,
    )
    return hf.LlamaForCausalLM(config), {"input_ids": tokens(2, 11), "use_cache": False}


@model
def vit() -> tuple[Any, dict[str, Any]]:
    config = hf.ViTConfig(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=96,
        image_size=32,
        patch_size=8,
        num_labels=10,
    )
    return hf.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


@model
def resnet() -> tuple[Any, dict[str, Any]]:
    config = hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1])
    return hf.ResNetModel(config), {"pixel_values": torch.randn(2, 3, 64, 64)}


@model
def whisper() -> tuple[Any, dict[str, Any]]:
    config = hf.WhisperConfig(
        d_model=48,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=96,
        num_mel_bins=16,
        max_source_positions=50,
    )
    return hf.models.whisper.modeling_whisper.WhisperEncoder(config), {
        "input_features": torch.randn(2, 16, 100)
    }


@model
def t5() -> tuple[Any, dict[str, Any]]:
    config = hf.T5Config(
        d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, vocab_size=200, dropout_rate=0.0
    )
    return hf.T5Model(config), {
        "input_ids": tokens(2, 9),
        "decoder_input_ids": tokens(2, 7),
        "use_cache": False,
    }


@model
def mamba() -> tuple[Any, dict[str, Any]]:
    config = hf.MambaConfig(hidden_size=32, state_size=8, num_hidden_layers=2, vocab_size=200)
    return hf.MambaModel(config), {"input_ids": tokens(2, 9), "use_cache": False}


class Positional(torch.nn.Module):
    """A model whose tensors come in order and whose first result comes back."""

    def __init__(self, inner: torch.nn.Module, named: dict[str, Any]) -> None:
        super().__init__()
        self.inner = inner
        self.names = [name for name, value in named.items() if isinstance(value, torch.Tensor)]
        self.fixed = {name: value for name, value in named.items() if name not in self.names}

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(
            **dict(zip(self.names, tensors, strict=True)), **self.fixed
        )[0]
        return found


def build(name: str) -> tuple[Positional, list[torch.Tensor]]:
    """A model in inference mode, its statistics not those of a fresh one, and its inputs."""
    torch.manual_seed(0)
    inner, named = MODELS[name]()
    for part in inner.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return Positional(inner, named).eval(), [
        value for value in named.values() if isinstance(value, torch.Tensor)
    ]


def exact(model: torch.nn.Module, args: list[torch.Tensor]) -> torch.Tensor:
    """What the model gives in float64."""
    with torch.no_grad():
        found = model.double()(*[a.double() if a.is_floating_point() else a for a in args])
        model.float()
    return found


def check(
    ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, slack: float = 1e-6
) -> None:
    """Our error, against float64, is not much larger than PyTorch's own."""
    assert ours.shape == exact.shape and ours.dtype == eager.dtype
    scale = float(exact.abs().max())
    mine, theirs = (float((x.double() - exact).abs().max()) for x in (ours, eager))
    assert mine <= 3 * theirs + slack * scale, (
        f"error {mine:.2e}, PyTorch's own is {theirs:.2e}, results up to {scale:.2e}"
    )
