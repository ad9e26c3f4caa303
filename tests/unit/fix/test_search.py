"""The search for fixes: what is kept, what is refused and why, with a prover that says what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from dynalyze.capture.fixing.records import CheckRequest, Compared, Draws
from dynalyze.fix import rewriting
from dynalyze.fix.proof import Attempt, CheckedChange, CompiledCalls, FixState, UnchangedCode
from dynalyze.fix.run import fix_of
from dynalyze.fix.search import FixSearch
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.fix.source_files import combined
from dynalyze.report import GraphBreak, Location

PRINT = "Failed to trace builtin operator"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
SOURCE = """\
import torch


def forward(x):
    print("seen", x.shape)
    y = x.max().item()
    return x / y
"""


def broken(file: Path, line: int, gb_type: str) -> GraphBreak:
    at = Location(str(file), line, 4, "forward")
    return GraphBreak(f"b{line}", "GB0000", gb_type, "split", at, [at])


class FakeProver:
    """`breaks` gives the breaks of a text; `found` changes what a check has found."""

    def __init__(self, breaks: Callable[[str, Mapping[str, object]], list[GraphBreak]]) -> None:
        self.breaks = breaks
        self.originals: dict[str, str] = {}
        self.found: Callable[[str, CheckedChange], None] = lambda text, found: None
        self.draws: list[int] = []

    def values(self, places: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], dict[str, Value]]:
        return {place: {"x": Value("tensor", dtype="float32"), "torch": Value("module", "torch")} for place in places}

    def check(self, texts: Mapping[str, str], request: CheckRequest) -> CheckedChange:
        (text,) = texts.values()
        self.draws.append(request.draws)
        own: dict[Any, Compared] = {"eager": Compared("bitwise"), "traced": Compared("bitwise")}
        found = CheckedChange(own=own, draws=Draws(request.draws, bitwise=request.draws))
        after = self.breaks(text, request.settings)
        found.after = CompiledCalls(after)
        self.found(text, found)
        return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return path


def plain_breaks(file: Path) -> Callable[[str, Mapping[str, object]], list[GraphBreak]]:
    """A line breaks as long as it is there as it was; the read of a number not with the setting."""

    def breaks(text: str, settings: Mapping[str, object]) -> list[GraphBreak]:
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("    print("):
                found.append(broken(file, number, PRINT))
            if "max().item()" in line and not settings.get("capture_scalar_outputs"):
                found.append(broken(file, number, ITEM))
        return found

    return breaks


def different(arm: Literal["eager", "traced"], why: str) -> Callable[[str, CheckedChange], None]:
    """The program's own calls give something else."""

    def found(text: str, tried: CheckedChange) -> None:
        tried.own[arm], tried.after = Compared("different", why), None

    return found


def searched(file: Path, prover: FakeProver, *, thorough: bool = False) -> tuple[FixSearch, list[Attempt]]:
    start = prover.breaks(SOURCE, {})
    baseline = UnchangedCode(CompiledCalls(start))
    search = FixSearch(prover, baseline, lambda line: None, calls=1, thorough=thorough)  # type: ignore[arg-type]
    return search, list(search.run(start))


def test_a_change_by_which_nothing_compiles_any_more_ends_no_break(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    start = prover.breaks(SOURCE, {})
    prover.breaks = lambda text, settings: [] if settings or "max().item()" not in text else start
    search = FixSearch(prover, UnchangedCode(CompiledCalls(start, graphs=3)), lambda line: None, calls=1)  # type: ignore[arg-type]
    attempts = list(search.run(start[1:]))
    assert attempts and {each.reason for each in attempts} == {"nothing is compiled then"}


def test_what_differs_is_refused_with_the_reason_and_the_next_one_tried(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))

    def found(text: str, proof: CheckedChange) -> None:
        if "max().item()" not in text:
            different("eager", "it returns a tensor")(text, proof)

    prover.found = found
    _, attempts = searched(file, prover)
    assert [(each.status, each.kind) for each in attempts] == [
        ("verified", "source"), ("rejected", "source"), ("verified", "setting"),
    ]  # fmt: skip
    assert "it returns a tensor" in attempts[1].reason


