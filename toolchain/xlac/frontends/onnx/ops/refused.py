"""Operators on text and maps, which xlac's tensors cannot hold: each error says so, and what to do
instead.
"""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import ML, operator
from xlac.ir.graph import Node

_TEXT = ("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch")
_MAPS = {
    "ZipMap": "take the scores that it zips",
    "CastMap": "",
    "DictVectorizer": "",
    "CategoryMapper": "",
}
REFUSED = {("", name) for name in _TEXT} | {(ML, name) for name in _MAPS}


def _refuse(name: str, domain: str, why: str, hint: str) -> None:
    @operator(name, domain=domain)
    def refused(call: OperatorCall) -> Node:
        call.fail(why, hint)


for _name in _TEXT:
    _refuse(
        _name, "", "text is not supported", "prepare text before the model, and give it numbers"
    )
for _name, _hint in _MAPS.items():
    _refuse(_name, ML, "maps and text are not supported", _hint)
