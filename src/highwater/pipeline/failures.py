"""Why a query failed, in one line, and whether trying again can help.

A failure in Python, on an executor or in Spark's process beside the driver, comes back as text: a traceback somewhere
in Spark's own message, followed by the query's plan. This module finds the exception's name in that text and
classifies the failure by it.
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass

from highwater.client.failures import AuthenticationFailed, UnsupportedApi
from highwater.errors import Code, KafkaError
from highwater.kernel import BadRecords
from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.loss import DataLoss, Kind

LONGEST = 600

_FINAL: tuple[type[BaseException], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    AuthenticationFailed,
    BadRecords,
    DataLoss,
    ImportError,
    LandingError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
    UnsupportedApi,
    ValueError,
)
"""The same input gives them again. Among values are our BadOption, Mistake and InUse, and what Arrow finds invalid."""

_FINAL_NAMES = ("AnalysisException", "ParseException")
"""Spark's own."""

_FINAL_CODES = (
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.INVALID_TOPIC_EXCEPTION,
    Code.MESSAGE_TOO_LARGE,
    Code.RECORD_LIST_TOO_LARGE,
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.UNSUPPORTED_VERSION,
)

_FINAL_WORDS = (*(code.description for code in _FINAL_CODES), "bytes is larger than")

_FINAL_STATES = ("0A", "21", "22", "23", "42")
"""Classes of SQL states: what is not supported, cardinality, data (a cast, a division by zero), constraints, syntax."""

_TRACEBACK = "Traceback (most recent call last):"
_PLAN = "\n=== Streaming Query ==="
_BEHIND = re.compile(
    r"\n\s*SQLSTATE: |\n\s*at |\n\nDuring handling|\n\nThe above exception|\n\nDriver stacktrace|;?\n'"
)
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.DOTALL)
_STATE = re.compile(r"SQLSTATE: (\w{2})\w{3}")
_TRUSTED = ("highwater", "pyarrow", "pyspark")
"""Packages that a name in a text may make us import."""


@dataclass(frozen=True, slots=True)
class Failure:
    cause: str
    """One line for people."""
    is_final: bool
    """Whether another attempt with the same definition would end the same way."""


def failure_of(error: BaseException) -> Failure:
    """The description of an exception that ended a query, raised here or reported by Spark."""
    kind, text = type(error), str(error)
    if kind.__module__.partition(".")[0] != "pyspark":
        return Failure(_said(kind.__qualname__, kind, text), _is_final(kind, text, getattr(error, "code", None)))
    return failure_in(text, kind)


def failure_in(text: str, kind: type[BaseException] | None = None) -> Failure:
    """The same, from the text of an exception of Spark's."""
    before_plan = text.partition(_PLAN)[0]
    _, found, traceback = before_plan.rpartition(_TRACEBACK)
    raised = _raised(traceback) if found else None
    if raised is not None:
        name, message = raised
        python = _class(name)
        return Failure(_said(name, python, message), _is_final(python, message))
    message = _BEHIND.split(before_plan.rpartition("terminated with exception: ")[2], maxsplit=1)[0]
    states = _STATE.findall(before_plan)
    is_final = any(state in _FINAL_STATES for state in states) or _is_final(kind, message)
    return Failure(_one_line(re.sub(r" SQLSTATE: \w{5}.*", "", message, flags=re.DOTALL)), is_final)


def _raised(traceback: str) -> tuple[str, str] | None:
    """The name and the message at the end of a traceback, whose other lines are indented."""
    lines = traceback.lstrip("\n").split("\n")
    for at, line in enumerate(lines):
        if line and not line[0].isspace():
            found = _RAISED.fullmatch(_BEHIND.split("\n".join(lines[at:]), maxsplit=1)[0].strip())
            return None if found is None else (found[1], found[2] or "")
    return None


def _class(name: str) -> type[BaseException] | None:
    module, _, qualname = name.rpartition(".")
    if module.partition(".")[0] in _TRUSTED:
        try:
            importlib.import_module(module)
        except ImportError:
            return None
    found = getattr(sys.modules.get(module or "builtins"), qualname, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _is_final(kind: type[BaseException] | None, message: str, code: object = None) -> bool:
    if kind is None:
        return False
    if issubclass(kind, KafkaError):
        # A text has no code, but mostly its description.
        return code in _FINAL_CODES or any(words in message for words in _FINAL_WORDS)
    if issubclass(kind, DataLoss):
        # A topic that one broker does not know may be there the next time; the others are known by ids and epochs.
        return Kind.DELETED.value not in message
    return issubclass(kind, _FINAL) or kind.__name__ in _FINAL_NAMES


def _said(name: str, kind: type[BaseException] | None, message: str) -> str:
    """Ours speak for themselves; of others the name is half of what they say."""
    ours = kind is not None and kind.__module__.partition(".")[0] == "highwater"
    return _one_line(message) if ours and message else _one_line(f"{name}: {message}" if message else name)


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= LONGEST else joined[: LONGEST - 1] + "…"
