"""The pytree structure of arguments and results in a file of torch.export, restricted to tuples,
lists and dicts.

PyTorch imports modules that the text names (enumerations, factories of defaultdict), and writes
keys into Python code. The importer needs only the order of the leaves, so that any other container
is replaced by a tuple.
"""

from __future__ import annotations

import json
from typing import Any

SEQUENCES = frozenset(("builtins.tuple", "builtins.list"))
DICTS = frozenset(("builtins.dict", "collections.OrderedDict"))
LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
PROTOCOL = 1


def nest(text: str) -> str:
    """The text of a TreeSpec, regenerated. Raises ValueError for a malformed one."""
    if not text:
        return text
    match json.loads(text):
        case [1, dict() as held]:
            return json.dumps((PROTOCOL, _node(held)))
    raise ValueError("the nesting of its values (TreeSpec) has an unknown format")


def _node(held: Any) -> dict[str, Any]:
    match held:
        case {"type": None, "context": None, "children_spec": []}:
            return dict(LEAF)
        case {"type": str() as kind, "context": context, "children_spec": list() as children}:
            inner = [_node(c) for c in children]
            keys = json.loads(context) if kind in DICTS and isinstance(context, str) else None
            if isinstance(keys, list) and len(keys) == len(inner) and all(_plain(k) for k in keys):
                return {"type": kind, "context": json.dumps(keys), "children_spec": inner}
            kept = kind if kind in SEQUENCES else "builtins.tuple"
            return {"type": kept, "context": "null", "children_spec": inner}
    raise ValueError("the nesting of its values (TreeSpec) has an unknown format")


def _plain(key: object) -> bool:
    """Whether a dict key can safely be written inside quotation marks in the code that PyTorch
    generates.
    """
    return type(key) is int or (
        isinstance(key, str) and key.isprintable() and not set(key) & set("'\"\\{}")
    )
