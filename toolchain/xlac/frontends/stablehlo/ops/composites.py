"""Composites and custom calls: operations defined outside of StableHLO."""

from __future__ import annotations

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.control import called
from xlac.frontends.stablehlo.shardy import constrained
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import TABLE, operation
from xlac.frontends.stablehlo.text.syntax import Operation


@operation("composite")
def composite(site: OperationSite) -> Built:
    """A composite of CHLO by xlac's own builder, one that is registered as a custom call by that
    builder, any other by its decomposition.
    """
    name = site.word("name")
    if name in CUSTOM_CALLS:
        return CUSTOM_CALLS[name](site)
    entry = TABLE.get(name) if name.startswith("chlo.") else None
    if entry is None:
        return called(site, site.word("decomposition"))
    op = site.op
    attributes = site.get("composite_attributes", {})
    inner = Operation(
        name, op.operands, op.results, attributes, op.regions, op.types, op.at, op.width
    )
    return entry(OperationSite(site.importer, site.scope, inner))


@operation("custom_call")
def custom_call(site: OperationSite) -> Built:
    """A target that is registered in `CUSTOM_CALLS`; any other is refused."""
    target = site.word("call_target_name")
    entry = CUSTOM_CALLS.get(target)
    if entry is None:
        site.fail(
            f"the custom_call target {target[:80]!r} is unknown",
            "register a builder for it in xlac.frontends.stablehlo.CUSTOM_CALLS",
            code="XL7209",
        )
    shapes = site.integers("indices_of_shape_operands", ())  # those of results, which we infer
    site.operands = [value for n, value in enumerate(site.operands) if n not in shapes]
    return entry(site)


@operation("sdy.sharding_constraint", section="Shardy")
def sharding_constraint(site: OperationSite) -> Built:
    """How a tensor is divided among the ranks of a mesh: itself, in one process."""
    return constrained(site)
