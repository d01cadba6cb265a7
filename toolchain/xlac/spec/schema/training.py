"""The schema of training: the section `train`, and optimizers declared by the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from xlac.spec.schema.fields import LARGEST, Expression, Name, Names, Param, Text, normal
from xlac.spec.schema.strict import Strict
from xlac.spec.schema.weights import InitSpec

if TYPE_CHECKING:
    from xlac.spec.schema.schema import GraphEntry

Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False), AfterValidator(normal)]
"""A positive number that is positive and finite in f32 as well."""
Steps = Annotated[int, Field(lt=2**63)]
"""A number of steps, which programs count in 64 bits."""


MOST_PARTS = 2**20
"""The most micro-batches of a step: random numbers are keyed by step and micro-batch in one
integer.
"""


class MeanSpec(Strict):
    """A mean given as a sum and a count: averages over batches of any size."""

    sum: Expression = Field(description="a scalar")
    count: Expression = Field(description="how many numbers the sum is made of: a scalar")


MeanLike = Annotated[
    Annotated[Expression, Tag("<text>")] | Annotated[MeanSpec, Tag("<mean>")],
    Discriminator(lambda value: "<mean>" if isinstance(value, dict) else "<text>"),
]


class ClipSpec(Strict):
    """A bound on gradients, before the optimizer sees them."""

    norm: Positive | None = Field(
        default=None, description="the most that all gradients together may be long"
    )
    value: Positive | None = Field(
        default=None, description="the most that each number of a gradient may be"
    )


class LoraSpec(Strict):
    """Low-rank factors that learn in the place of a weight: W + alpha / rank * B A."""

    rank: Annotated[int, Field(ge=1)] = Field(default=8, description="the size between the factors")
    alpha: Positive | None = Field(
        default=None, description="over rank what the change is multiplied by; rank unless given"
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="the share of what the first factor multiplies that is left out in a step",
    )


NamedOptimizer = Annotated[
    dict[Name, dict[str, Any]],
    Field(min_length=1, max_length=1, description="its name, and its parameters"),
]
Groups = Annotated[
    dict[Text, dict[str, Any]],
    Field(
        description="by pattern of the weights' names, other parameters of the optimizer, or "
        "another optimizer; the first that fits"
    ),
]
Learning = Annotated[list[str], Field(description="patterns of the weights that learn")]


class EmaSpec(Strict):
    """Exponential moving averages of the weights, kept beside them."""

    decay: Expression = Field(
        default=0.999,
        description="how much of an average is left after a step: a number from 0 to below 1, or "
        "an expression of `step`",
    )
    warmup: bool = Field(
        default=False,
        description="at first less: (1 + n) / (10 + n) after n steps, until that is more than "
        "`decay`",
    )
    after: Annotated[Steps, Field(ge=0)] = Field(
        default=0, description="for how many steps the averages are the weights themselves"
    )
    every: Annotated[Steps, Field(ge=1)] = Field(
        default=1, description="after how many steps averages change"
    )


class LossSpec(Strict):
    """One of several losses, and how the weights change that learn from it."""

    loss: MeanLike = Field(description="what to minimise: a scalar, such as mean(…)")
    optimizer: NamedOptimizer
    clip: ClipSpec | None = None
    groups: Groups = {}
    wrt: Learning = ["*"]


class LossScaleSpec(Strict):
    """A factor of the loss that grows while gradients are finite, as torch.amp.GradScaler's."""

    init: Positive = Field(default=65536.0, description="the first")
    growth: Annotated[float, Field(gt=1, le=LARGEST, allow_inf_nan=False)] = Field(
        default=2.0, description="times so much after `interval` steps"
    )
    backoff: Annotated[Positive, Field(lt=1)] = Field(
        default=0.5, description="times so much after gradients that are not finite"
    )
    interval: Annotated[Steps, Field(ge=1)] = Field(
        default=2000, description="steps in a row with finite gradients"
    )


LossScaleLike = Annotated[
    Annotated[Literal["dynamic"], Tag("<text>")]
    | Annotated[Positive, Tag("<number>")]
    | Annotated[LossScaleSpec, Tag("<scale>")],
    Discriminator(
        lambda value: (
            "<scale>"
            if isinstance(value, dict | LossScaleSpec)
            else "<text>"
            if isinstance(value, str)
            else "<number>"
        )
    ),
]


