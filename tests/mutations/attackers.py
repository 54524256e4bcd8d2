"""Faults that an attack on a node or on `up` proved: what a client may leave in the metadata, and long lists."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_CONFIGS = "tests/unit/controller/test_configs.py"
_ALTERATION = "src/highwater/config/alteration.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F960",
        f"{_CONFIGS}::test_a_broker_has_a_thousand_settings_at_most_with_those_that_it_has_already",
        _ALTERATION,
        "if len(before) < len(after) > MOST_SETTINGS:",
        "if False:",
    ),
    Mutation(
        "F960",
        f"{_CONFIGS}::test_the_settings_of_a_broker_have_a_mebibyte_of_characters_at_most_with_their_names",
        _ALTERATION,
        "if _characters(before) < (size := _characters(after)) > MOST_CHARACTERS:",
        "if (size := 0):",
    ),
    Mutation(
        "F960",
        f"{_CONFIGS}::test_settings_beyond_the_bounds_that_are_there_already_may_be_made_less",
        _ALTERATION,
        "if len(before) < len(after) > MOST_SETTINGS:",
        "if len(after) > MOST_SETTINGS:",
    ),
]
