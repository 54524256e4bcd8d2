"""Recordings of the lab in a folder: their names, and the text of one. The page reads and replays them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from highwater.console.given import BadQuestion
from highwater.console.requests import answered, problem

ENDINGS: Final = (".jsonl", ".ndjson")
MOST_LISTED: Final = 200
MOST_BYTES: Final = 16 << 20


class Recordings:
    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def _files(self) -> dict[str, Path]:
        """Only what is listed can be read, so that no name leads out of the folder."""
        if self._folder is None:
            return {}
        try:
            found = sorted(each for each in self._folder.iterdir() if each.suffix in ENDINGS and each.is_file())
        except OSError as failed:
            raise BadQuestion(f"{self._folder}: {failed.strerror}") from failed
        return {each.name: each for each in found[:MOST_LISTED]}

    async def names(self, request: Request) -> Response:
        def work() -> dict[str, Any]:
            sizes = {name: _size(path) for name, path in self._files().items()}
            listed = [{"name": name, "size": str(size)} for name, size in sizes.items() if size is not None]
            return {"folder": self._folder is not None, "recordings": listed}

        return await answered(work)

    async def text(self, request: Request) -> Response:
        name = request.path_params["name"]

        def work() -> Response:
            path = self._files().get(name)
            size = None if path is None else _size(path)
            if path is None or size is None:
                return problem(404, "there is no such recording")
            if size > MOST_BYTES:
                return problem(413, f"a recording may have {MOST_BYTES} bytes")
            try:
                return PlainTextResponse(path.read_text("utf-8", errors="replace"))
            except OSError as failed:
                return problem(404, f"{name}: {failed.strerror}")

        return await answered(work)


def _size(path: Path) -> int | None:
    """None for a file that has just gone."""
    try:
        return path.stat().st_size
    except OSError:
        return None
