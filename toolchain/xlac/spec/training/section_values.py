"""The losses and metrics of the section `train`: its expressions as nodes of the model's graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlac.ir.dims import Symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, Poisoned
from xlac.spec.schema.training import ClipSpec, MeanSpec, TrainSpec
from xlac.spec.training.counts import BatchMean, batch_mean, check_count, check_finite
from xlac.spec.training.objective import Objective, Values, check_names
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


@dataclass
class SectionReader:
    """Elaborates the losses and metrics of a section."""

    context: Elaboration
    scope: Scope
    place: Place
    symbols: Mapping[str, Symbol]
    batch: str

    def values(
        self, spec: TrainSpec, asked: Sequence[tuple[str, Place, Any]], outputs: Mapping[str, Node]
    ) -> Values:
        """The losses and metrics; mistakes go to the report, and give None for that one."""
        losses = [
            self.mean(one.loss, name or "loss", at.at("loss")) if one.loss is not None else None
            for name, at, one in asked
        ]
        metrics = {
            name: self.mean(text, name, self.place.at("metrics", name))
            for name, text in spec.metrics.items()
        }
        check_names(spec, self.place, self.context.report)
        return Values(outputs, losses, metrics)

    def mean(self, text: Any, name: str, at: Place) -> BatchMean | None:
        """The mean given by an expression, or by `sum` and `count`; mistakes go to the report."""
        try:
            if isinstance(text, MeanSpec):
                total, number = (
                    self._scalar(part, f"{name}.{key}", at.at(key))
                    for key, part in (("sum", text.sum), ("count", text.count))
                )
                check_count(number, at.at("count"))
                return BatchMean(build.div(total, build.cast(number, total.type.dtype)), number)
            value = self._scalar(text, name, at)
            check_finite(value, at)
            mean = batch_mean(value, self.scope.constants.dims.get(self.batch, 1))
            self.context.stamp(mean.nodes(), Origin(f"train.{name}", at.span))
            return mean
        except Fault as fault:
            self.context.report.fault(fault)
        except Poisoned:
            pass
        return None

    def _scalar(self, text: Any, name: str, at: Place) -> Node:
        path = f"train.{name}"
        value = as_node(
            self.context, expression(self.context, self.scope, text, path, at), text, path, at
        )
        if value.shape:
            what = "the loss" if at.path[-1] == "loss" else repr(name)
            raise Fault(
                "XL2009",
                f"{what} is {value.type}, and must be a scalar",
                at.span,
                "mean(…) makes one",
            )
        if not value.type.dtype.is_float and not name.endswith("count"):
            scalar = build.cast(value, DType.F32)
            self.context.stamp([scalar], Origin(path, at.span))
            return scalar
        return value


def learnable(context: Elaboration, measured: Collection[Node]) -> dict[str, Node]:
    """The weights that may learn: floats that no operation measures, by name."""
    return {
        name: node
        for name, node in context.weights.items()
        if node.type.dtype.is_float and node not in measured
    }


def objectives_of(asked: Sequence[Any], values: Values, learns: Sequence[Any]) -> list[Objective]:
    """The losses that could be read, with what learns from each."""
    return [
        Objective(name, loss, learned, one.clip or ClipSpec())
        for (name, _, one), loss, learned in zip(asked, values.losses, learns, strict=True)
        if loss is not None
    ]
