"""The ratios as a picture: one bar per row on a logarithmic scale, to the right of the line where ours is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.report import Result, figure

BAR, GAP, LABELS, WIDTH, TOP = 16, 8, 300, 960, 48
OURS, THEIRS, INK, RULE = "#1f7a5c", "#b4472f", "#222222", "#cccccc"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def draw(results: Sequence[Result], ours: str, theirs: str, path: Path) -> None:
    """An SVG file. A figure of which less is better is turned round, so that longer to the right is always better."""
    gains = [(result, gain) for result in results if (gain := _gain(result, ours, theirs)) is not None]
    reach = max((abs(math.log10(gain)) for _, gain in gains), default=1.0)
    reach = max(reach, math.log10(2)) * 1.15
    height = TOP + len(gains) * (BAR + GAP) + 30

    def x(gain: float) -> float:
        half = (WIDTH - LABELS - 40) / 2
        return LABELS + half + math.log10(gain) / reach * half

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        f' font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-size="15">{escape(ours)} beside {escape(theirs)}: how many times better</text>',
    ]
    for tick in TICKS:
        if abs(math.log10(tick)) <= reach:
            parts.append(f'<path d="M{x(tick):.1f} {TOP - 6}V{height - 24}" stroke="{INK if tick == 1 else RULE}"/>')
            parts.append(f'<text x="{x(tick):.1f}" y="{height - 8}" text-anchor="middle">{tick:g}x</text>')
    for at, (result, gain) in enumerate(gains):
        top = TOP + at * (BAR + GAP)
        left, right = sorted((x(1), x(gain)))
        colour = OURS if gain >= 1 else THEIRS
        parts.append(f'<text x="{LABELS - 8}" y="{top + 12}" text-anchor="end">{escape(result.row.name)}</text>')
        parts.append(
            f'<rect x="{left:.1f}" y="{top}" width="{max(right - left, 1):.1f}" height="{BAR}" fill="{colour}">'
            f"<title>{escape(_words(result, ours, theirs))}</title></rect>"
        )
        anchor, beyond = ("start", right + 4) if gain >= 1 else ("end", left - 4)
        parts.append(f'<text x="{beyond:.1f}" y="{top + 12}" text-anchor="{anchor}">{gain:.2g}x</text>')
    path.write_text("\n".join([*parts, "</svg>\n"]))


def _gain(result: Result, ours: str, theirs: str) -> float | None:
    ratio = result.ratio(ours, theirs)
    if not ratio:
        return None
    return ratio if result.row.better == "more" else 1 / ratio


def _words(result: Result, ours: str, theirs: str) -> str:
    unit = result.row.unit
    return f"{figure(result.median(ours))} {unit} beside {figure(result.median(theirs))} {unit}"
