"""Two sweeps compared: what a new torch fixed and broke, by item and by line; as text, page and JSON."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dynalyze.sweep import pages
from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.compare import ItemChange, SweepComparison, compare
from dynalyze.sweep.records import Row, RowBreak, Status, Sweep
from dynalyze.sweep.shown import shown as cleaned
from html_tree import Tree
from sample_sweeps import broken, failed, hostile_sweep, loop, row, small_sweep, upgraded
from sample_sweeps import sweep as make_sweep


def of(before: Row, after: Row) -> SweepComparison:
    return compare(make_sweep(before), make_sweep(after))


def only(comparison: SweepComparison) -> ItemChange:
    (change,) = comparison.changes
    return change


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ("full_graph", "graph_break", "worse"),
        ("graph_break", "full_graph", "better"),
        ("graph_break", "compile_error", "worse"),
        ("compile_error", "create_error", "worse"),
        ("full_graph", "timeout", "worse"),
        ("eager_error", "graph_break", "better"),
        ("create_error", "eager_error", "same"),
        ("timeout", "crash", "same"),
    ],
)
def test_a_status_is_better_worse_or_neither(before: Status, after: Status, direction: str) -> None:
    change = only(of(row("hf:A", before), row("hf:A", after)))
    assert (change.before, change.after, change.direction) == (before, after, direction)
    regressions = of(row("hf:A", before), row("hf:A", after)).regressions
    assert [each.kind for each in regressions] == (["status"] if direction == "worse" else [])


@pytest.mark.parametrize(
    "moved",
    [
        broken(line=500),
        broken(gb_type="Data-dependent branching, reworded"),
        replace(broken(), gb_id=None),
        replace(broken(), code=None, line=7),
        broken(reason="worded in another way"),
    ],
)
def test_a_break_that_moved_or_was_reworded_is_the_same(moved: RowBreak) -> None:
    for one, other in ((broken(), moved), (moved, broken())):
        assert of(row("hf:A", "graph_break", one), row("hf:A", "graph_break", other)).changes == []


@pytest.mark.parametrize(
    "different",
    [
        broken(code="if mask.any():"),
        broken(function="other"),
        broken("transformers/other.py"),
        broken(gb_id="GB0088", gb_type="Observed exception"),
    ],
)
def test_a_break_of_other_code_place_or_cause_is_gone_and_another_is_new(different: RowBreak) -> None:
    change = only(of(row("hf:A", "graph_break", broken()), row("hf:A", "graph_break", different)))
    assert (change.new, change.gone, change.direction) == ([different], [broken()], "same")


def test_one_more_break_in_an_item_that_broke_before_is_a_regression() -> None:
    found = of(row("hf:A", "graph_break", broken()), row("hf:A", "graph_break", broken(), broken(code="x.item()")))
    assert only(found).direction == "worse"
    (regression,) = found.regressions
    assert (regression.kind, regression.what) == ("break", "Data-dependent branching")
    assert regression.place == "transformers/utils/generic.py:123"


def test_what_did_not_reach_the_compiler_has_fixed_nothing() -> None:
    found = of(row("hf:A", "graph_break", broken()), failed("hf:A", "create_error", "TypeError: no"))
    assert (only(found).gone, found.gone_breaks) == ([], [])
    back = of(failed("hf:A", "create_error", "TypeError: no"), row("hf:A", "graph_break", broken()))
    assert (only(back).new, back.new_breaks, back.regressions) == ([], [], [])


def test_items_are_matched_by_configuration_too() -> None:
    before = make_sweep(row("hf:A"), row("hf:A", configuration="train"))
    found = compare(before, make_sweep(row("hf:A", configuration="train"), row("hf:B")))
    assert found.unchanged == 1
    assert [(each.target, each.configuration) for each in found.only_before] == [("hf:A", "default")]
    assert [(each.target, each.after) for each in found.only_after] == [("hf:B", "full_graph")]
    assert found.regressions == []


def test_lines_are_clustered_over_the_items() -> None:
    found = upgraded()
    (new,) = found.new_breaks
    assert (new.line, new.targets) == (455, ["hf:LlamaForCausalLM", "hf:BertModel"])
    assert [(line.gb_type, line.targets, line.follows) for line in found.gone_breaks] == [
        ("Data-dependent branching", ["hf:LlamaModel", "hf:LlamaForCausalLM"], False),
        ("graph break in loop", ["hf:LlamaModel"], True),
    ]


def hostile() -> SweepComparison:
    def other(made: Sweep) -> Sweep:
        made.items[0] = replace(made.items[0], status="compile_error", error=made.items[0].target)
        made.items[1] = replace(made.items[1], target="another")
        return made

    return compare(hostile_sweep(), other(hostile_sweep()))


def test_hostile_texts_do_nothing() -> None:
    page = pages.render_diff(hostile())
    tree = Tree(page)
    assert [tag for tag, _ in tree.elements].count("script") == 2
    assert "img" not in {tag for tag, _ in tree.elements}
    assert all(href.startswith(("#", "data:,")) for href in tree.values("href"))
    for text in (page, sweep_text.render_diff(hostile(), color=False, width=80)):
        assert all(character.isprintable() or character == "\n" for character in text)


def test_every_anchor_of_the_page_is_there_once() -> None:
    for made in (upgraded(), hostile(), compare(small_sweep(), small_sweep())):
        tree = Tree(pages.render_diff(made))
        ids = tree.values("id")
        assert len(ids) == len(set(ids))
        named = [href[1:] for href in tree.values("href") if href.startswith("#")]
        assert set(named) | set(tree.values("aria-labelledby")) <= set(ids)


def test_what_is_hidden_still_counts_in_the_matching() -> None:
    def secret(code: str) -> RowBreak:
        return broken(gb_type="canary type", code=code, reason="canary reason")

    before = make_sweep(row("hf:A", "graph_break", secret("canary_1()"), loop(code="for canary in x:")))
    after = make_sweep(
        row("hf:A", "graph_break", secret("canary_2()"), loop(code="for canary in x:")),
        failed("hf:B", "crash", "ValueError: canary"),
    )
    found = cleaned(compare(before, after), no_source=True, redact=False)
    assert "canary" not in pages.diff_json(found)
    assert (len(only(found).new), len(only(found).gone), found.unchanged_breaks) == (1, 1, 1)
    assert found.only_after[0].error == "ValueError"
