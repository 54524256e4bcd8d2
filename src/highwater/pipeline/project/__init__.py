"""A small project to begin with: `highwater pipeline init` writes it, and it runs at once."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

TEMPLATES = {
    "pipeline": {"pipeline.yml": "pipeline.yml", "produce.py": "produce.txt", "README.md": "readme.txt"},
    "declarative": {
        "spark-pipeline.yml": "declarative.yml",
        "transformations/orders.py": "transformations.txt",
        "produce.py": "produce.txt",
        "README.md": "declarative_readme.txt",
    },
}
"""For `highwater pipeline land`, or for Spark Declarative Pipelines: the template for each file of the project. Python
and Markdown templates are .txt files here, so that they are not taken for files of this package."""
USUAL_TEMPLATE = "pipeline"

LOCAL = ("127.0.0.1", "localhost")
PORT = 9092
BROKERS = 3
USUAL_SERVERS = ",".join(f"127.0.0.1:{PORT + number}" for number in range(BROKERS))
"""All brokers of `highwater up` without options. With a single address a client could not start while that broker is
down. If there are fewer brokers, the others answer."""


class NotEmpty(Exception):
    """A file of the project is there already."""


def up_command(bootstrap_servers: str) -> str | None:
    """What starts a cluster at these addresses; None where `highwater up` would listen elsewhere."""
    addresses = [address.strip().rpartition(":") for address in bootstrap_servers.split(",")]
    if any(host not in LOCAL or not port.isdecimal() for host, _, port in addresses):
        return None
    ports = [int(port) for _, _, port in addresses]
    first, count = ports[0], len(ports)
    if ports != list(range(first, first + count)):
        return None
    options = ("" if count == BROKERS else f" --brokers {count}") + ("" if first == PORT else f" --port {first}")
    return f"highwater up --data-dir data{options}"


def _cluster_step(bootstrap_servers: str) -> str:
    """How the project's README begins."""
    up = up_command(bootstrap_servers)
    if up is None:
        return f"The cluster at {bootstrap_servers} must be up; its address is in `pipeline.yml` and `produce.py`."
    return (
        "A cluster, in a terminal of its own (any Kafka will do: its address is in `pipeline.yml` and `produce.py`):"
        f"\n\n       {up}"
    )


def write_project(folder: Path, bootstrap_servers: str, template: str = USUAL_TEMPLATE) -> list[Path]:
    """Writes all files, or none. Raises NotEmpty or OSError."""
    wanted = TEMPLATES[template]
    paths = [folder / name for name in wanted]
    for path in paths:
        if path.exists():
            raise NotEmpty(f"{path} is there already: `init` overwrites nothing")
    for path, name in zip(paths, wanted.values(), strict=True):
        text = files(__name__).joinpath(name).read_text(encoding="utf-8")
        text = text.replace("@SERVERS@", bootstrap_servers).replace("@PYTHON@", sys.executable)
        text = text.replace("@CLUSTER@", _cluster_step(bootstrap_servers)).replace("@FOLDER@", str(folder.absolute()))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return paths
