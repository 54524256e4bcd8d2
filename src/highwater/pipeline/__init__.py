"""Topics into tables, and topics into Spark and back, on PySpark and against any Kafka.

No broker imports this package. It may use only the client, the wire formats, the kernel, the audit, `config`, `errors`
and `model`. Spark finds the connector through the module `pyspark_highwater`.

Start with `definition` (what a pipeline file contains), `job` (how `highwater pipeline land` runs it), `stream` (the
source) and `landing` (the tables).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.pipeline.fluent import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    """Loaded on first use: executors, which import their part of this package, have no need of it."""
    if name == "Pipeline":
        from highwater.pipeline.fluent import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
