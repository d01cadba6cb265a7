"""Pretty forms of Shardy's operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlac.frontends.stablehlo.text.syntax import Raw

if TYPE_CHECKING:
    from xlac.frontends.stablehlo.text.operations import OperationReader
    from xlac.frontends.stablehlo.text.pretty import Pretty


def sharding(parser: OperationReader, parsed: Pretty) -> None:
    """`sdy.sharding_constraint %x <@mesh, [...]> : …`"""
    parsed.operands.append(parser.take("value", "an operand"))
    if parser.text != "<":
        parser.unexpected("'<'")
    parsed.named["sharding"] = parser.balanced()


def manual_computation(parser: OperationReader, parsed: Pretty) -> None:
    """`sdy.manual_computation(%x) in_shardings=[…] out_shardings=[…] manual_axes={"a"} (%y: type)
    {…} : …`
    """
    parser.expect("(")
    parsed.operands += parser.listed(")", lambda: parser.take("value", "an operand"))
    for word, opening in (("in_shardings", "["), ("out_shardings", "["), ("manual_axes", "{")):
        parser.expect(word)
        parser.expect("=")
        if parser.text != opening:
            parser.unexpected(f"'{opening}'")
        parsed.named[word] = Raw("", parser.balanced())
    parser.expect("(")
    arguments = parser.listed(")", lambda: parser.argument()[:2])
    parsed.regions.append(parser.region(arguments))
