"""The report of a run, in Markdown: the processor, whether the run counts, means by class, rows
behind, inconclusive and ahead, every figure with its spread and its bursts, what was not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from .contenders import NOT_PEERS, OURS
from .machine import title
from .recorded import Place, Recorded
from .roofline import bound
from .rows import CLASSES, OVERHEAD
from .verdicts import LEAST, Mean, Verdict, geometric_mean, mean_of_classes, void

BARS = {"gemm": 0.95, "conv": 0.95, "int8": 0.90}  # of a class's mean; the others:
BAR = 0.80
OF_BOUND = 0.93  # which will do in place of a class's mean
COSTS = (
    ("compile_cpu_seconds", "CPU seconds to load, compile and call once, imports aside"),
    ("process_cpu_seconds", "CPU seconds of the process until its first call, imports included"),
    ("peak_rss_mb", "peak memory of the process"),
)


def report(run: Recorded) -> Iterator[str]:
    """The lines of a run's report."""
    yield f"# xlac beside its peers on {title(run.facts['machine'])}"
    yield ""
    said = void(list(run.again.values()))
    if said:
        yield f"**This run is void: {said}.** Its figures say nothing of xlac and its peers."
    else:
        mean = geometric_mean(list(run.again.values()))
        assert mean is not None
        yield f"xlac beside itself passes: {_mean(mean)} over {mean.rows} rows and thread counts."
    counts = {word: [v for v in run.verdicts.values() if v.word == word] for word in WORDS}
    yield ""
    yield ", ".join(f"{len(found)} {word}" for word, found in counts.items()) + (
        f", of {len(run.places)} rows and thread counts of which {len(run.verdicts)} have "
        f"{LEAST} processes of xlac and a peer. A ratio is xlac's time over the best peer's."
    )
    for threads in sorted({place[1] for place in run.places}):
        yield from _classes(run, threads)
    for word in ("behind", "inconclusive"):
        yield from _listed(word, counts[word])
    yield from _lacking(run)
    for threads in sorted({place[1] for place in run.places}):
        yield from _figures(run, threads)
    yield from _costs(run)
    yield from _not_run(run)


WORDS = ("behind", "inconclusive", "level", "ahead")


def _classes(run: Recorded, threads: int) -> Iterator[str]:
    """The mean of every class, and over classes."""
    yield from ("", f"## Classes, {threads} thread(s)", "")
    yield from _head("class", "geometric mean", "asked", "rows", *WORDS, "of the bound", "")
    means: dict[str, Mean] = {}
    for kind in CLASSES:
        mine = [p for p in run.verdicts if p[1] == threads and run.kinds[p[0]] == kind]
        found = [run.verdicts[place] for place in mine]
        mean = geometric_mean(found)
        if mean is None:
            continue
        means[kind] = mean
        shares = [share for place in mine if (share := _of_bound(run, place))]
        share = math.exp(sum(map(math.log, shares)) / len(shares)) if shares else None
        asked = BARS.get(kind, BAR)
        met = mean.ratio <= asked or (share or 0) >= OF_BOUND
        words = [str(sum(v.word == word for v in found)) for word in WORDS]
        told = "–" if share is None else f"{share:.0%}"
        yield _row([kind, _mean(mean), f"{asked:.2f}", str(mean.rows), *words, told, _met(met)])
    for what, kinds in (
        ("over classes", list(means)),
        ("over classes without overhead", [kind for kind in means if kind != OVERHEAD]),
    ):
        over = mean_of_classes([means[kind] for kind in kinds])
        if over is not None:
            cells = [what, _mean(over), f"{BAR:.2f}", str(over.rows), *[""] * len(WORDS), ""]
            yield _row([*cells, _met(over.ratio <= BAR)])


def _listed(word: str, found: Sequence[Verdict]) -> Iterator[str]:
    yield from ("", f"## Rows {word}", "")
    if not found:
        yield "none"
        return
    yield from _head("row", "ratio", "95 %, all rows at once", "processes", "beside")
    for v in sorted(found, key=lambda v: -v.ratio):
        cells = [v.row, f"{v.ratio:.3f}", f"{v.low:.3f} to {v.high:.3f}", str(v.compared.count)]
        yield _row([*cells, ", ".join(v.compared.peers)])


def _lacking(run: Recorded) -> Iterator[str]:
    """Rows that xlac fails or that have no verdict: they count as not met."""
    yield from ("", "## Rows without a verdict", "")
    lines = []
    for place in run.places:
        failed = run.failures(place, OURS)
        if failed:
            lines.append(f"- {_name(place)}: xlac fails: {failed[0][:300]}")
        elif place not in run.verdicts:
            counts = [(n, len(run.processes(place, n))) for n in run.contenders(place)]
            told = ", ".join(f"{name} {count}" for name, count in counts)
            lines.append(f"- {_name(place)}: fewer than {LEAST} processes ({told})")
    yield from lines or ["none"]


