"""`highwater storage`: kafka-storage.sh."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import click

from highwater.cli.command_group import CommandGroup
from highwater.cli.server_properties import read_config
from highwater.cli.tool import Tool, fail
from highwater.config.kinds import ConfigError
from highwater.config.node import NodeConfig
from highwater.controller.features import BOOTSTRAP_LEVELS, unsupported_levels
from highwater.log.meta_properties import MetaProperties, read_meta_properties
from highwater.metadata.features import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, FeaturesImage
from highwater.model import Endpoint, uuid_text
from highwater.storage.format import Format, FormatError, InitialVoter, format_directories, random_directory_id
from highwater.storage.releases import FEATURE_LEVELS, METADATA_LEVELS, metadata_level
from highwater.world.real_disk import RealDisk


@click.group("storage", cls=CommandGroup)
def command() -> None:
    """Format a node's directories, or show how they are formatted."""


@command.command("random-uuid", cls=click.Command)
def random_uuid() -> None:
    """Print a random id, for a cluster or a directory."""
    click.echo(uuid_text(random_directory_id(random.SystemRandom())))


@command.command("info", cls=Tool)
@click.option("-c", "--config", required=True, metavar="FILE", help="The node's configuration.")
def info(config: str) -> None:
    """Show how the directories of a node are formatted."""
    directories = _directories(_load(config))
    found = [path for path in directories if path.is_dir()]
    metas, problems = _inspect(directories)
    if found:
        click.echo("Found log directory:" if len(found) == 1 else "Found log directories:")
        for path in found:
            click.echo(f"  {path}")
        click.echo()
    if metas:
        shown = ", ".join(f"{key}={value}" for key, value in sorted(metas[0].to_properties().items()))
        click.echo(f"Found metadata: {{{shown}}}\n")
    if problems:
        click.echo("Found problem:" if len(problems) == 1 else "Found problems:")
        for problem in problems:
            click.echo(f"  {problem}")
        click.echo()
        sys.exit(1)


def _inspect(directories: list[Path]) -> tuple[list[MetaProperties], list[str]]:
    metas: list[MetaProperties] = []
    problems = []
    for path in directories:
        if not path.is_dir():
            problems.append(f"{path} is not a directory" if path.exists() else f"{path} does not exist")
            continue
        try:
            meta = read_meta_properties(RealDisk(), path)
        except (ValueError, OSError) as error:
            problems.append(f"Error loading {error}")
            continue
        if meta is None:
            problems.append(f"{path} is not formatted.")
            continue
        if metas and metas[0].cluster_id != meta.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif metas and metas[0].node_id != meta.node_id:
            problems.append("Mismatched node IDs between storage directories.")
        metas.append(meta)
    return metas, problems


@command.command("format", cls=Tool)
@click.option("-c", "--config", required=True, metavar="FILE", help="The node's configuration.")
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The cluster's id, as random-uuid makes one.")
@click.option("-s", "--standalone", is_flag=True, help="The only controller of a new quorum.")
@click.option("-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY,…", help="The first voter set.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="A controller that joins a quorum later.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are formatted already.")
@click.option("-r", "--release-version", metavar="VERSION", help="metadata.version by name; 4.3 if missing.")
@click.option("-f", "--feature", multiple=True, metavar="NAME=LEVEL", help="The level of one feature.")
@click.option("-S", "--add-scram", multiple=True, hidden=True)
def format_storage(
    config: str,
    cluster_id: str,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    ignore_formatted: bool,
    release_version: str | None,
    feature: tuple[str, ...],
    add_scram: tuple[str, ...],
) -> None:
    """Format the directories of a node."""
    if add_scram:
        fail("--add-scram is not supported yet")
    if standalone + bool(initial_controllers) + no_initial_controllers > 1:
        fail("Only one of --standalone, --initial-controllers and --no-initial-controllers may be given")
    node = _load(config)
    try:
        voters = _voters(node, standalone, initial_controllers, no_initial_controllers)
        features = feature_levels(release_version, feature, dynamic=not node.voters)
        wanted = Format(
            cluster_id=cluster_id,
            node_id=node.node_id,
            directories=_directories(node),
            metadata_directory=Path(node.metadata_log_dir).absolute(),
            controller_listener=node.controller_listener_names[0],
            voters=voters,
            features={name: level for name, level in features.items() if name != KRAFT_VERSION},
        )
        format_directories(
            RealDisk(),
            wanted,
            now_ms=int(time.time() * 1000),
            random=random.SystemRandom(),
            ignore_formatted=ignore_formatted,
            report=click.echo,
        )
    except (FormatError, ConfigError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"Error while writing meta.properties file {error.filename}: {error}")
    for reason in unsupported_levels(FeaturesImage(wanted.features)):
        click.echo(f"Warning: Highwater cannot run on these directories: {reason}", err=True)


def _load(path: str) -> NodeConfig:
    try:
        return read_config(Path(path))
    except ConfigError as error:
        fail(str(error))


def _directories(node: NodeConfig) -> list[Path]:
    return sorted({Path(name).absolute() for name in (*node.log_dirs, node.metadata_log_dir)})


def _voters(node: NodeConfig, standalone: bool, initial: str | None, later: bool) -> list[InitialVoter]:
    if node.voters and (standalone or initial):
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if standalone:
        if not node.is_controller:
            raise FormatError("You can only use --standalone on a controller.")
        at = node.advertised_controller_listeners[0].endpoint
        endpoint = Endpoint(at.host or "localhost", at.port)
        return [InitialVoter(node.node_id, endpoint, random_directory_id(random.SystemRandom()))]
    voters = [InitialVoter.parse(part) for part in (initial or "").split(",") if part]
    if len({voter.id for voter in voters}) != len(voters):
        raise FormatError("Node ids must be different in --initial-controllers")
    if not voters and not later and node.is_controller and not node.voters:
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return voters


def feature_levels(release: str | None, settings: tuple[str, ...], *, dynamic: bool) -> dict[str, int]:
    """Every feature above level 0: the levels that Highwater supports, with the requested changes. Raises
    FormatError."""
    asked = dict(_feature(text) for text in settings)
    if release is not None and METADATA_VERSION in asked:
        raise FormatError(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    levels = {**BOOTSTRAP_LEVELS, KRAFT_VERSION: int(dynamic)}
    if release is not None:
        try:
            levels[METADATA_VERSION] = metadata_level(release)
        except ValueError as error:
            raise FormatError(str(error)) from error
    if asked.get(METADATA_VERSION, levels[METADATA_VERSION]) < METADATA_LEVELS["4.1-IV0"]:
        del levels[ELR_VERSION]  # it was not a default then
    for name, level in asked.items():
        if name == METADATA_VERSION:
            allowed = level in METADATA_LEVELS.values()
        elif name in FEATURE_LEVELS:
            allowed = 0 <= level <= FEATURE_LEVELS[name]
        else:
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {', '.join(FEATURE_LEVELS)}")
        if not allowed:
            raise FormatError(f"No feature:{name} with feature level {level}")
    if asked.get(KRAFT_VERSION, int(dynamic)) != int(dynamic):
        raise FormatError(
            f"Cannot set {KRAFT_VERSION} to {asked[KRAFT_VERSION]} "
            + ("if" if dynamic else "unless")
            + " controller.quorum.voters is empty."
        )
    return {**levels, **asked}


def _feature(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise FormatError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        raise FormatError(
            f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short."
        ) from None
