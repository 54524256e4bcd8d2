"""Short forms of the tools, in the place of Kafka's flags."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from highwater.cli import main
from highwater.cli.verbs import VERBS, WrongVerb, with_flags

SPELLED = {
    "topics create orders --partitions 3": "--create --topic orders --partitions 3",
    "topics create --topic orders": "--create --topic orders",
    "topics list": "--list",
    "topics list ord.*": "--list --topic ord.*",
    "topics describe orders": "--describe --topic orders",
    "topics describe --under-replicated-partitions": "--describe --under-replicated-partitions",
    "topics delete a.b": "--delete --topic a[.]b",
    "topics alter orders --partitions 5": "--alter --topic orders --partitions 5",
    "groups list -o json": "--list -o json",
    "groups describe": "--describe --all-groups",
    "groups describe a b": "--describe --group a --group b",
    "groups delete a b": "--delete --group a --group b",
    "groups delete --all-groups": "--delete --all-groups",
    "groups reset-offsets --all-groups --all-topics --to-earliest": (
        "--reset-offsets --all-groups --all-topics --to-earliest"
    ),
    "topics create --help": "--create --help",
    "configs describe orders --all": "--describe --topic orders --all",
    "configs describe --broker 1": "--describe --broker 1",
    "configs alter orders --add-config a=b": "--alter --topic orders --add-config a=b",
    "topics --list": "--list",
    "get-offsets orders": "orders",
}
WRONG = {
    "topics crate orders": "topics has no verb 'crate': did you mean 'create'?",
    "topics zork": "topics has no verb 'zork': there are create, list, describe, alter, delete",
    "topics create": "topics create needs a name: highwater topics create TOPIC",
    "topics delete --if-exists": "topics delete needs a name: highwater topics delete TOPIC",
    "topics delete a b": "topics delete takes one name, but got 2: a b",
    "groups list a": "groups list takes no name, but got 1: a",
    "groups delete": "groups delete needs a name: highwater groups delete GROUP…",
    "configs describe": "configs describe needs a name: highwater configs describe TOPIC",
}


@pytest.mark.parametrize("line", SPELLED)
def test_a_verb_stands_for_flags(line: str) -> None:
    tool, *args = line.split()
    assert with_flags(tool, args) == SPELLED[line].split()


@pytest.mark.parametrize("line", WRONG)
def test_a_verb_that_cannot_be_understood_is_reported_in_one_line(line: str) -> None:
    tool, *args = line.split()
    with pytest.raises(WrongVerb) as caught:
        with_flags(tool, args)
    assert str(caught.value) == WRONG[line]
    done = CliRunner().invoke(main, line.split())
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"{WRONG[line]}\n")


@pytest.mark.parametrize("tool", VERBS)
def test_every_verb_is_in_the_help_of_its_tool_and_its_flags_exist(tool: str) -> None:
    shown = CliRunner().invoke(main, [tool, "--help"]).stdout
    short = shown.partition("Short forms:")[2]
    for name, verb in VERBS[tool].items():
        assert f"  {name} {verb.usage}".rstrip() in short
        for flag in (verb.flag, verb.option or verb.flag, *verb.without_names):
            assert f"  {flag} " in shown.partition("Short forms:")[0], flag


def test_a_mistake_behind_a_verb_is_reported_without_the_whole_usage() -> None:
    done = CliRunner().invoke(main, ["topics", "create", "orders", "--parttions", "3"], prog_name="highwater")
    assert (done.exit_code, done.stderr.splitlines()) == (
        1,
        [
            "parttions is not a recognized option: did you mean --partitions?",
            "'highwater topics --help' lists the options",
        ],
    )


@pytest.mark.parametrize(("tool", "verb"), [(tool, verb) for tool, verbs in VERBS.items() for verb in verbs])
def test_help_behind_a_verb_is_the_help_of_its_tool(tool: str, verb: str) -> None:
    done = CliRunner().invoke(main, [tool, verb, "--help"])
    assert (done.exit_code, done.stdout) == (0, CliRunner().invoke(main, [tool, "--help"]).stdout)


def test_a_name_behind_options_is_reported_with_the_rule() -> None:
    done = CliRunner().invoke(main, ["topics", "create", "--partitions", "3", "--topic", "a", "orders"])
    assert done.exit_code == 1
    assert "names come right after the verb" in done.stderr


def test_verbs_are_completed() -> None:
    typed = {"_HIGHWATER_COMPLETE": "bash_complete", "COMP_WORDS": "highwater topics de", "COMP_CWORD": "2"}
    done = CliRunner().invoke(main, [], prog_name="highwater", env=typed)
    assert done.output.split() == ["plain,describe", "plain,delete"]


def test_a_tool_without_options_says_in_a_sentence_what_it_does_and_shows_its_usage() -> None:
    done = CliRunner().invoke(main, ["balance"], prog_name="highwater")
    assert (done.exit_code, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith("Show how leaders, replicas") and second == "Usage: highwater balance [OPTIONS]"
    assert done.stderr.count("Few bytes are moved") == 1
