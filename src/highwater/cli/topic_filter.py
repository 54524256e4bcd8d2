"""The topics that a --topic option means: a regular expression; commas separate alternatives."""

from __future__ import annotations

import re

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TopicFilter:
    """Raises ValueError for an invalid regular expression."""

    def __init__(self, expression: str) -> None:
        self.expression = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(self.expression)
        except re.error as error:
            raise ValueError(f"{self.expression} is an invalid regex.") from error

    def allows(self, topic: str, *, exclude_internal: bool = False) -> bool:
        if exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return self._pattern.fullmatch(topic) is not None
