"""What a loss is multiplied by, so that its gradients in f16 are not too small for it."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.spec.schema.training import LossScaleSpec, TrainSpec


@dataclass(frozen=True, slots=True)
class LossScale:
    """The first factor; where it is `dynamic`, what becomes of it as torch.amp.GradScaler has it."""

    initial: float
    dynamic: bool = False
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000


def loss_scale(spec: TrainSpec) -> LossScale | None:
    """What a section says of it; f16 has a dynamic one unless told."""
    given = spec.loss_scale
    if isinstance(given, float | int):
        return LossScale(float(given))
    if given is None and spec.compute != "f16":
        return None
    own = given if isinstance(given, LossScaleSpec) else LossScaleSpec()
    return LossScale(own.init, True, own.growth, own.backoff, own.interval)
