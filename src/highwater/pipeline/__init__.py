"""Topics into tables, topics into Spark and back, on PySpark and against any Kafka.

Nothing here is imported by a broker; Spark finds the connector through the module `pyspark_highwater`.
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