def test_what_raises_is_tried_again_after_a_later_change(file: Path) -> None:
    """Without the change of `.item()` what is made of the print does not compile."""
    prover = FakeProver(plain_breaks(file))

    def found(text: str, proof: CheckedChange) -> None:
        if "max().item()" in text:
            different("traced", "raises TorchRuntimeError: no elements")(text, proof)

    prover.found = found
    search, attempts = searched(file, prover)
    verified = [each for each in attempts if each.status == "verified"]
    assert [each.broken.location.line for each in verified] == [6, 5] and {each.kind for each in verified} == {"source"}
    assert search.state.compiled.breaks == []


def test_an_effect_is_lost_only_where_the_change_says_so(file: Path) -> None:
    for effect, status in [
        ("not printed any more: 'seen'", "verified"),
        ("not opened any more: 'log.txt'", "rejected"),
    ]:
        prover = FakeProver(plain_breaks(file))
        prover.found = lambda text, proof, effect=effect: proof.own["traced"].effects.append(effect)  # type: ignore[misc]
        _, attempts = searched(file, prover)
        assert attempts[0].status == status
        assert attempts[0].evidence.effects == [effect] or status == "rejected"


def test_a_break_that_moves_is_not_gone(file: Path) -> None:
    def breaks(text: str, settings: Mapping[str, object]) -> list[GraphBreak]:
        number = next(number for number, line in enumerate(text.splitlines(), 1) if "print(" in line)
        return [broken(file, number, PRINT)]

    search, attempts = searched(file, FakeProver(breaks))
    assert attempts and all(each.status == "rejected" and each.reason for each in attempts)
    assert not search.state.changed


def test_what_a_break_hid_has_to_end_too(file: Path) -> None:
    """Behind the print lies the read of a number, which is met only once the print is gone."""

    def breaks(text: str, settings: Mapping[str, object]) -> list[GraphBreak]:
        found = plain_breaks(file)(text, settings)
        return found[:1]

    search, attempts = searched(file, FakeProver(breaks))
    assert [each.status for each in attempts] == ["verified"]
    assert "; then: " in attempts[0].title and "max().item()" not in search.state.texts[str(file)]


def test_what_was_different_in_draws_is_refused(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))

    def found(text: str, proof: CheckedChange) -> None:
        if proof.draws.tried:
            proof.draws.different = "traced, inputs drawn alike: output differs"

    prover.found = found
    _, attempts = searched(file, prover)
    assert {each.status for each in attempts} == {"rejected"}
    assert {each.evidence.outputs for each in attempts} == {"different"}


