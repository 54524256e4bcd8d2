"""The security of a source or sink from its `kafka.…` options, and the rule that a pipeline's secrets are references.

What is given to Spark as an option is in Spark's hands: plans and logs show it unless its name looks like a secret's.
So a pipeline hands on references alone (`highwater.client.references`), and each process looks them up for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from highwater.client.security import WRITTEN_OUT, Security, is_of_security

PREFIX = "kafka."
_TELLING = re.compile(r"ssl|jaas|password|passwd|secret|token|credential|key", re.IGNORECASE)

_STORED = re.compile(r"secret|token|passw|credential|account.?key|sas", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|file|directory):")


def may_be_secret(name: str) -> bool:
    """Whether the value of an option that we do not know is better not shown."""
    return _TELLING.search(name) is not None


def security_of(options: Mapping[str, str]) -> Security:
    """Raises ValueError, which begins with the option's name."""
    given = {name.lower(): text for name, text in options.items()}
    try:
        return Security.of({name.removeprefix(PREFIX): given[name] for name in given if name.startswith(PREFIX)})
    except ValueError as error:
        raise ValueError(f"{PREFIX}{error}") from None


def is_secured(options: Iterable[str]) -> bool:
    """Whether the options say anything of security."""
    return any(is_of_security(name.lower().removeprefix(PREFIX)) for name in options)


def check_references(options: Mapping[str, str]) -> None:
    """Raises ValueError for a secret that is written out."""
    if (name := security_of(options).open_secret) is not None:
        raise ValueError(f"{PREFIX}{name}: the secret in it {WRITTEN_OUT}")


def check_stores(options: Mapping[str, str]) -> None:
    """Raises ValueError for a secret of an object store or a catalog that is written out."""
    for name, value in options.items():
        if name.lower().startswith(("storage.", "catalog.")) and _STORED.search(name) and not _REFERENCE.search(value):
            raise ValueError(f"{name}: the secret in it {WRITTEN_OUT}")
