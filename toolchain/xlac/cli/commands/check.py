"""`xlac check`: reports all mistakes in a spec at once, otherwise a summary of the model: shapes,
parameters, work and memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import kernels_option, machine_options, memory_option, spec_options

if TYPE_CHECKING:
    from xlac.cli.choice import Chosen
    from xlac.model import Model
    from xlac_sdk.target import Target

COLUMNS = ("node", "op", "shape", "parameters", "flops", "bytes")


@click.command(name="check")
@spec_options
@machine_options
@kernels_option
@memory_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print the totals only.")
@click.option(
    "--weights",
    "tensors",
    is_flag=True,
    help="List every tensor that the model learns, with its type; no weights file is opened.",
)
def command(as_json: bool, quiet: bool, tensors: bool, **options: Any) -> None:
    """Check SPEC: report every problem at once, else show every node and the totals; the memory of
    a step that learns, and what --max-memory costs, are those of --target.
    """
    import json

    choice = chosen(**options)
    _check_machines(choice)
    if tensors:
        _weights(choice, as_json)
        return
    summary = _found(choice)
    if as_json:
        click.echo(json.dumps(summary, indent=1, ensure_ascii=False))
        return
    if not quiet:
        rows = [
            [
                str(row["node"]),
                str(row["op"]),
                str(row["shape"]),
                *(_count(row[c]) for c in COLUMNS[3:]),
            ]
            for row in summary["nodes"]
        ]
        _table(rows)
        click.echo()
    _totals(summary)
    if "training" in summary:
        _training(summary["training"])
    for facts in (summary, summary.get("training", {})):
        if "memory" in facts:
            _memory(facts["memory"])


def _found(choice: Chosen) -> dict[str, Any]:
    """The summary of the model. Raises SourceError with all mistakes."""
    from xlac.frontends.loader import load
    from xlac.spec.load import TrainedSpec
    from xlac.spec.summary import summarize

    options, memory = choice.options, choice.memory
    try:
        model = load(
            choice.spec,
            params=options.params,
            dims=options.dims,
            allow_outside=choice.allow_outside,
            signature=options.signature,
            trusted=choice.trusted,
        )
    except TrainedSpec as trained:
        from xlac.training.reports.summary import summarize_training

        learning = replace(trained.model, allow_kernels=options.allow_kernels)
        facts = summarize_training(learning, trained.training, _machines(choice)[0], memory)
        return {**summarize(trained.model), "training": {"target": choice.target, **facts}}
    summary = summarize(model)
    if memory is not None:
        from xlac.driver import specialized
        from xlac.training.reports.summary import within_memory

        model = replace(specialized(model), allow_kernels=options.allow_kernels)
        summary["memory"] = within_memory(model, memory, _machines(choice)[0])
    return summary


def _check_machines(choice: Chosen) -> None:
    """Raises SourceError for an unknown target, and for a named processor that it lacks."""
    from xlac_sdk.host.registry import installed, unknown

    if choice.target not in installed():
        raise unknown(choice.target)
    if choice.options.cpu or choice.options.triple or choice.options.arch:
        _machines(choice)


def _machines(choice: Chosen) -> list[Target]:
    """The targets that programs are compiled for, as `xlac build` takes them: one for each
    processor of --cpu. Raises SourceError for an unknown target, or an invalid option of it.
    """
    from xlac_sdk.host.registry import find

    backend = find(choice.target)
    each = [choice.with_options(cpu=cpu.strip()) for cpu in choice.options.cpu.split(",")]
    return [backend.target_for(one.options.request) for one in each]


def _weights(choice: Chosen, as_json: bool) -> None:
    """Prints every tensor that a model learns, with its type."""
    import json

    from xlac.frontends.loader import load

    types = learned(
        load(
            choice.spec,
            params=choice.options.params,
            dims=choice.options.dims,
            allow_outside=choice.allow_outside,
            signature=choice.options.signature,
            trusted=choice.trusted,
            training=True,
            weights=False,
        )
    )
    if as_json:
        click.echo(json.dumps(types, indent=1, ensure_ascii=False))
    for name, type in types.items() if not as_json else ():
        click.echo(f"{name.ljust(max(map(len, types)))}  {type}")


def _training(facts: dict[str, Any]) -> None:
    """Prints which weights learn, and the memory of a step."""
    learns, nbytes = facts["learns"], facts["bytes"]
    at = ", ".join(f"{name} {size}" for name, size in facts["sizes"].items())
    parts, values = facts["accumulate"], max(nbytes["step"], nbytes.get("accumulate", 0))
    of = f", {parts} micro-batches" if parts > 1 else ""
    sums = f"sums {nbytes['sums']:,}, " if nbytes["sums"] else ""
    click.echo(f"minimises   {', '.join(facts['losses'])}; reports {', '.join(facts['metrics'])}")
    click.echo(
        f"learns      {learns['parameters']:,} parameters in {learns['tensors']:,} tensors by "
        f"{facts['optimizer']}" + (f"; frozen: {_some(facts['frozen'])}" if facts["frozen"] else "")
    )
    if facts["lora"]:
        click.echo(f"low rank    factors of {', '.join(facts['lora'])}")
    if facts["averages"]:
        kept = facts["averages"]
        click.echo(
            f"averages    of {kept['tensors']:,} tensors, decay {kept['decay']}: "
            f"{nbytes['averages']:,} bytes"
        )
    on = f" on {facts['target']}" if facts["target"] != "cpu" else ""
    click.echo(
        f"step        {facts['peak_bytes']:,} bytes{f' at {at}{of}' if at else ''}{on}: weights "
        f"{nbytes['weights']:,}, optimizer "
        f"{nbytes['optimizer']:,}, {sums}inputs {nbytes['inputs']:,}, values at once {values:,}"
    )


def _memory(facts: dict[str, Any]) -> None:
    """Prints the cost of a memory limit."""
    from xlac.training.reports.memory_report import cost

    click.echo(
        f"max memory  {facts['bytes']:,} of {facts['limit']:,} bytes "
        f"({facts['unlimited']:,} without the limit): {cost(facts['recomputed'])}"
    )


def _some(names: list[str], shown: int = 8) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - shown} more (--json has all)" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _totals(summary: dict[str, Any]) -> None:
    """Prints the model's name, its open sizes, and totals over its nodes."""
    total: dict[str, Any] = summary["totals"]
    click.echo(f"model       {summary['model']}")
    for name, symbol in summary["dims"].items():
        click.echo(f"size        {name}: {symbol}")
    beside = f" beside {total['statistics']:,} measured statistics," if total["statistics"] else ""
    click.echo(
        f"parameters  {total['parameters']:,}{beside} in {total['tensors']:,} tensors, "
        f"{total['parameter_bytes']:,} bytes"
    )
    click.echo(f"flops       {total['flops']:,}")
    click.echo(f"traffic     {total['bytes']:,} bytes if every node reads and writes memory")
    from xlac.debug import effort
    from xlac.settings import settings
    from xlac_sdk.backend import CORE_FLOPS

    threads = max(1, settings().threads)
    long = effort.warning(total["flops"], 0, "cpu", threads, CORE_FLOPS * threads)
    if long:
        click.echo(f"warning: {long}", err=True)
    click.echo(
        f"peak memory {total['peak_bytes']:,} bytes of values at once, before fusion; parameters "
        "apart"
    )


def learned(model: Model) -> dict[str, str]:
    """The type of every tensor that a model learns, by name."""
    from xlac.ops.tensor.leaf import Param

    params = [(node.op, node.type) for node in model.graph.nodes() if isinstance(node.op, Param)]
    return {op.name: str(type) for op, type in params if op.kind == "weight"}


def _count(number: Any) -> str:
    return f"{number:,}" if number else ""


def _table(rows: list[list[str]]) -> None:
    """Columns of minimal width, the node's name cut to 40 characters; numbers right-aligned."""
    rows = [[r[0] if len(r[0]) <= 40 else "…" + r[0][-39:], *r[1:]] for r in rows]
    widths = [max(len(row[i]) for row in [list(COLUMNS), *rows]) for i in range(len(COLUMNS))]
    for row in [list(COLUMNS), *rows]:
        cells = [
            text.ljust(w) if i < 3 else text.rjust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())
