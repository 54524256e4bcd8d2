"""Faults that reviews proved: the connector, the dead letters and the jobs."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = [
    Mutation(
        "F24",
        "tests/unit/kernel/test_kernel.py::test_columns_are_cut_by_bytes_and_by_rows_wherever_a_section_ends[pure]",
        "src/highwater/kernel/pure.py",
        "if rows and (size + taken > most or len(rows) >= wanted.batch_rows):",
        "if rows and len(rows) >= wanted.batch_rows:",
    ),
]
