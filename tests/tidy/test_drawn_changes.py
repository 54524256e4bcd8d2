"""`make mutants RANDOM=n`: what is drawn, and that a test which sees a change is heard."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from types import FunctionType

from tests.mutations.drawing import change_by, drawn, found_in
from tests.mutations.judge import Verdict, forked, replacements
from tests.mutations.trial import Tried, lowest_share, summary
from tests.mutations.unseen import UNSEEN
from tests.tidy.repository import ROOT


def changed_lines(source: str) -> list[str]:
    source = textwrap.dedent(source).strip()
    changes = [change_by(found, source, "module.py") for found in found_in(source)]
    return [change.after for change in changes if change is not None]


def test_a_comparison_is_turned_to_the_other_side_and_to_the_other_end() -> None:
    assert changed_lines("end = x < y") == ["end = x <= y", "end = x >= y"]
    assert changed_lines("end = x is not None") == ["end = x is None"]
    assert changed_lines("end = max(x, y)") == ["end = min(x, y)"]


def test_conditions_are_exchanged_turned_and_switched_off() -> None:
    assert changed_lines("end = x and y and z") == ["end = x or y or z"]
    assert changed_lines("end = not x") == ["end = (x)"]
    assert changed_lines("while x:\n    pass") == ["while False:"]
    assert changed_lines("if x:\n    y\nelse:\n    z") == ["if False:", "if True:"]
    assert changed_lines("end = [x for x in y if x]") == ["end = [x for x in y if True]"]


def test_calls_and_assignments_of_functions_are_dropped_and_answers_changed() -> None:
    assert changed_lines(
        """
        class Log:
            def cut(self, end: int) -> bool:
                self.end = end
                del self.segments[end:]
                self.sync(end)
                return self.is_whole
        """
    ) == ["pass", "pass", "pass", "return not (self.is_whole)"]


def test_lines_without_observable_effect_are_not_drawn_for_mutation() -> None:
    source = '''
        """Words."""

        if TYPE_CHECKING:
            LIMIT = 1

        @dataclass(frozen=True)
        class Log:
            def __init__(self) -> None:
                self.end = None

            def __repr__(self) -> str:
                return str(1)

            def cut(self, end: int) -> None:
                found = end
                _log.warning("cut at %d", 1)
                assert end > 0
                raise ValueError(f"{end + 1} is too much")
    '''
    assert changed_lines(source) == []


def test_a_statement_of_several_lines_leaves_all_others_where_they_are() -> None:
    source = "def f() -> None:\n    g(\n        1,\n    )\n    h()"
    changes = [change_by(found, source, "module.py") for found in found_in(source)]
    texts = [change.applied_to(source).split("\n") for change in changes if change is not None]
    assert [text[:2] for text in texts] == [["def f() -> None:", "    pass"]] + [["def f() -> None:", "    g("]] * 2
    assert {len(text) for text in texts} == {5}
    assert texts[1][2] == "        2,"


def test_a_seed_draws_the_same_changes_again_and_another_one_others(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("\n".join(f"end{n} = {n}" for n in range(50)))
    assert drawn(tmp_path, ".", 9, seed=1) == drawn(tmp_path, ".", 9, seed=1)
    assert drawn(tmp_path, ".", 9, seed=1) != drawn(tmp_path, ".", 9, seed=2)
    assert len({change.line for change in drawn(tmp_path, ".", 99, seed=1)}) == 50


def module(source: str) -> dict[str, FunctionType]:
    names: dict[str, FunctionType] = {}
    exec(compile(source, "module.py", "exec", dont_inherit=True), names)
    return names


def test_changed_code_takes_the_place_of_a_functions_own() -> None:
    source = "LIMIT = 1\nclass Log:\n    def end(self) -> int:\n        return 1\n"
    log = module(source)["Log"]
    function = log.end  # type: ignore[attr-defined]
    live = {function.__code__: [function]}
    replaced = replacements(source, source.replace("return 1", "return 2"), "module.py", live)
    assert replaced is not None
    for each, code in replaced:
        each.__code__ = code
    assert log().end() == 2


def test_a_mutated_line_that_runs_at_import_needs_a_new_process() -> None:
    source = "LIMIT = 1\ndef end(limit: int = LIMIT) -> int:\n    return limit\n"
    function = module(source)["end"]
    assert replacements(source, source.replace("= 1", "= 2"), "module.py", {function.__code__: [function]}) is None


def test_a_process_that_is_stuck_is_ended_and_what_it_wrote_is_kept() -> None:
    def hang(out: int) -> None:
        io.FileIO(out, "w", closefd=False).write(b"begun")
        while True:
            pass

    assert forked(hang, seconds=0.0) in (b"", b"begun")


def test_the_package_with_the_least_killed_decides() -> None:
    change = change_by(found_in("end = 1")[0], "end = 1", "module.py")
    assert change is not None
    verdicts = {"log": [True, True], "groups": [True, False]}
    tried = [Tried(name, change, Verdict(killed, "", 1)) for name, all in verdicts.items() for killed in all]
    assert lowest_share(tried) == 50
    assert summary(tried).split("\n")[1:] == [
        "log                2      2       0",
        "groups             1      2       0",
    ]


def test_every_line_of_which_no_test_can_see_a_change_is_there_once_and_has_its_reason() -> None:
    for file, line, reason in UNSEEN:
        lines = [each.strip() for each in (ROOT / file).read_text().split("\n")]
        assert lines.count(line) == 1, (file, line)
        assert reason