class TrainSpec(Strict):
    """What to minimise, and how: `loss` and `optimizer`, or several `losses`."""

    batch: Name | None = Field(
        default=None, description="the size that counts examples; --batch sets it"
    )
    init: InitSpec | None = Field(
        default=None, description="draws the weights anew; without it training goes on from them"
    )
    loss: MeanLike | None = Field(
        default=None, description="what to minimise: a scalar, such as mean(…)"
    )
    losses: dict[Name, LossSpec] | None = Field(
        default=None,
        min_length=1,
        description="several to minimise in one step, each by an optimizer of its own",
    )
    order: Literal["in_turn", "together"] | None = Field(
        default=None,
        description="of several losses: in_turn, each with the weights that those before it have "
        "left; together, all with the same",
    )
    metrics: dict[Name, MeanLike] = Field(default={}, description="what else to report")
    optimizer: NamedOptimizer | None = None
    clip: ClipSpec | None = None
    groups: Groups = {}
    wrt: Learning = ["*"]
    lora: dict[Text, LoraSpec] = Field(
        default={},
        description="by pattern of the weights' names, factors of low rank that learn in their "
        "place; the first that fits",
    )
    ema: EmaSpec | None = Field(
        default=None, description="averages of the weights; {} for those that are usual"
    )
    frozen_mode: list[str] = Field(
        default=[],
        description="patterns of nodes that stay as they are in inference: dropout drops nothing, "
        "batch_norm measures nothing",
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        default=0, description="of what is drawn in a step, such as what dropout leaves out"
    )
    accumulate: Annotated[int, Field(ge=1, le=MOST_PARTS)] = Field(
        default=1, description="how many micro-batches a batch is cut into, one after another"
    )
    loss_scale: LossScaleLike | None = Field(
        default=None,
        description="what the loss is multiplied by for its gradients: a number, or dynamic, which "
        "f16 has unless told",
    )
    finite: bool = Field(
        default=False,
        description="whether a step writes nothing unless all its gradients are finite, as with "
        "clip: {norm: …}",
    )
    statistics: Literal["global", "local"] = Field(
        default="global",
        description="of batch_norm, where ranks along the mesh axis data share a batch: of all of "
        "it; or local, of each rank's part, those of the first rank being kept",
    )
    shard: Literal["optimizer", "gradients", "weights"] | None = Field(
        default=None,
        description="what ranks along the mesh axis data hold in parts: what the optimizer keeps; "
        "that and summed gradients; or weights, too",
    )
    compute: Literal["f32", "bf16", "f16"] = Field(
        default="f32",
        description="the type of products and of what follows them in a step; weights, sums, norms "
        "and losses stay f32",
    )


class SlotSpec(Strict):
    """A tensor that an optimizer keeps for each weight, of the weight's element type."""

    init: float = Field(default=0.0, allow_inf_nan=False, description="its first value")
    when: Expression = Field(
        default=True,
        description="arithmetic over the parameters, and `shape` and `rank` of the weight: whether "
        "it is needed",
    )
    shape: Param = Field(
        default="shape",
        description="its sizes, a list or such arithmetic: `shape[:-1] + [1]`; those of the weight "
        "unless given",
    )


SlotLike = Annotated[
    Annotated[float, Field(allow_inf_nan=False), Tag("<number>")]
    | Annotated[SlotSpec, Tag("<slot>")],
    Discriminator(lambda value: "<slot>" if isinstance(value, dict) else "<number>"),
]


class OptimizerSpec(Strict):
    """How a weight changes, by expressions of `w` (the weight), `g` (its gradient), `lr` (the
    rate), `step` (how many steps were taken before) and what it keeps. Arithmetic sees, besides the
    parameters, `shape` and `rank` of the weight and `epsilon`, the resolution of its type.
    """

    doc: str = ""
    params: dict[Name, Param] = Field(
        default={}, description="parameters and defaults, `lr` among them; null must be given"
    )
    needs: dict[Text, Text] = Field(
        default={},
        description="arithmetic over the parameters and the weight's shape that must hold, and "
        "what is wrong where it does not",
    )
    state: dict[Name, SlotLike] = Field(
        default={}, description="what is kept for each weight, and its first value"
    )
    expr: dict[Names, GraphEntry] = Field(
        default={}, description="what the next values need, as entries of a graph"
    )
    next: dict[Name, Expression] = Field(
        description="the next values: of `w`, and of all that is kept"
    )


class RateSpec(Strict):
    """A learning rate that changes with `step`, as a factor of what its first parameter says."""

    doc: str = ""
    params: dict[Name, Param] = Field(description="parameters and defaults; the first is the rate")
    needs: dict[Text, Text] = Field(
        default={},
        description="arithmetic over the parameters that must hold, and what is wrong where it "
        "does not",
    )
    factor: Expression = Field(
        description="by `step`, and `steps`: how many the whole run takes, as a scalar"
    )
