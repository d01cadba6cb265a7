"""Times of several programs as bars, in SVG: one file, no scripts, no fonts of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, LEFT, RIGHT, ROW, TOP = 760, 240, 110, 34, 46
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.grid{stroke:#ccc}.whisker{stroke:#222}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.whisker{stroke:#ddd}}"
)


@dataclass(frozen=True, slots=True)
class TimeBar:
    """A bar: its title, the kind that its colour shows, and microseconds: the median and both
    quartiles.
    """

    title: str
    kind: str
    median: float
    low: float
    high: float


def svg(bars: Sequence[TimeBar], title: str) -> str:
    """The bars, from zero, with whiskers from quartile to quartile."""
    longest = max(bar.high for bar in bars)
    unit, size = ("ms", 1e3) if longest >= 1e4 else ("us", 1.0)
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + ROW * len(bars) + 34
    colours = dict(zip(dict.fromkeys(bar.kind for bar in bars), COLOURS * len(bars), strict=False))
    bottom = TOP + ROW * len(bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text x="12" y="24" style="font-weight:600">{escape(title)}</text>',
    ]
    for tick in ticks(longest):
        x = LEFT + tick * scale
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}"/>'
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick / size:g}</text>'
        )
    parts.append(f'<text x="{WIDTH - 12}" y="{bottom + 18}" text-anchor="end">{unit}</text>')
    for place, bar in enumerate(bars):
        y, middle = TOP + ROW * place, TOP + ROW * place + ROW / 2 - 2
        low, high = LEFT + bar.low * scale, LEFT + bar.high * scale
        at, wide, colour = f"{middle + 4:.1f}", f"{bar.median * scale:.1f}", colours[bar.kind]
        name = escape(bar.title)
        parts += [
            f'<text x="{LEFT - 10}" y="{at}" text-anchor="end">{name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{wide}" height="{ROW - 8}" fill="{colour}"/>',
            f'<path class="whisker" d="M{low:.1f} {middle:.1f}H{high:.1f}"/>',
            f'<text x="{high + 8:.1f}" y="{at}">{bar.median / size:.4g} {unit}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def ticks(longest: float) -> list[float]:
    """Round numbers from 0 to at most `longest`, three to eight of them."""
    step: float = 10 ** floor(log10(longest))
    for smaller in (0.5, 0.2):
        if longest / step < 3:
            step = 10 ** floor(log10(longest)) * smaller
    return [number * step for number in range(int(longest / step) + 1)]
