"""Translates the errors of pydantic to messages in the terms of specs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from xlac.spec.report import Place, Report, nearest
from xlac.spec.schema import interface, schema, strict, training, weights
from xlac.spec.schema.fields import shown
from xlac.spec.text.tree import Path_, Source


def explain(source: Source, fault: Any, report: Report) -> tuple[Path_, bool]:
    """Reports one error in the user's terms; returns the path at fault, and whether its key is
    wrong.
    """
    loc = [
        key
        for key in fault["loc"]
        if not (isinstance(key, str) and key[:1] == "<" and key[-1:] == ">" and len(key) > 2)
    ]
    in_key = bool(loc) and loc[-1] == "[key]"
    path: Path_ = tuple(loc[:-1] if in_key else loc)
    place, kind, value = Place(source, path), fault["type"], fault.get("input")
    if kind == "extra_forbidden":
        model = _model_at(path[:-1], fault["loc"])
        known = _keys(model) if model else []
        around = _called(path[:-1], model)
        hint = nearest(str(path[-1]), known)
        if str(path[-1]).endswith(")") and value is None:
            hint = "quote an expression that holds a comma inside {…}"
        report.add("XL1010", f"unknown key {path[-1]!r}{around}", place.key, hint)
        return path, False
    if kind == "missing":
        around_place = Place(source, path[:-1])
        model = _model_at(path[:-1], fault["loc"][:-1])
        span = around_place.key if path[:-1] else around_place.span
        report.add(
            "XL1011",
            f"missing key {path[-1]!r}{_called(path[:-1], model)}",
            span,
            f"the format's version comes first: 'xlac: {strict.VERSION}'"
            if path == ("xlac",)
            else "",
        )
        return path[:-1] or path, False
    _explain_value(fault, path, place, in_key, report)
    return path, in_key


def _explain_value(fault: Any, path: Path_, place: Place, in_key: bool, report: Report) -> None:
    """Reports a value, or a name that is a key, that the schema rejects."""
    kind, value = fault["type"], fault.get("input")
    if path == ("xlac",):
        report.add(
            "XL1013",
            f"this is format {shown(value)}; this xlac reads format {strict.VERSION}",
            place.span,
        )
    elif in_key and kind != "literal_error":
        report.add("XL1015", f"{fault['msg']}", place.key)
    elif kind == "literal_error":
        choices = [c.strip("'") for c in fault["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        span = place.key if in_key else place.span
        report.add(
            "XL1012",
            f"expected {', '.join(choices)}; found {shown(value)}",
            span,
            nearest(str(value), choices) if len(choices) > 1 else "",
        )
    elif kind in _BOUNDS:
        report.add("XL1012", in_words(fault), place.span)
    elif kind in ("too_short", "too_long"):
        report.add(
            "XL1012",
            f"expected {fault['ctx'].get('min_length', fault['ctx'].get('max_length'))} entry",
            place.span,
        )
    elif kind in _EXPECTED:
        report.add("XL1012", in_words(fault), place.span)
    elif kind in ("kind", "entry"):
        hint = ""
        if kind == "entry" and isinstance(value, dict):
            hints = [nearest(key, ["op", "block", "scan", "while", "cond"]) for key in value]
            hint = next((h for h in hints if h.startswith("did you mean")), "")
        code = "XL1015" if fault["msg"].startswith("a name") else "XL1012"
        report.add(code, fault["msg"], place.key if kind == "entry" else place.span, hint)
    else:
        report.add("XL1012", in_words(fault), place.span)


def in_words(fault: Any) -> str:
    """An error of any document that is checked by a schema, as text."""
    kind, value = fault["type"], fault.get("input")
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind]} {next(iter(fault['ctx'].values()))}, found {shown(value)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, found {shown(value)}"
    return str(fault["msg"][0].lower() + fault["msg"][1:])


_BOUNDS = {
    "greater_than_equal": "at least",
    "less_than_equal": "at most",
    "greater_than": "more than",
    "less_than": "less than",
}


_EXPECTED = {
    "dict_type": "a mapping", "list_type": "a list", "string_type": "text",
    "int_type": "a whole number", "float_type": "a number", "bool_type": "true or false",
    "model_type": "a mapping", "model_attributes_type": "a mapping",
    "finite_number": "a finite number", "int_from_float": "a whole number",
}  # fmt: skip


_SECTIONS: dict[str, type[BaseModel]] = {
    "blocks": schema.BlockSpec, "ops": schema.OpSpec, "inputs": interface.InputSpec,
    "state": interface.StateSpec, "dims": interface.DimSpec, "weights": weights.WeightsSpec,
    "train": training.TrainSpec, "optimizers": training.OptimizerSpec, "rates": training.RateSpec,
}  # fmt: skip


_TRAIN: dict[str, type[BaseModel]] = {
    "clip": training.ClipSpec,
    "ema": training.EmaSpec,
    "init": weights.InitSpec,
}


_TAGS: dict[str, type[BaseModel]] = {
    "<op>": schema.OpNode, "<block>": schema.BlockNode, "<scan>": schema.ScanNode,
    "<while>": schema.WhileNode, "<cond>": schema.CondNode, "<branch>": schema.Branch,
    "<input>": interface.InputSpec, "<bounds>": interface.DimSpec, "<weights>": weights.WeightsSpec,
    "<mean>": training.MeanSpec, "<slot>": training.SlotSpec,
}  # fmt: skip


def _model_at(path: Path_, loc: Any) -> type[BaseModel] | None:
    """The model that the value at `path` was checked against."""
    if not path:
        return schema.Document
    tags = [key for key in loc if isinstance(key, str) and key in (*_TAGS, "<init>")]
    if tags and tags[-1] == "<init>":
        return schema.Carry if "carry" in path else weights.TensorInit
    if path[-1] == "init" and path[0] == "weights":
        return weights.InitSpec
    if path[0] == "train" and path[1:2] == ("lora",) and len(path) == 3:
        return training.LoraSpec
    if path[0] == "train" and path[1:2] == ("losses",) and len(path) == 3:
        return training.LossSpec
    if path[0] == "train" and path[-1] in _TRAIN:
        return _TRAIN[str(path[-1])]
    if tags and tags[-1] == "<op>" and path[-1] == "body":
        return schema.Function
    if tags:
        return _TAGS[tags[-1]]
    return _SECTIONS.get(str(path[0]))


def _keys(model: type[BaseModel]) -> list[str]:
    return [f.alias or name for name, f in model.model_fields.items()]


_CALLED = {
    schema.OpNode: "an operation", schema.BlockNode: "the use of a block",
    schema.ScanNode: "a scan", schema.WhileNode: "a while loop", schema.CondNode: "a cond",
    schema.BlockSpec: "a block", schema.OpSpec: "an op", interface.DimSpec: "a dim",
    weights.WeightsSpec: "weights", weights.InitSpec: "init", training.TrainSpec: "train",
    training.LoraSpec: "lora", training.LossSpec: "a loss", training.OptimizerSpec: "an optimizer",
    training.RateSpec: "a rate", training.ClipSpec: "clip", training.EmaSpec: "ema",
    training.MeanSpec: "a mean", training.SlotSpec: "a state", interface.StateSpec: "a state",
    interface.InputSpec: "an input", schema.Carry: "a carry", schema.Branch: "a branch",
    schema.Function: "a body", weights.TensorInit: "an init", schema.Document: "a spec",
}  # fmt: skip


def _called(path: Path_, model: Any) -> str:
    return f" in {_CALLED[model]}" if model in _CALLED else ""
