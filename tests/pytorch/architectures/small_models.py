"""Small models of transformers of the types that `architectures.yaml` lists, with seeded weights
and inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers as hf
import yaml
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

LISTED: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("architectures.yaml").read_text("utf-8")
)
NAMES: tuple[str, ...] = tuple(LISTED["models"])


def _tokens(time: int) -> torch.Tensor:
    return torch.randint(3, 200, (2, time))


def _text(time: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(2, time, dtype=torch.long)
    mask[1, time - 3 :] = 0
    return {"input_ids": _tokens(time), "attention_mask": mask}


INPUTS: dict[str, Callable[[], dict[str, torch.Tensor]]] = {
    "text": lambda: _text(12),
    "long": lambda: _text(32),
    "pair": lambda: {**_text(12), "decoder_input_ids": _tokens(7)},
    "image": lambda: {"pixel_values": torch.randn(2, 3, 32, 32)},
    "sound": lambda: {"input_values": torch.randn(2, 800)},
    "spectrogram": lambda: {"input_values": torch.randn(2, 48, 32)},
    "heard": lambda: {"input_features": torch.randn(2, 16, 48), "decoder_input_ids": _tokens(7)},
}


def config_of(name: str, common: dict[str, Any], own: dict[str, Any]) -> Any:
    """A type's usual configuration, with the common numbers that it has, and its own."""
    kind = CONFIG_MAPPING[name]
    usual = kind()
    small = {
        key: value
        for key, value in common.items()
        if not isinstance(getattr(kind, key, None), property)
        and (type(getattr(usual, key, None)) in (int, bool) or key.endswith("_token_id"))
    }
    return kind(**{**small, **own})


class Positional(torch.nn.Module):
    """A model whose tensors come in order, and whose results of floats come back in order."""

    def __init__(self, inner: torch.nn.Module, names: tuple[str, ...], caches: bool) -> None:
        super().__init__()
        self.inner, self.names = inner, names
        self.fixed = {"use_cache": False} if caches else {}

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(self.names, tensors, strict=True))
        return tuple(floats(self.inner(**given, **self.fixed, return_dict=False)))


def floats(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of floats in a result, in order."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from floats(part)


def unsettle(inner: torch.nn.Module) -> torch.nn.Module:
    """Moves parameters and statistics off where a fresh model has them: what begins at 0 or 1 would
    hide errors.
    """
    for parameter in inner.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    for part in inner.modules():
        if isinstance(part, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return inner


def build(name: str) -> tuple[Positional, list[torch.Tensor]]:
    """A model in inference mode, its statistics not those of a fresh one, and its inputs."""
    torch.manual_seed(0)
    entry = LISTED["models"][name]
    config = config_of(name, LISTED["common"], entry.get("config", {}))
    inner = unsettle(hf.AutoModel.from_config(config))
    given = INPUTS[LISTED["models"][name]["inputs"]]()
    if (size := getattr(config, "image_size", 32)) not in (
        32,
        [32, 32],
    ) and "pixel_values" in given:
        given = {"pixel_values": torch.randn(2, 3, size, size)}
    caches = isinstance(getattr(config, "use_cache", None), bool)
    return Positional(inner, tuple(given), caches).eval(), list(given.values())