def _figures(run: Recorded, threads: int) -> Iterator[str]:
    """The time of every contender on every row: median of processes, spread, bursts."""
    places = [place for place in run.places if place[1] == threads]
    names = _names(run, places)
    yield from ("", f"## Times, {threads} thread(s)", "")
    yield "The median process; in brackets the spread of processes and how many bursts."
    yield ""
    yield from _head("class", "row", "unit", *names, "ratio", "95 %, all rows at once", "")
    for place in places:
        times = {name: run.seconds(place, name) for name in names}
        known = [t for t in times.values() if t is not None]
        if not known:
            continue
        scale, unit = (1e3, "ms") if min(known) > 1e-3 else (1e6, "µs")
        cells = [run.kinds[place[0]], place[0], unit]
        for name, seconds in times.items():
            if seconds is None:
                cells.append("–")
                continue
            bursts = sum(len(p.bursts) for p in run.processes(place, name))
            spread = f"{run.spread(place, name):.0%}"
            cells.append(f"{seconds * scale:.4g} ({spread}, {bursts})")
        verdict = run.verdicts.get(place)
        if verdict is None:
            cells += ["", "", ""]
        else:
            interval = f"{verdict.low:.3f} to {verdict.high:.3f}"
            cells += [f"{verdict.ratio:.3f}", interval, verdict.word]
        yield _row(cells)


def _costs(run: Recorded) -> Iterator[str]:
    """Compile times and memory: class by class over each peer's, then row by row."""
    threads = min((place[1] for place in run.places), default=1)
    places = [place for place in run.places if place[1] == threads]
    names = [name for name in _names(run, places) if name not in NOT_PEERS]
    for key, what in COSTS:
        yield from ("", f"## {what[0].upper()}{what[1:]}, {threads} thread(s)", "")
        yield "Geometric means of xlac's over each peer's, over how many rows."
        yield ""
        yield from _head("class", *names)
        for kind in CLASSES:
            cells = [kind]
            for name in names:
                ratios = _ratios(run, [p for p in places if run.kinds[p[0]] == kind], name, key)
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
                cells.append(f"{mean:.2f} ({len(ratios)})" if ratios else "–")
            if set(cells[1:]) != {"–"}:
                yield _row(cells)
    for key, what, form in (
        ("compile_cpu_seconds", "CPU seconds, imports aside, row by row", "{:.2f}"),
        ("peak_rss_mb", "Peak memory, MB, row by row", "{:.0f}"),
        ("rel_error", "Error relative to the largest magnitude", "{:.1e}"),
    ):
        yield from ("", f"## {what}, {threads} thread(s)", "")
        yield from _head("row", OURS, *names)
        for place in places:
            values = [run.figure(place, name, key) for name in (OURS, *names)]
            yield _row([place[0], *("–" if v is None else form.format(v) for v in values)])


def _ratios(run: Recorded, places: Iterable[Place], name: str, key: str) -> list[float]:
    found = []
    for place in places:
        ours, theirs = (run.figure(place, one, key) for one in (OURS, name))
        if ours and theirs:
            found.append(ours / theirs)
    return found


def _not_run(run: Recorded) -> Iterator[str]:
    """What failed, and what the budget did not allow."""
    yield from ("", "## Not run, and failures", "")
    lines = [f"- {one}" for one in (*run.facts["absent"], *run.facts["skipped"])]
    lines += [f"- {row} could not be made: {why}" for row, why in run.samples.rows.items()]
    told = set()
    for place in run.places:
        for name in run.contenders(place):
            for why in run.failures(place, name)[:1]:
                line = f"- {_name(place)}, {name}: {why[:240]}"
                if line not in told:
                    told.add(line)
                    lines.append(line)
    never = [row for row in run.kinds if row not in {place[0] for place in run.places}]
    if never:
        lines.append(f"- not measured at all: {', '.join(never)}")
    yield from lines or ["none"]


def _of_bound(run: Recorded, place: Place) -> float | None:
    """How much of what the machine gave beside xlac's own bursts it reached; None: not known."""
    bursts = [b for p in run.processes(place, OURS) for b in p.bursts if "giga_flops" in b]
    meta, seconds = run.metas.get(place[0]), run.seconds(place, OURS)
    if not bursts or meta is None or seconds is None:
        return None
    rates = (median(b[key] for b in bursts) for key in ("giga_flops", "giga_bytes"))
    least = bound(meta, *rates)
    return least / seconds if least else None


def _names(run: Recorded, places: Iterable[Place]) -> list[str]:
    met = {name for place in places for name in run.contenders(place)}
    return sorted(met, key=lambda name: (name not in NOT_PEERS, name))


def _name(place: Place) -> str:
    return f"{place[0]} t{place[1]}"


def _mean(mean: Mean) -> str:
    return f"{mean.ratio:.3f} ({mean.low:.3f} to {mean.high:.3f})"


_met: Callable[[bool], str] = lambda met: "met" if met else "**not met**"


def _head(*cells: str) -> Iterator[str]:
    yield _row(cells)
    yield "|" + "---|" * len(cells)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
