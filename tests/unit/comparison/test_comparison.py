"""Comparing two reports: which facts count as the same."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparison_reports import (
    EFFECTS,
    MODEL,
    again,
    at,
    broken,
    compiled,
    copied,
    fates,
    kinds,
    report,
    sorted_breaks,
    traced,
)
from dynalyze.comparison.pairing import match_files
from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import BreakChange
from dynalyze.privacy import without_source
from dynalyze.render.text import comparison as words
from dynalyze.report import CompilationStatus, Effect, Finding, GraphBreak, Location, Report, TracedFile, TracedFunction

# ---- graph breaks: what is the same -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        broken(at(10, "print(y)")),
        broken(at(10, function="encode")),
        broken(at(10), gb_id="GB0170"),
        broken(at(10, file="/home/ada/work/other.py")),
    ],
    ids=["code", "function", "cause", "file"],
)
def test_whatever_differs_in_cause_code_function_or_file_is_another(other: GraphBreak) -> None:
    assert fates([broken(at(10))], [other]) == {"fixed": [(10, None)], "new": [(None, 10)]}


def test_the_same_line_twice_keeps_its_count_and_the_nearest_stays() -> None:
    before = [broken(at(10)), broken(at(20)), broken(at(30))]
    assert fates(before, [broken(at(11)), broken(at(31))]) == {
        "fixed": [(20, None)], "unchanged": [(10, 11), (30, 31)],
    }  # fmt: skip
    assert fates([broken(at(12))], [broken(at(10)), broken(at(20))]) == {
        "unchanged": [(12, 10)], "new": [(None, 20)],
    }  # fmt: skip


def test_the_first_of_two_equal_lines_was_removed_and_the_file_moved_up() -> None:
    """By its line in the file, what is left is nearer to the one that is gone."""
    before = report(broken(at(110)), broken(at(120)), traced_files=[traced(("Net.forward", 100))])
    after = report(broken(at(24)), traced_files=[traced(("Net.forward", 5))])
    assert sorted_breaks(compare(before, after)) == {"fixed": [(110, None)], "unchanged": [(120, 24)]}


def test_methods_of_one_name_are_told_apart_by_their_class() -> None:
    """The print of the first class is gone; the second class moved to where the first one was."""
    before = report(
        broken(at(11)), broken(at(21)), traced_files=[traced(("Encoder.forward", 10), ("Decoder.forward", 20))]
    )
    after = report(broken(at(12)), traced_files=[traced(("Decoder.forward", 11))])
    assert sorted_breaks(compare(before, after)) == {"fixed": [(11, None)], "unchanged": [(21, 12)]}


# ---- files ------------------------------------------------------------------------------------------------


def test_two_checkouts() -> None:
    before = ["/ci/17/app/model.py", "/ci/17/app/layers/model.py", "/ci/17/app/layers/mix.py"]
    after = ["/ci/18/app/model.py", "/ci/18/app/layers/model.py", "/ci/18/app/layers/mix.py"]
    assert match_files(before, after) == dict(zip(before, after, strict=True))


def test_files_are_relative_to_the_deepest_common_folder() -> None:
    """By the ends of their paths alone, either could be sub/model.py."""
    before = ["/one/sub/model.py", "/one/sub/sub/model.py"]
    after = ["/two/model.py", "/two/sub/model.py"]
    assert match_files(before, after) == dict(zip(before, after, strict=True))


def test_libraries_of_two_environments() -> None:
    tail = "lib/python3.11/site-packages/transformers/models/llama.py"
    before, after = f"/home/ada/.venv/{tail}", f"/opt/{tail}"
    assert match_files([before, MODEL], [after, MODEL]) == {before: after, MODEL: MODEL}


# ---- without source ---------------------------------------------------------------------------------------


def test_without_code_the_line_within_the_function_counts() -> None:
    before = report(broken(at(11, None)), broken(at(14, None)), traced_files=[traced(("Net.forward", 10))])
    after = report(broken(at(51, None)), traced_files=[traced(("Net.forward", 50))])
    assert sorted_breaks(compare(before, after)) == {"fixed": [(14, None)], "unchanged": [(11, 51)]}


def test_what_may_not_be_shown_still_tells_facts_apart() -> None:
    before = report(broken(at(10)), recompiles=[again("n")])
    after = report(broken(at(90)), broken(at(10, "print(secret)")), recompiles=[again("m")])
    found = without_source(compare(before, after))
    assert sorted_breaks(found) == {"unchanged": [(10, 90)], "new": [(None, 10)]}
    assert (len(found.recompiles.new), len(found.recompiles.fixed)) == (1, 1)
    text = msgspec.json.encode(found).decode()
    assert "print" not in text
    assert '"source":null' in text and '"m"' not in text


# ---- what changed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(EFFECTS, 2)))
def test_effects_are_ordered(old: Effect, new: Effect) -> None:
    found = compare(report(broken(at(10), old)), report(broken(at(10), new)))
    (change,) = found.breaks.changed
    worse = EFFECTS.index(new) > EFFECTS.index(old)
    assert change.direction == ("worse" if worse else "better")
    assert [item.kind for item in found.regressions] == (["effect"] if worse else [])


def test_seen_more_often_is_a_change_but_not_worse() -> None:
    found = compare(report(broken(at(10), occurrences=3)), report(broken(at(10), occurrences=7)))
    (change,) = found.breaks.changed
    assert (change.direction, found.regressions) == ("same", [])
    assert "seen 3 -> 7 times" in words.break_words(change)
    assert "1 break unchanged" in words.verdict(found)


def test_a_new_break_is_a_regression_with_advice_and_a_fixed_one_is_none() -> None:
    after = report(broken(at(10)), findings=[Finding("graph-break", "warning", "T", at(10), ["b10"], "Move it.")])
    found = compare(report(), after)
    assert [change.advice for change in found.breaks.new] == ["Move it."]
    assert [(item.kind, item.what) for item in found.regressions] == [("break", "T")]
    assert kinds(after, report()) == []


def test_a_break_has_the_title_that_its_own_report_gives_it_not_one_of_all_breaks() -> None:
    def run(*lines: int) -> Report:
        ids = [f"b{line}" for line in lines]
        own = [Finding("graph-break", "warning", f"Title {each}", at(1), [each], "Move it.") for each in ids]
        about_all = Finding("part-that-compiles-whole", "error", "All of them", at(1), ids)
        return report(*(broken(at(line, f"print({line})")) for line in lines), findings=[about_all, *own])

    found = compare(run(10, 20), run(20, 30))
    named = {fate: [change.name for change in getattr(found.breaks, fate)] for fate in ("fixed", "unchanged", "new")}
    assert named == {"fixed": ["Title b10"], "unchanged": ["Title b20"], "new": ["Title b30"]}
    untold = compare(report(), report(broken(at(10))))
    assert [change.name for change in untold.breaks.new] == ["type of GB0059"]


# ---- properties -------------------------------------------------------------------------------------------

CODES = st.sampled_from(["print(x)", "print(y)", "x.item()", None])
LOCATIONS = st.builds(
    at, st.integers(1, 60), CODES, st.sampled_from(["forward", "encode"]), st.sampled_from([MODEL, "/home/ada/lib.py"])
)
BREAKS = st.lists(
    st.builds(
        broken, LOCATIONS, st.sampled_from(EFFECTS), st.sampled_from(["GB0059", "GB0170", None]),
        occurrences=st.integers(1, 3),
    ),
    max_size=8,
)  # fmt: skip
RECOMPILES = st.lists(
    st.builds(
        again, st.sampled_from(["x", "n", None]), st.sampled_from(["Net.forward", "step"]),
        cause=st.sampled_from(["shape", "value", "limit"]),
    ),
    max_size=8,
)  # fmt: skip
STATUSES: st.SearchStrategy[CompilationStatus] = st.sampled_from(["compiled", "broken", "eager", "failed"])
COMPILATIONS = st.lists(
    st.builds(compiled, st.just("0/0"), STATUSES, st.sampled_from(["Net.forward", "step"])), max_size=5
)


@st.composite
def reports(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Report:
    return report(*draw(BREAKS), recompiles=draw(RECOMPILES), compilations=draw(COMPILATIONS))


@given(reports())
def test_a_report_is_the_same_as_itself(each: Report) -> None:
    found = compare(each, copied(each))
    assert found.regressions == found.differences == []
    assert len(found.breaks.unchanged) == len(each.graph_breaks)
    assert not (found.breaks.fixed or found.breaks.new or found.breaks.changed)
    assert not (found.recompiles.fixed or found.recompiles.new or found.recompiles.changed)
    assert not (found.compilations.gone or found.compilations.new or found.compilations.changed)


@given(reports(), reports())
def test_the_way_back_is_the_mirror(one: Report, other: Report) -> None:
    there, back = compare(one, other), compare(other, one)
    for side, mirrored in (("fixed", "new"), ("new", "fixed")):
        assert Counter(places(getattr(there.breaks, side))) == Counter(places(getattr(back.breaks, mirrored)))
    assert len(there.breaks.unchanged) == len(back.breaks.unchanged)
    assert len(there.recompiles.new) == len(back.recompiles.fixed)
    assert [each.function for each in there.compilations.new] == [each.function for each in back.compilations.gone]


@pytest.mark.parametrize("codeless_first", [True, False])
def test_of_two_at_a_place_that_without_code_goes_to_the_one_without(codeless_first: bool) -> None:
    bare, full = broken(at(5, None)), broken(at(5, "print(x)"))
    one, other = report(bare), report(*([bare, full] if codeless_first else [full, bare]))
    for found, side in ((compare(one, other).breaks.new, "after"), (compare(other, one).breaks.fixed, "before")):
        assert [getattr(each, side).location.code for each in found] == ["print(x)"]


def places(changes: list[BreakChange]) -> list[tuple[str, str | None, str]]:
    """What a break is, without the line: of equal ones any may be the one that is gone."""
    sides = [each.after or each.before for each in changes]
    return [(side.location.function, side.location.code, side.location.file) for side in sides if side]


@given(reports(), reports())
def test_every_break_is_told_once(one: Report, other: Report) -> None:
    found = compare(one, other).breaks
    changes = [*found.fixed, *found.new, *found.unchanged, *found.changed]
    for side, each in (("before", one), ("after", other)):
        facts = [getattr(change, side) for change in changes]
        lines = Counter(fact.location for fact in facts if fact)
        assert lines == Counter(item.location for item in each.graph_breaks)


@given(BREAKS, st.integers(1, 500))
def test_moved_lines_change_nothing(breaks: list[GraphBreak], by: int) -> None:
    """Where there is code; or where the function is known, because it moves along."""
    functions = [traced(("forward", 1), ("encode", 1)), traced(("forward", 1), ("encode", 1), path="/home/ada/lib.py")]
    after = report(*(msgspec.structs.replace(each, location=moved(each.location, by)) for each in breaks))
    after.traced_files = [
        TracedFile(file.path, "", [TracedFunction(each.name, each.line + by) for each in file.functions])
        for file in functions
    ]
    found = compare(report(*breaks, traced_files=functions), after)
    assert len(found.breaks.unchanged) == len(breaks)
    assert found.regressions == []


def moved(location: Location, by: int) -> Location:
    return msgspec.structs.replace(location, line=location.line + by)
