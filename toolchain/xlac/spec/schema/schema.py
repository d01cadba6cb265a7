"""The pydantic models that validate specs and generate the JSON Schema.

Attributes of operations are not here: they come from their declarations.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from xlac.spec.schema.fields import (
    BlockInputs,
    Called,
    Expression,
    Flag,
    Name,
    Names,
    Outputs,
    Param,
    References,
    Text,
    TypeText,
    Whole,
    is_list,
    one_of,
)
from xlac.spec.schema.interface import DimLike, InputLike, StateSpec
from xlac.spec.schema.kernels import KernelLike, ToleranceLike
from xlac.spec.schema.pipelining import PIPELINE, PipelineSpec
from xlac.spec.schema.placement import PLACE, PlaceLike
from xlac.spec.schema.sharding import MESH, SHARD, MeshLike, ShardLike
from xlac.spec.schema.strict import Strict
from xlac.spec.schema.training import OptimizerSpec, RateSpec, TrainSpec
from xlac.spec.schema.weights import WeightsLike


class OpNode(BaseModel):
    """An operation; every other key is an attribute of it, or a learned parameter given as a
    value.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    op: Text = Field(description="the operation: see `xlac ops`")
    inputs: References = Field(
        default=[], alias="in", description="a name, a list, or a mapping by operand"
    )
    body: Function | None = Field(
        default=None,
        description="the graph inside an operation that runs one: how two elements combine",
    )
    exact: Flag = Field(
        default=False,
        description="as the graph holds it: nothing is broadcast, converted or left out",
    )
    when: Flag = Field(default=True, description="whether the node is there at all")
    otherwise: Expression = Field(default=None, alias="else", description="the value if it is not")
    origin: Called = Field(
        default=None, alias="from", description="what the node is called where it was imported from"
    )

    @property
    def attributes(self) -> dict[str, Any]:
        """The keys that do not belong to the schema: attributes of the operation."""
        return self.model_extra or {}


class Function(Strict):
    """A closed graph, which sees nothing but its inputs."""

    inputs: dict[Name, TypeText] = Field(
        default={}, description="what it is given, in order, with types"
    )
    graph: dict[Names, GraphEntry] = Field(default={}, description="its nodes")
    outputs: Outputs = Field(description="its results, in order")


class BlockNode(Strict):
    """A block used once, or several times in a row."""

    block: Text = Field(description="the name of the block")
    inputs: References = Field(
        default=[], alias="in", description="a name, a list, or a mapping by input"
    )
    params: dict[str, Any] = Field(
        default={}, alias="with", description="values for the block's parameters"
    )
    repeat: Whole = Field(default=None, description="how many copies, each fed by the one before")
    first: dict[str, Any] = Field(default={}, description="parameters of the first copy")
    last: dict[str, Any] = Field(default={}, description="parameters of the last copy")
    chain: (
        Annotated[
            Annotated[list[Text], Tag("<list>")] | Annotated[dict[str, Text], Tag("<mapping>")],
            Discriminator(is_list),
        ]
        | None
    ) = Field(
        default=None,
        description="outputs that feed the next copy: a list in order, or a map of input: output",
    )
    index: list[str] = Field(default=[], description="inputs whose value holds one for each copy")
    when: Flag = Field(default=True, description="whether the block is there at all")
    otherwise: Expression = Field(default=None, alias="else", description="the value if it is not")


class Carry(Strict):
    """A value that a loop carries from one iteration to the next."""

    init: References = Field(
        description="the value before the first step; a list gives one for each copy"
    )
    copies: Whole = Field(default=None, description="how many, read as name.0, name.1, …")
    type: TypeText = Field(default=None, description="its type, where a number leaves it open")


CarryLike = Annotated[
    Annotated[Expression, Tag("<text>")] | Annotated[Carry, Tag("<init>")],
    Discriminator(lambda value: "<init>" if isinstance(value, dict) else "<text>"),
]


class ScanNode(Strict):
    """A loop over slices of values along an axis."""

    scan: dict[Name, Expression] = Field(description="name of the slice: value that is sliced")
    axis: Whole = Field(default=0, description="the axis that is sliced")
    length: Whole = Field(default=None, description="how many steps, where nothing is sliced")
    reverse: Flag = Field(default=False, description="from the last slice to the first")
    checkpoint_every: Whole = Field(
        default=0,
        description="gradients keep carried values of every so many steps, and make others again",
    )
    carry: dict[Name, CarryLike] = Field(default={}, description="values handed from step to step")
    given: dict[Name, Expression] = Field(
        default={}, alias="with", description="values of around it, by the names they have inside"
    )
    body: dict[Names, GraphEntry] = Field(default={}, description="the graph of one step")
    next: dict[str, Expression] = Field(default={}, description="the carried values after a step")
    stack: dict[Name, Expression] = Field(
        default={}, description="values of every step, stacked along the axis"
    )
    origin: Called = Field(
        default=None, alias="from", description="what the node is called where it was imported from"
    )


class Branch(Strict):
    """A branch with a graph of its own."""

    body: dict[Names, GraphEntry] = Field(default={}, description="the graph of the branch")
    outputs: Outputs = Field(description="its results; every branch has the same names")


BranchLike = Annotated[
    Annotated[Expression, Tag("<text>")] | Annotated[Branch, Tag("<branch>")],
    Discriminator(lambda value: "<branch>" if isinstance(value, dict) else "<text>"),
]