def test_what_could_not_be_compared_is_a_suggestion(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    prover.check = lambda texts, request: CheckedChange("forward takes other arguments")  # type: ignore[method-assign]
    search, attempts = searched(file, prover)
    assert {(each.status, each.reason) for each in attempts} == {("suggested", "forward takes other arguments")}
    assert not search.state.changed


def wrong_in_compiled_draws(prover: FakeProver, line: str) -> None:
    """Whatever changes this line gives something else on drawn inputs, once it is compiled."""
    check = prover.check

    def found(texts: Mapping[str, str], request: CheckRequest) -> CheckedChange:
        tried = check(texts, request)
        if request.traced and tried.draws.tried and line not in next(iter(texts.values())):
            tried.draws.different = "traced, inputs drawn alike: output differs"
        return tried

    prover.check = found  # type: ignore[method-assign]


def test_what_compiled_code_makes_of_other_inputs_is_proved_of_all_that_is_kept(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    search, attempts = searched(file, prover)
    for each in attempts:
        each.evidence.draws = 0  # As of a setting, which changes nothing in eager.
    whole, holds = search.together(attempts)
    assert holds and whole is not None and whole.draws == 20
    assert {(each.status, each.evidence.draws) for each in attempts} == {("verified", 20)}


def test_a_whole_that_does_not_hold_keeps_nothing_and_a_thorough_search_finds_what_does(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    wrong_in_compiled_draws(prover, "    y = x.max().item()\n")
    search, attempts = searched(file, prover)
    whole, holds = search.together(attempts)
    assert not holds and whole is not None and whole.outputs == "different"
    assert {each.status for each in attempts} == {"rejected"} and search.state is search.start
    search, attempts = searched(file, prover, thorough=True)
    assert search.together(attempts)[1]
    kept = [(each.broken.gb_type, each.kind) for each in attempts if each.status == "verified"]
    assert kept == [(PRINT, "source"), (ITEM, "setting")]


def out_of_time_together(prover: FakeProver) -> None:
    """The process that verifies all of it together reaches its limit."""
    check = prover.check

    def late(texts: Mapping[str, str], request: CheckRequest) -> CheckedChange:
        if request.traced and request.draws:
            return CheckedChange("its process took longer than --timeout (60 s)")
        return check(texts, request)

    prover.check = late  # type: ignore[method-assign]


def test_what_could_not_be_proved_in_time_as_a_whole_is_suggested(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    out_of_time_together(prover)
    search, attempts = searched(file, prover)
    _, holds = search.together(attempts)
    assert not holds and search.state is search.start
    assert {each.status for each in attempts} == {"suggested"}
    assert all("--timeout (60 s)" in each.reason for each in attempts)
    text = search.suggested_texts(attempts)[str(file)]
    assert "is_compiling()" in text and "max().item()" not in text


def test_one_suggestion_for_each_break_goes_on_top_of_what_is_kept(file: Path) -> None:
    search, attempts = searched(file, FakeProver(plain_breaks(file)))
    printed, read = attempts
    kept, name = printed.proposed, str(file)
    assert kept is not None and read.proposed is not None
    search.state, read.status = kept, "suggested"
    other = replace(read, proposed=replace(read.proposed, texts={name: SOURCE.replace("x / y", "x * y")}))
    found = search.suggested_texts([printed, read, other])[name]
    assert found == read.proposed.texts[name]
    other.before = search.start
    found = search.suggested_texts([printed, other, read])[name]
    assert found == kept.texts[name].replace("x / y", "x * y")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("0\na\nb\nc\n", "a\nb\nd\n", "0\na\nb\nd\n"),
        ("a\nc\n", "a\nb\nd\n", None),
        ("a\nB\nc\n", "a\nb\nC\n", None),
        ("A\nb\nc\n", "a\nb\nc\nd\n", "A\nb\nc\nd\n"),
        ("a\nb\nc\n", "b\nc\n", "b\nc\n"),
        ("a\nb\nx\nc\n", "a\nb\ny\nc\n", None),
    ],
)
def test_two_changes_of_one_text(one: str, other: str, both: str | None) -> None:
    assert combined("a\nb\nc\n", one, other) == both


def test_a_file_that_only_a_later_change_led_to_is_none_that_was_changed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one.py"), str(tmp_path / "other.py")
    nothing = CompiledCalls()
    proposed = FixState({one: "x = 2\n", other: "y = 1\n"}, {}, nothing)
    attempt = Attempt(broken(Path(one), 1, PRINT), FixState({one: "x = 1\n"}, {}, nothing), proposed=proposed)
    originals = {one: "x = 1\n", other: "y = 1\n"}
    told = fix_of("f1", attempt, originals, {}, tmp_path, originals)
    assert told.files == [one] and "-x = 1\n+x = 2\n" in told.patch


def test_a_search_without_time_tries_nothing_and_says_so(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    start = prover.breaks(SOURCE, {})
    search = FixSearch(prover, UnchangedCode(CompiledCalls(start)), lambda line: None, calls=1, seconds=0.0)  # type: ignore[arg-type]
    assert list(search.run(start)) == [] and search.stopped_early and not prover.draws


def test_a_rewriter_that_fails_costs_no_other_its_changes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(site: Site) -> Iterator[Proposal]:
        raise TypeError("planted")
        yield

    both = (rewriting.Rewriter("planted", fails, (), 0), *rewriting.rewriters())
    monkeypatch.setattr(rewriting, "rewriters", lambda: both)
    search, attempts = searched(file, FakeProver(plain_breaks(file)))
    faults = [each for each in attempts if each.reason == "a fault of dynalyze: TypeError: planted"]
    assert faults and {each.status for each in faults} == {"rejected"}
    assert [each.status for each in attempts if each not in faults] == ["verified"] * 2
    assert search.state.compiled.breaks == []


def test_what_stood_on_a_change_that_failed_is_tried_again_and_the_change_is_not(file: Path) -> None:
    prover = FakeProver(plain_breaks(file))
    prover.found = lambda text, tried: (
        different("eager", "another maximum")(text, tried) if "max().detach" in text or "x.max()\n" in text else None
    )
    search, first = searched(file, prover)
    kept = [each for each in first if each.status == "verified"]
    assert [each.kind for each in kept] == ["source", "setting"]
    search.take_back(kept[0], kept[1:], "it prints less")
    again = list(search.run([each.broken for each in kept]))
    assert [(each.kind, each.status) for each in again if each.status == "verified"] == [("setting", "verified")]
    assert search.state.texts[str(file)] == SOURCE and search.state.settings
