"""Sweep -> summary: clusters by line and cause, consequences, shares, errors grouped alike, speedups."""

from __future__ import annotations

from dynalyze.sweep.clusters import summarise
from sample_sweeps import CAPTURING, GENERIC, broken, failed, matrix_sweep, modeling, row, small_sweep
from sample_sweeps import sweep as make_sweep


def test_one_line_that_breaks_many_models_is_one_entry() -> None:
    (worst, other) = summarise(small_sweep()).lines
    assert (worst.path, worst.line, worst.gb_type) == (GENERIC, 123, "Data-dependent branching")
    assert worst.targets == ("hf:LlamaModel", "hf:LlamaForCausalLM", "hf:ReformerModel")
    assert worst.rows == (0, 1, 2)
    assert (other.path, other.targets) == (modeling("reformer"), ("hf:ReformerModel",))


def test_machines_with_other_folders_share_a_line() -> None:
    here, there = broken(), broken(code=None)
    elsewhere = type(there)(**{**{f: getattr(there, f) for f in there.__struct_fields__}, "file": "/other/generic.py"})
    found = summarise(make_sweep(row("hf:A", "graph_break", here), row("hf:B", "graph_break", elsewhere)))
    (line,) = found.lines
    assert len(line.targets) == 2
    assert line.code == "if mask.all():"  # From the one that kept it.


def test_a_loop_beside_a_break_follows_from_it() -> None:
    found = summarise(small_sweep())
    assert [line.gb_type for line in found.following] == ["graph break in loop"]
    assert "graph break in loop" not in [line.gb_type for line in found.lines]
    assert [(cause.gb_type, cause.follows) for cause in found.causes][-1] == ("graph break in loop", True)


def test_a_wrapper_that_starts_anew_follows_but_a_models_own_iterator_does_not() -> None:
    capturing = {"gb_id": "GB4347", "function": "<dictcomp>", "caller": f"{modeling('a')}:722"}
    wrapper = broken(CAPTURING, 332, "Missing tp_iternext", **capturing)
    own = broken(modeling("a"), 50, "Missing tp_iternext", gb_id="GB4347")
    found = summarise(make_sweep(row("hf:A", "graph_break", broken(modeling("a"), 9), wrapper, own)))
    assert [line.path for line in found.following] == [CAPTURING]
    assert modeling("a") in [line.path for line in found.lines]
    assert summarise(make_sweep(row("hf:A", "graph_break", wrapper))).following == ()


def test_errors_alike_are_one_group() -> None:
    found = summarise(
        make_sweep(
            failed("hf:A", "create_error", "TypeError: got 3 items", error_at="m.py:1"),
            failed("hf:B", "create_error", "TypeError: got 4 items", error_at="m.py:1"),
            failed("hf:C", "create_error", "TypeError: other", error_at="m.py:9"),
            failed("hf:D", "eager_error", "TypeError: got 3 items", error_at="m.py:1"),
            failed("hf:E", "compile_error", "RuntimeError: no"),
            failed("hf:F", "timeout", "no answer within 9 s"),
            failed("hf:G", "timeout", "no answer within 12 s"),
        )
    )
    assert [(group.status, group.exception, len(group.rows)) for group in found.errors] == [
        ("compile_error", "RuntimeError", 1),
        ("eager_error", "TypeError", 1),
        ("create_error", "TypeError", 2),
        ("create_error", "TypeError", 1),
        ("timeout", "", 2),
    ]


def test_targets_by_configuration_the_differing_ones_first() -> None:
    found = summarise(matrix_sweep())
    assert [share.name for share in found.configurations] == ["default", "train"]
    assert [share.clean for share in found.configurations] == [1, 0.5]
    assert [(each.target, each.cells) for each in found.matrix] == [("hf:BertModel", (0, 1))]
    assert summarise(small_sweep()).matrix == ()
