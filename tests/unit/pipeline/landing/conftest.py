from __future__ import annotations

from pathlib import Path

import pytest

from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import FORMATS, table_of


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def table(kind: str, path: Path) -> Table:
    return table_of(kind, path)
