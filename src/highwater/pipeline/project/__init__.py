"""A small project to begin with: `highwater pipeline init` writes it, and it runs at once."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

FILES = {"pipeline.yml": "pipeline.yml", "produce.py": "produce.txt", "README.md": "readme.txt"}
"""By the name in the project: the template. Python and Markdown are texts here, so that nobody takes them for ours."""


class NotEmpty(Exception):
    """A file of the project is there already."""


def up_command(bootstrap_servers: str) -> str:
    """What starts a cluster at the first of these addresses, if that is on this machine."""
    host, _, port = bootstrap_servers.split(",")[0].strip().rpartition(":")
    is_usual = port in ("", "9092") or host not in ("127.0.0.1", "localhost")
    return "highwater up --data-dir data" + ("" if is_usual else f" --port {port}")


def write_project(folder: Path, bootstrap_servers: str) -> list[Path]:
    """Writes all files, or none. Raises NotEmpty or OSError."""
    paths = [folder / name for name in FILES]
    for path in paths:
        if path.exists():
            raise NotEmpty(f"{path} is there already: `init` overwrites nothing")
    folder.mkdir(parents=True, exist_ok=True)
    for path, template in zip(paths, FILES.values(), strict=True):
        text = files(__name__).joinpath(template).read_text(encoding="utf-8")
        text = text.replace("@SERVERS@", bootstrap_servers).replace("@PYTHON@", sys.executable)
        text = text.replace("@UP@", up_command(bootstrap_servers))
        path.write_text(text, encoding="utf-8")
    return paths
