"""Starts the node of a container, with the rules of Apache Kafka's image.

Settings come from /mnt/shared/config/server.properties and from KAFKA_ variables, which win; if there are neither, from
the file beside this one. The directories are formatted with CLUSTER_ID at the first start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from highwater.cli.origins import of_environment
from highwater.config import format_properties, parse_properties

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
"""The one of Apache's image, if the variable CLUSTER_ID is not set."""


def settings_of(shared: Path, defaults: Path, environment: Mapping[str, str]) -> dict[str, str]:
    given = {name: value for name, (_, value) in of_environment(environment).items()}
    if shared.exists():
        return {**parse_properties(shared.read_text()), **given}
    return given or parse_properties(defaults.read_text())


def with_dynamic_quorum(settings: Mapping[str, str]) -> dict[str, str]:
    """A quorum of one voter that the settings fix, as examples for Apache's image have it, is made a dynamic one, which
    a node can be formatted for. Several fixed voters are left as they are: the node refuses them with the reason."""
    voters = settings.get("controller.quorum.voters", "")
    if not voters or "," in voters:
        return dict(settings)
    rest = {name: value for name, value in settings.items() if name != "controller.quorum.voters"}
    return rest | {"controller.quorum.bootstrap.servers": voters.partition("@")[2]}


def format_options(settings: Mapping[str, str]) -> list[str]:
    """A controller whose quorum is not listed in its settings is the only voter of a new one."""
    is_controller = "controller" in settings.get("process.roles", "")
    return ["--standalone"] if is_controller and "controller.quorum.voters" not in settings else []


def main(shared: str = "/mnt/shared/config", work: str = "/tmp/highwater") -> None:
    defaults = Path(__file__).with_name("server.properties")
    settings = with_dynamic_quorum(settings_of(Path(shared, "server.properties"), defaults, os.environ))
    config = Path(work, "server.properties")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(format_properties(settings))
    cluster = ["--cluster-id", os.environ.get("CLUSTER_ID", CLUSTER_ID)]
    tool = [sys.executable, "-m", "highwater"]
    made = [*tool, "storage", "format", "--ignore-formatted", *cluster, *format_options(settings)]
    # The file has what the variables say.
    others = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    if subprocess.run([*made, "--config", str(config)], env=others, check=False).returncode:
        sys.exit(1)
    # The node takes the place of this process, so that it gets the container's SIGTERM.
    os.execv(sys.executable, [*tool, "node", "--no-environment", "--config", str(config)])


if __name__ == "__main__":
    main(*sys.argv[1:])
