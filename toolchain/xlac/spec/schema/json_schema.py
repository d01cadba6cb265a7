"""Generates the JSON Schema of specs from the pydantic models and the declarations of
operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.ir.op import OPS, Op, summary
from xlac.spec.elaborate import attributes
from xlac.spec.elaborate.operations import LITERALS, STRUCTURAL
from xlac.spec.schema import schema, strict

_COMPUTED = {"type": "string", "pattern": r"\$"}
_NODE_KEYS = ("op", "in", "when", "else", "exact", "from")


def json_schema(custom: Mapping[str, schema.OpSpec] | None = None) -> dict[str, Any]:
    """The schema of a whole spec; `custom` adds the user's own operations."""
    import xlac.ops

    assert xlac.ops
    whole = schema.Document.model_json_schema(by_alias=True)
    definitions = whole["$defs"]
    node = definitions["OpNode"]
    known = [name for name in OPS if name not in STRUCTURAL or name == "call"]
    names = [*(custom or {}), *LITERALS, *known]
    node["properties"]["op"] = {
        "description": "the operation: see `xlac ops`",
        "anyOf": [{"enum": sorted(names)}, _COMPUTED],
    }
    node["allOf"] = [
        *(_case(name, OPS[name], definitions) for name in sorted(known)),
        *(_custom_case(name, spec) for name, spec in (custom or {}).items()),
        _literal("weight", {"type": {"type": "string"}}, ["type"]),
        _literal("constant", {"value": {}, "dtype": {"type": "string"}}, ["value"]),
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"xlac-spec-{strict.VERSION}.schema.json",
        **whole,
        "title": "xlac spec",
    }


def _case(name: str, op: type[Op], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of an operation's node."""
    model = attributes.adapter(op).model_json_schema(by_alias=True)
    definitions.update(model.pop("$defs", {}))
    properties = {
        key: _computable(value) | _default(value)
        for key, value in model.get("properties", {}).items()
    }
    for learned in _learned(op):  # a learned tensor may be given as a value
        properties.setdefault(learned, {"type": ["string", "number"]})
        if learned in attributes.flags(op):
            properties[learned] = {"anyOf": [properties[learned], {"type": "string"}]}
    return _if(name, properties, model.get("required", []), summary(op), attributes.holds_body(op))


def _learned(op: type[Op]) -> list[str]:
    """The names of all tensors that an operation learns in its samples."""
    names_seen: dict[str, None] = {}
    if op.parameters is Op.parameters:
        return []
    for sample in op.samples():
        operation = op(**sample.attributes)
        for count in range(1, len(sample.inputs) + 1):
            try:
                names = operation.parameters(*sample.inputs[:count])
            except (ValueError, TypeError, IndexError):
                continue
            if len(names) + count == len(sample.inputs):
                names_seen.update(dict.fromkeys(names))
    return list(names_seen)


def _computable(value: dict[str, Any]) -> dict[str, Any]:
    """The schema of an attribute that may be `$param` or `${…}`, as may each element of a list and
    each alternative.
    """
    schema = _bare(value)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = _computable(schema[key])
    for key in ("anyOf", "oneOf", "prefixItems"):
        if key in schema:
            schema[key] = [_computable(item) for item in schema[key]]
    return {"anyOf": [schema, _COMPUTED]}


def _bare(value: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k not in ("title", "default")}


def _default(value: dict[str, Any]) -> dict[str, Any]:
    return {"default": value["default"]} if "default" in value else {}


def _custom_case(name: str, spec: schema.OpSpec) -> dict[str, Any]:
    required = [key for key, default in spec.params.items() if default is None]
    return _if(name, {key: {} for key in spec.params}, required, spec.doc.split("\n")[0])


def _literal(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    doc = {"weight": "A learned tensor by itself.", "constant": "A tensor written out."}[name]
    return _if(name, properties, required, doc)


def _if(
    name: str, properties: dict[str, Any], required: list[str], doc: str, body: bool = False
) -> dict[str, Any]:
    then: dict[str, Any] = {
        "description": doc,
        "properties": {**dict.fromkeys(_NODE_KEYS, True), **properties},
    }
    then["additionalProperties"] = False
    if "weight_0" in properties:  # one for each input
        then["patternProperties"] = {r"^weight_\d+$": True}
    if body:
        then["properties"]["body"] = {"$ref": "#/$defs/Function"}
    if required:
        then["required"] = list(required)
    return {"if": {"properties": {"op": {"const": name}}, "required": ["op"]}, "then": then}
