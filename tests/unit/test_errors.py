"""The error table, judged by Apache Kafka's own."""

from __future__ import annotations

from highwater.errors import Code, KafkaError, code_of, is_retriable
from tests.wire.java.oracle import ask


def test_the_table_is_kafkas_in_names_numbers_and_retriability() -> None:
    ours = [f"{int(code)} {code.name} {str(code.retriable).lower()}" for code in Code]
    assert ours == ask("ErrorTable")


def test_every_code_says_what_it_means() -> None:
    assert all(code.description for code in Code)
    assert len({code.description for code in Code}) == len(Code)


def test_an_error_carries_its_code_and_a_message() -> None:
    assert KafkaError(Code.INVALID_CONFIG, "no such setting").message == "no such setting"
    error = KafkaError(Code.NOT_CONTROLLER)
    assert (error.code, str(error)) == (Code.NOT_CONTROLLER, Code.NOT_CONTROLLER.description)
    assert repr(error) == f"KafkaError(NOT_CONTROLLER, {error.message!r})"


def test_a_number_that_is_not_in_the_table_is_not_retriable_and_counts_as_unknown() -> None:
    assert is_retriable(Code.LEADER_NOT_AVAILABLE) and not is_retriable(Code.NONE)
    assert not is_retriable(9999) and code_of(9999) is Code.UNKNOWN_SERVER_ERROR
    assert code_of(41) is Code.NOT_CONTROLLER
