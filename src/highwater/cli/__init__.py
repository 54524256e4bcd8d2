"""The `highwater` command: one module for each subcommand, loaded only when it is called.

The package may use everything else. Start with `tool` (what the tools share), then a tool such as `topics`, or `up` and
`node` for running a cluster.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from highwater.cli.command_group import CommandGroup


class Noun(NamedTuple):
    """The module of a command, its line in --help, and the name of the click command in the module."""

    module: str
    summary: str
    attribute: str = "command"


NOUNS: dict[str, Noun] = {
    "up": Noun("highwater.cli.up", "Start a cluster on this machine, and keep it up until Ctrl-C."),
    "down": Noun("highwater.cli.control", "Stop the cluster of `up`, in order, and wait for its end.", "down"),
    "kill": Noun("highwater.cli.control", "Kill nodes of `up` with SIGKILL.", "kill"),
    "start": Noun("highwater.cli.control", "Start nodes of `up` again that died.", "start"),
    "pause": Noun("highwater.cli.control", "Pause nodes of `up`.", "pause"),
    "resume": Noun("highwater.cli.control", "Let paused nodes of `up` go on.", "resume"),
    "cut": Noun("highwater.cli.control", "Cut the link between two nodes of `up`.", "cut"),
    "slow": Noun("highwater.cli.control", "Delay the bytes between two nodes of `up`.", "slow"),
    "heal": Noun("highwater.cli.control", "Heal the links of `up` that were cut or slowed.", "heal"),
    "node": Noun("highwater.cli.node", "Run one node in the foreground."),
    "status": Noun("highwater.cli.status", "Show how a cluster stands: a verdict, trouble first, with reasons."),
    "doctor": Noun("highwater.cli.doctor.command", "Examine a cluster or a node: what is wrong, and what to do."),
    "top": Noun("highwater.cli.top", "Watch brokers, partitions and groups live, on the whole screen."),
    "console": Noun("highwater.cli.console", "Serve the web console of a cluster, of any Kafka."),
    "demo": Noun("highwater.cli.demo.command", "See orders flow into a table while a leader is killed, and a verdict."),
    "pipeline": Noun("highwater.cli.pipeline", "Land topics in tables, exactly once, with Spark."),
    "lab": Noun("highwater.cli.lab", "Watch replication happen: experiments, narrated and drawn as lanes."),
    "sim": Noun("highwater.cli.sim", "Run clusters in the simulated world, under seeded faults."),
    "storage": Noun("highwater.cli.storage", "Format a node's directories, or show how they are formatted."),
    "topics": Noun("highwater.cli.topics", "Create, delete, describe or change topics."),
    "configs": Noun("highwater.cli.configs", "Describe or change the settings of topics and brokers."),
    "console-producer": Noun("highwater.cli.console_producer", "Send lines from standard input to a topic."),
    "console-consumer": Noun("highwater.cli.console_consumer", "Print the records of topics."),
    "producer-perf": Noun("highwater.cli.producer_perf", "Measure how fast records are sent to a topic."),
    "consumer-perf": Noun("highwater.cli.consumer_perf", "Measure how fast records are read from topics."),
    "get-offsets": Noun("highwater.cli.get_offsets", "Show the offsets of partitions, by position or time."),
    "groups": Noun("highwater.cli.groups", "List, describe and delete consumer groups, and change their offsets."),
    "delete-records": Noun("highwater.cli.delete_records", "Delete records up to given offsets."),
    "leader-election": Noun("highwater.cli.leader_election", "Elect preferred leaders, or unclean ones."),
    "reassign": Noun("highwater.cli.reassign", "Move partitions to other brokers."),
    "balance": Noun("highwater.cli.balance", "Spread leaders, replicas and bytes evenly over brokers."),
    "cluster": Noun("highwater.cli.cluster", "Show the id or the endpoints of a cluster, or unregister a broker."),
    "quorum": Noun("highwater.cli.quorum", "Describe the metadata quorum."),
    "features": Noun("highwater.cli.features", "Describe the features of a cluster and their levels."),
    "broker-api-versions": Noun("highwater.cli.broker_api_versions", "Show the APIs that each broker answers."),
    "log-dirs": Noun("highwater.cli.log_dirs", "Show how large the logs in the directories of brokers are."),
    "dump-log": Noun("highwater.cli.dump_log", "Print segments, indexes, snapshots and checkpoints."),
}


class LazyGroup(CommandGroup):
    """Lists its commands without importing them, so --help costs no more than click itself."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        noun = NOUNS.get(cmd_name)
        if noun is None:
            return None
        command: click.Command = getattr(import_module(noun.module), noun.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, noun.summary) for name, noun in NOUNS.items()])


def show_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Also shows the kernel, because an install without a C compiler is slower and looks the same otherwise."""
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    from highwater import kernel

    click.echo(f"highwater, version {version('highwater')}\nkernel: {kernel.DESCRIPTION}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version,
              help="Show the version, and which kernel runs.")  # fmt: skip
def main() -> None:
    """A Kafka-compatible, replicated commit log. The tools take the flags of Kafka's own, and speak to any Kafka."""
