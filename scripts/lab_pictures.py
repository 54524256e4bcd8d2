"""Draws experiments of the lab: every picture of each, in both languages, at 100 and at 60 columns, to be looked at.

.venv/bin/python scripts/lab_pictures.py /tmp/lab                 # all of them: /tmp/lab/NAME-LANGUAGE-WIDTH.html
.venv/bin/python scripts/lab_pictures.py /tmp/lab leader-killed   # one of them
.venv/bin/python scripts/lab_pictures.py docs                     # the pictures of docs/lab.md

The pages need the fonts DejaVu Sans Mono and NanumGothicCoding.
"""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from highwater.lab.bench import Bench
from highwater.lab.catalogue import EXPERIMENTS
from highwater.lab.drawing import drawn
from highwater.lab.frame import LANGUAGES, Frame

WIDTHS = (100, 60)
SHOWN = {"lab.svg": ("leader-killed", slice(0, 2)), "lab-divergence.svg": ("divergence", slice(1, 3))}
"""What docs/ has: a record that nobody knows of, and the death of the leader; two histories, and one of them again."""
OUTSIDE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A picture in a repository loads nothing from elsewhere."""


PAGE = """<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>{name}</title><style>
@font-face {{{{ font-family: Wide; src: local("NanumGothicCoding"); size-adjust: 120.41%;
  unicode-range: U+1100-11FF, U+3130-318F, U+AC00-D7A3; }}}}
body {{{{ margin: 8px; background: #292929; color: #c5c8c6; }}}}
pre {{{{ font: 16px/1.25 Wide, "DejaVu Sans Mono", monospace; }}}}
</style></head><body><pre>{{code}}</pre></body></html>
"""
"""A Korean letter takes two columns, as on a terminal: its font is made as wide as that."""


def drawn_on_paper(frames: Sequence[Frame], language: str, width: int, shown: slice = slice(None)) -> Console:
    paper = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for number, frame in list(enumerate(frames, 1))[shown]:
        paper.print(drawn(frame, number, len(frames), language, width))
    return paper


def main(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        frames = frames_of(name)
        for language in LANGUAGES:
            for width in WIDTHS:
                paper = drawn_on_paper(frames, language, width)
                page = PAGE.format(language=language, name=name)
                file = folder / f"{name}-{language}-{width}.html"
                file.write_text(paper.export_html(inline_styles=True, theme=SVG_EXPORT_THEME, code_format=page))
                print(file)


def frames_of(name: str) -> list[Frame]:
    with Bench.new_cluster() as cluster:
        return EXPERIMENTS[name].run(cluster).frames


def picture_docs(folder: Path) -> None:
    for file, (name, shown) in SHOWN.items():
        frames = frames_of(name)
        paper = drawn_on_paper(frames, "en", WIDTHS[0], shown)
        picture = paper.export_svg(title=f"highwater lab run {name}", unique_id=Path(file).stem)
        (folder / file).write_text(OUTSIDE_FONTS.sub("", picture))


if __name__ == "__main__":
    logging.getLogger("highwater").addHandler(logging.NullHandler())  # what the nodes log is not part of the story
    if sys.argv[1] == "docs":
        picture_docs(Path(__file__).parents[1] / "docs")
    else:
        main(Path(sys.argv[1]), sys.argv[2:] or list(EXPERIMENTS))
