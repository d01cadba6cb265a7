"""Whole models as PyTorch has them: by their names in models.yaml, seeded; runs where PyTorch and
transformers are installed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

LISTED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("models.yaml").read_text("utf-8"))
ROOT = Path(__file__).resolve().parents[3]


def inputs_of(name: str) -> dict[str, torch.Tensor]:
    """A model's inputs in order, drawn from a seed: f32, or whole numbers below their bound."""
    draw = torch.Generator().manual_seed(1)
    given = {}
    for key, (shape, *below) in LISTED["models"][name]["inputs"].items():
        if below:
            given[key] = torch.randint(3, below[0], shape, generator=draw)
        else:
            given[key] = torch.randn(shape, generator=draw)
    return given


def build(name: str) -> tuple[nn.Module, list[torch.Tensor]]:
    """A model in inference mode with seeded weights and statistics, and its inputs."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    if not _HELD:
        _importable_vision()
    from tests.pytorch.architectures.small_models import unsettle

    entry, given = LISTED["models"][name], inputs_of(name)
    torch.manual_seed(0)
    if "module" in entry:
        model = _own(entry["module"])
    elif "vision" in entry:
        model = _vision(entry["vision"], entry.get("config", {}))
    else:
        model = _transformer(entry, tuple(given))
    return unsettle(model).eval(), list(given.values())


def _own(name: str) -> nn.Module:
    from suite.making import layers, modules

    made: nn.Module = getattr(modules, name, None) or getattr(layers, name)
    return made()  # type: ignore[no-any-return]


def _transformer(entry: Mapping[str, Any], names: tuple[str, ...]) -> nn.Module:
    import transformers as hf

    from tests.pytorch.architectures.small_models import Positional, config_of

    config = config_of(entry["type"], LISTED["common"], entry.get("config", {}))
    caches = isinstance(getattr(config, "use_cache", None), bool)
    return Positional(hf.AutoModel.from_config(config), names, caches)


def _vision(name: str, config: Mapping[str, Any]) -> nn.Module:
    import torchvision

    made: nn.Module = getattr(torchvision.models, name)(weights=None, **config)
    return made


def _importable_vision() -> None:
    """Lets torchvision be imported where it was built for another PyTorch, whose operators of its
    own then fail; no model here has any, but transformers imports it too.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        held = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            held.define(f"{operator}(Tensor dets, Tensor scores, float limit) -> Tensor")
        _HELD.append(held)


_HELD: list[Any] = []  # libraries of operators live as long as this
