"""The section on weights: files, renaming, and how others are drawn."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from xlac.spec.schema.fields import Text, TypeText
from xlac.spec.schema.strict import Strict


class TensorInit(Strict):
    """How the values of a tensor are drawn."""

    scheme: Literal["normal", "uniform", "zeros", "ones", "constant", "kaiming", "xavier"] = (
        "normal"
    )
    std: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="standard deviation of normal"
    )
    mean: float = Field(default=0.0, allow_inf_nan=False, description="mean of normal")
    low: float = Field(default=-1.0, allow_inf_nan=False, description="least value of uniform")
    high: float = Field(default=1.0, allow_inf_nan=False, description="greatest value of uniform")
    value: float = Field(default=0.0, allow_inf_nan=False, description="the value of constant")


Scheme = Literal["normal", "uniform", "zeros", "ones", "kaiming", "xavier"]


InitLike = Annotated[
    Annotated[Scheme, Tag("<text>")] | Annotated[TensorInit, Tag("<init>")],
    Discriminator(lambda value: "<init>" if isinstance(value, dict | BaseModel) else "<text>"),
]


class InitSpec(Strict):
    """Weights drawn from a seed; the same on every machine."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    scheme: InitLike = Field(default="kaiming", description="of tensors that no pattern names")
    tensors: dict[str, InitLike] = Field(
        default={}, description="by pattern of the name, such as '*.bias'; the first that fits"
    )


class WeightsSpec(Strict):
    """Where the learned tensors are."""

    file: (
        Annotated[
            Annotated[Text, Tag("<text>")] | Annotated[list[Text], Tag("<list>")],
            Discriminator(lambda value: "<list>" if isinstance(value, list) else "<text>"),
        ]
        | None
    ) = Field(
        default=None,
        description="a file, or several: safetensors, .npz, or a state dict of PyTorch",
    )
    rename: dict[str, str] = Field(
        default={}, description="regular expression: text, applied to the names in the file"
    )
    tensors: dict[str, TypeText] = Field(default={}, description="types that the tensors must have")
    ignore: list[str] = Field(
        default=[],
        description="patterns of tensors in the file that the model does not use, such as "
        "'*.num_batches_tracked'",
    )
    widen: bool = Field(
        default=False,
        description="whether f16, bf16 and f32 in the file may be wider floats in the model, of "
        "the same values",
    )
    init: InitSpec | None = Field(default=None, description="draws what no file gives")


WeightsLike = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[WeightsSpec, Tag("<weights>")],
    Discriminator(lambda value: "<weights>" if isinstance(value, dict) else "<text>"),
]