class WhileNode(Strict):
    """A loop that runs while a condition over its carried values is true."""

    condition: BranchLike = Field(alias="while", description="a bool over the carried values")
    max: Whole = Field(
        default=None, description="the most steps that it takes; gradients through it need this"
    )
    carry: dict[Name, CarryLike] = Field(description="values handed from step to step")
    given: dict[Name, Expression] = Field(
        default={}, alias="with", description="values of around it, by the names they have inside"
    )
    body: dict[Names, GraphEntry] = Field(default={}, description="the graph of one step")
    next: dict[str, Expression] = Field(description="the carried values after a step")
    origin: Called = Field(
        default=None, alias="from", description="what the node is called where it was imported from"
    )


class CondNode(Strict):
    """A choice between graphs, of which one runs."""

    on: Expression = Field(
        alias="cond", description="a bool for then and else, or the number of a branch"
    )
    given: dict[Name, Expression] = Field(
        default={}, alias="with", description="values of around it, by the names they have inside"
    )
    then: BranchLike = Field(default=None, description="when true")
    otherwise: BranchLike = Field(default=None, alias="else", description="when false")
    branches: list[BranchLike] | None = Field(
        default=None, description="by number; out of range means the last"
    )
    origin: Called = Field(
        default=None, alias="from", description="what the node is called where it was imported from"
    )


GraphEntry = Annotated[
    Annotated[Expression, Tag("<text>")]
    | Annotated[OpNode, Tag("<op>")]
    | Annotated[BlockNode, Tag("<block>")]
    | Annotated[ScanNode, Tag("<scan>")]
    | Annotated[WhileNode, Tag("<while>")]
    | Annotated[CondNode, Tag("<cond>")],
    Discriminator(
        one_of("op", "block", "scan", "while", "cond"),
        custom_error_type="entry",
        custom_error_message="a node has one of the keys op, block, scan, while, cond",
    ),
]


class BlockSpec(Strict):
    """A part of a graph that is used under several names."""

    doc: str = ""
    params: dict[Name, Param] = Field(
        default={},
        description="parameters and defaults; null must be given by the user of the block",
    )
    inputs: BlockInputs = Field(
        default=[], description="the values it reads, with types if you like"
    )
    graph: dict[Names, GraphEntry] = Field(description="its nodes")
    outputs: Outputs = Field(description="its results; the first is what its name stands for")


class OpSpec(Strict):
    """An operation declared by the user."""

    doc: str = ""
    inputs: dict[Name, TypeText] = Field(
        description="operands and types; *S stands for any shape, a new name for any size"
    )
    outputs: dict[Name, TypeText] = Field(description="results and types")
    params: dict[Name, Param] = Field(
        default={}, description="attributes and defaults; null must be given"
    )
    expr: dict[Names, GraphEntry] = Field(description="the meaning, by simpler operations")
    gradient: dict[Names, GraphEntry] | None = Field(
        default=None,
        description="how it goes backwards: d_x of each operand x, by operands, results y and d_y",
    )
    kernels: dict[Name, KernelLike] = Field(
        default={}, description="hand-written kernels by target, checked against expr"
    )
    tolerance: ToleranceLike | None = Field(
        default=None, description="how far a kernel's results may be from those of expr"
    )
    batch: Name | None = Field(
        default=None, description="a leading size that kernels take any number of: vmap uses it"
    )


class Document(Strict):
    """A spec."""

    xlac: Literal[1] = Field(description="the version of the format")
    model: Name | None = Field(default=None, description="the name of the model")
    doc: str = ""
    include: list[str] = Field(
        default=[], description="specs whose sections are merged into this one"
    )
    precision: Literal["default", "fast"] | None = Field(
        default=None, description="fast: sums may be reordered and half-precision rounding skipped"
    )
    dims: dict[Name, DimLike] = Field(default={}, description="sizes by name: a number, or bounds")
    params: dict[Name, Param] = Field(
        default={}, description="build-time constants; null must be given by --set"
    )
    weights: WeightsLike | None = Field(default=None, description="where the learned tensors are")
    ops: dict[Name, OpSpec] = Field(default={}, description="operations of your own")
    blocks: dict[Name, BlockSpec] = Field(default={}, description="parts used under several names")
    inputs: dict[Name, InputLike] = Field(default={}, description="what the caller supplies")
    state: dict[Name, StateSpec] = Field(default={}, description="what is kept between calls")
    graph: dict[Names, GraphEntry] = Field(default={}, description="the nodes, in any order")
    outputs: Outputs | None = Field(default=None, description="the results")
    extents: dict[Name, list[Name | None]] = Field(
        default={},
        description="of outputs with data-dependent sizes: "
        "for each axis the output that holds the real size, or null",
    )
    mesh: MeshLike = MESH
    shard: ShardLike = SHARD
    pipeline: PipelineSpec | None = PIPELINE
    place: PlaceLike = PLACE
    train: TrainSpec | None = Field(default=None, description="training of the same model")
    optimizers: dict[Name, OptimizerSpec] = Field(default={}, description="optimizers of your own")
    rates: dict[Name, RateSpec] = Field(
        default={}, description="schedules of your own for learning rates"
    )


_NESTED = (OpNode, Function, ScanNode, WhileNode, Branch, CondNode, BlockSpec, OpSpec)
for _model in (*_NESTED, OptimizerSpec, Document):
    _model.model_rebuild()
