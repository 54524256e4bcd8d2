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
    Mutation(
        "F29",
        "tests/unit/pipeline/test_dead_letters.py"
        "::test_a_bad_record_dated_beyond_the_calendar_is_a_dead_letter_like_any_other",
        "src/highwater/pipeline/dead_letters.py",
        'times = bad.column("timestamp").cast(pa.int64()).to_pylist()',
        'times = [round(each.timestamp() * 1e6) for each in bad.column("timestamp").to_pylist()]',
    ),
    Mutation(
        "F29",
        "tests/unit/pipeline/test_loops.py::test_a_source_refuses_to_read_its_own_dead_letters",
        "src/highwater/pipeline/source.py",
        "check_no_loop(options.selection, decoding.dead_letter_topic)",
        "pass",
    ),
    Mutation(
        "F29",
        "tests/unit/pipeline/test_definition.py::test_a_wrong_file_gives_one_error_that_names_line_and_key",
        "src/highwater/pipeline/coherence.py",
        "_check_loops(definition, selection)",
        "pass",
    ),
    Mutation(
        "F29",
        "tests/unit/pipeline/landing/test_calendar.py"
        "::test_a_record_dated_beyond_the_calendar_lands_like_any_other[iceberg-9223372036854775807]",
        "src/highwater/pipeline/landing/files.py",
        '"write_statistics": known,',
        '"write_statistics": True,',
    ),
    Mutation(
        "F30",
        "tests/unit/pipeline/test_query.py"
        "::test_progress_counts_a_topic_created_again_from_its_start_and_a_cut_log_not_at_all",
        "src/highwater/pipeline/query.py",
        "if was and now and was != now:",
        "if False:",
    ),
    Mutation(
        "F30",
        "tests/unit/pipeline/landing/test_races.py"
        "::test_each_lost_race_is_followed_by_a_pause_that_may_be_twice_as_long",
        "src/highwater/pipeline/landing/races.py",
        "longest = min(2 * longest, LAST_PAUSE)",
        "longest = FIRST_PAUSE",
    ),
    Mutation(
        "F33",
        "tests/unit/pipeline/test_failures.py::test_the_cause_is_found_in_sparks_message",
        "src/highwater/pipeline/failures.py",
        "raised = _raised(traceback) if found else None",
        "raised = None",
    ),
    Mutation(
        "F37",
        "tests/unit/pipeline/test_interpreter.py::test_the_jvm_of_a_local_spark_gets_the_drivers_interpreter",
        "src/highwater_interpreter/__init__.py",
        'os.environ["PYSPARK_PYTHON"] = sys.executable',
        "pass",
    ),
]
