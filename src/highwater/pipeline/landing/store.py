"""Object stores, by `deltalake`'s own access to them: what a Delta table needs beside its transactions.

An object appears whole, when it is closed, and a write that must not replace another asks the store for that: the log's
entries are written so. Nothing needs to be synced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from highwater.client.references import resolved
from highwater.pipeline.landing.partitioning import WHOLE, Partitioning

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def is_in_store(path: str) -> bool:
    return path.partition("://")[0] in SCHEMES and "://" in path


@dataclass(frozen=True)
class Store:
    """A folder in a store. Travels to the executors, so it holds references to secrets and looks them up itself."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)
    """deltalake's; what is not there comes from the environment."""

    def known_options(self) -> dict[str, str]:
        """Raises ValueError for a secret that is not there."""
        return {name: resolved(value) for name, value in self.options.items()}

    def filesystem(self) -> Any:
        return _filesystem(self.uri, tuple(sorted(self.known_options().items())))

    def create(self, name: str) -> pa.NativeFile:
        return self.filesystem().open_output_stream(name)

    def read(self, name: str) -> bytes | None:
        """None where there is no such object."""
        try:
            with self.filesystem().open_input_file(name) as opened:
                content: bytes = opened.read()
                return content
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        from pyarrow.fs import FileSelector

        found = self.filesystem().get_file_info(FileSelector(folder, allow_not_found=True))
        return sorted(info.base_name for info in found if info.is_file)

    def remove(self, name: str) -> None:
        try:
            self.filesystem().delete_file(name)
        except FileNotFoundError:
            return


@lru_cache(maxsize=8)
def _filesystem(uri: str, options: tuple[tuple[str, str], ...]) -> Any:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(uri, dict(options)))


@dataclass(frozen=True, slots=True)
class ObjectStaging:
    """Data files of a Delta table in a store."""

    store: Store
    required: tuple[str, ...] = ()
    partitioning: Partitioning = WHOLE

    def create(self, name: str) -> tuple[str, pa.NativeFile]:
        return f"{self.store.uri}/{name}.parquet", self.store.create(f"{name}.parquet")

    def seal(self, location: str) -> None:
        """An object is whole and kept once it is closed."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The log of a Delta table in a store."""

    store: Store

    def names(self) -> list[str]:
        return self.store.names("_delta_log")

    def read(self, name: str) -> bytes | None:
        return self.store.read(f"_delta_log/{name}")

    def sync(self, names: Iterable[str]) -> None:
        """What a store has answered for is kept."""
