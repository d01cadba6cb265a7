"""Loss scaling: a factor of the loss that keeps gradients in f16 from underflowing."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.spec.schema.training import LossScaleSpec, TrainSpec


@dataclass(frozen=True, slots=True)
class LossScale:
    """The initial factor; if `dynamic`, the parameters by which it changes, as in
    torch.amp.GradScaler.
    """

    initial: float
    dynamic: bool = False
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000


def loss_scale(spec: TrainSpec) -> LossScale | None:
    """Reads `loss_scale`. By default f16 has a dynamic one, other types none."""
    given = spec.loss_scale
    if isinstance(given, float | int):
        return LossScale(float(given))
    if given is None and spec.compute != "f16":
        return None
    own = given if isinstance(given, LossScaleSpec) else LossScaleSpec()
    return LossScale(own.init, True, own.growth, own.backoff, own.interval)
