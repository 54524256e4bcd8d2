"""The spread of leaders, replicas and bytes over brokers, as a table."""

from __future__ import annotations

from rich.table import Table

from highwater.client.balance_sight import Sight
from highwater.errors import Code


def table(sight: Sight) -> Table:
    """A row for each broker, or for each directory of a broker that has several."""
    shown = Table("broker", "rack", "leaders", "preferred", "replicas", "bytes", "directory", box=None)
    for place in sorted(sight.places, key=lambda each: each.id):
        led = sum(leader == place.id for leader in sight.leaders.values())
        preferred = sum(held.replicas[:1] == (place.id,) for held in sight.partitions.values())
        for at, directory in enumerate(sorted(sight.directories[place.id], key=lambda each: each.path)):
            failed = directory.error is not Code.NONE
            count = "-" if failed else str(len(directory.sizes))
            size = "-" if failed else amount(sum(directory.sizes.values()))
            of_broker = (str(place.id), place.rack or "-", str(led), str(preferred)) if at == 0 else ("", "", "", "")
            shown.add_row(*of_broker, count, size, f"{directory.path} (offline)" if failed else directory.path)
    return shown


def amount(size: float) -> str:
    """Bytes, as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
