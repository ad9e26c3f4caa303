"""What a report may not show."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canaries import CANARY, OF_THE_PROGRAM, canary_report, names_in
from dynalyze import privacy
from dynalyze.cli.outputs import Outputs
from dynalyze.comparison.types import Comparison, Upgrade
from dynalyze.doctor.records import Diagnosis
from dynalyze.privacy.masking import MASK, masked_arguments
from dynalyze.report import Process, Report
from dynalyze.report.document import from_json, to_json
from dynalyze.report.sensitivity import Holds, texts
from dynalyze.sweep.compare import SweepComparison
from dynalyze.sweep.records import Sweep
from records import filled_report, texts_of
from sample_reports import empty_report, graph_break, line_of, recompile, rich_report

LONG = "Once upon a time there was a prompt that nobody else was meant to read."
KEYS = [
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
    "sk-proj-AbCdEfGhIjKlMnOp",
    "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijkl",
    "AIzaSyA-1234567890abcdefghijk",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
]

ROOTS = (Report, Comparison, Upgrade, Sweep, SweepComparison, Diagnosis)


def _without_values(report: Report) -> Report:
    return privacy.cleaned(report, no_source=False, show_values=False)


def unmarked(hint: Any, path: str, marked: bool = False) -> Iterator[str]:
    """The fields that may hold a text and do not say of what kind."""
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        marked = marked or any(isinstance(each, Holds) for each in arguments[1:])
        yield from unmarked(arguments[0], path, marked)
    elif hint in (str, Any, object, bytes):
        if not marked:
            yield path
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for name, each in get_type_hints(hint, include_extras=True).items():
            yield from unmarked(each, f"{path}.{name}")
    elif get_origin(hint) is not Literal:
        for each in arguments:
            yield from unmarked(each, path, marked)


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.__name__)
def test_every_text_of_every_record_says_what_it_holds(root: type[msgspec.Struct]) -> None:
    assert list(unmarked(root, root.__name__)) == []


class Page(msgspec.Struct):
    told: str
    open: dict[str, Any]
    number: int


class Book(msgspec.Struct):
    pages: list[Page]


def test_a_text_that_says_nothing_of_itself_is_dropped() -> None:
    assert list(unmarked(Book, "Book")) == ["Book.pages.told", "Book.pages.open", "Book.pages.open"]
    cleaned = privacy.without_source(Book([Page(CANARY, {CANARY: [CANARY]}, 3)]))
    assert cleaned == Book([Page("", {}, 3)])


def texts_with(report: Report, word: str) -> set[Holds]:
    return {holds for holds, text in texts(report)[0] if word in text}


def test_without_source_no_field_shows_any(tmp_path: Path) -> None:
    """Findings are judged after the cleaning, so the report is looked at as it is written."""
    assert texts_with(canary_report(), CANARY) == OF_THE_PROGRAM, "the canary must be there to be dropped"
    outputs(tmp_path, no_source=True).publish(canary_report())
    written = from_json((tmp_path / "r.json").read_bytes())
    assert texts_with(written, CANARY) == set()
    assert written.findings


def test_a_registered_type_stays_and_an_exceptions_first_line_goes() -> None:
    report = canary_report()
    known = graph_break("b1", "split", line_of(44, 12, 33))
    unknown = graph_break("b2", "split", line_of(44, 12, 33), gb_id=None, gb_type=f"call_function f {CANARY}")
    report.graph_breaks = [known, unknown]
    cleaned = privacy.without_source(report)
    assert [found.gb_type for found in cleaned.graph_breaks][:1] == ["Failed to trace builtin operator"]
    assert CANARY not in cleaned.graph_breaks[1].gb_type
    assert cleaned.graph_breaks[0].explanation
    assert "print" not in cleaned.graph_breaks[0].explanation


def test_places_survive_without_their_code() -> None:
    cleaned = privacy.without_source(rich_report())
    for found, original in zip(cleaned.graph_breaks, rich_report().graph_breaks, strict=True):
        place, before = found.location, original.location
        assert (place.file, place.line, place.column, place.function) == (
            before.file, before.line, before.column, before.function,
        )  # fmt: skip
        assert place.code is None
        assert found.snippet is None
    assert from_json(to_json(cleaned)) == cleaned


# What reaches the outputs.


def outputs(folder: Path, **changes: Any) -> Outputs:
    options = {
        "json_file": str(folder / "r.json"), "html_file": str(folder / "r.html"), "fail_on": "none",
        "no_source": False, "redact": False, "show_values": False,
    }  # fmt: skip
    return Outputs({**options, **changes}, "r")


def published(report: Report, folder: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> dict[str, str]:
    outputs(folder, **changes).publish(report)
    return {
        "json": (folder / "r.json").read_text(),
        "html": (folder / "r.html").read_text(),
        "terminal": capsys.readouterr().out,
    }


# Secrets.


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--token", "abc"], ["--token", MASK]),
        (["--api-key=abc"], [f"--api-key={MASK}"]),
        (["--api_key=a=b"], [f"--api_key={MASK}"]),
        (["-password", "abc", "next"], ["-password", MASK, "next"]),
        (["HF_TOKEN=abc"], [f"HF_TOKEN={MASK}"]),
        (["--aws-secret-access-key", "abc"], ["--aws-secret-access-key", MASK]),
        (["--token", "--verbose", "abc"], ["--token", "--verbose", "abc"]),
        (["--lr", "0.1", "model.py"], ["--lr", "0.1", "model.py"]),
        (["--tokens-per-batch=4096"], None),
        ([], []),
    ],
)
def test_arguments_that_look_like_secrets(arguments: list[str], shown: list[str] | None) -> None:
    if shown is not None:
        assert masked_arguments(arguments) == shown
    assert len(masked_arguments(arguments)) == len(arguments)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["{}", "--x={}", "https://host/?key={}", "a,{},b"])
def test_keys_of_known_shapes_are_masked_wherever_they_stand(key: str, form: str) -> None:
    report = empty_report()
    report.command = [form.format(key)]
    (shown,) = privacy.mask_secrets(report).command
    assert key not in shown
    assert MASK in shown


@pytest.mark.parametrize("key", KEYS)
def test_every_command_line_of_a_report_is_masked(key: str) -> None:
    report = empty_report()
    report.command = ["explain", "model.py", "--", key]
    report.target.arguments = ["--token", key]
    report.processes = [Process(0, 1, None, ["worker.py", key])]
    report.environment["variables"] = {"TORCH_LOGS": f"+dynamo,{key}"}
    report.outcome.message = f"The program raised ValueError: bad key {key}"
    report.recompiles = [recompile("r1", "0/1", expected=repr(key), actual=repr(key), guard=f"token == {key!r}")]
    assert key not in to_json(privacy.mask_secrets(report))


def test_a_secret_argument_that_the_program_quotes_is_masked_there_too() -> None:
    report = empty_report("failed", "The program raised ValueError: no access with correct-horse-battery")
    report.target.arguments = ["--password", "correct-horse-battery"]
    report.command = ["explain", "model.py", "--", "--password", "correct-horse-battery"]
    assert "correct-horse-battery" not in to_json(privacy.mask_secrets(report))


@settings(max_examples=100)
@given(st.lists(st.text(max_size=30), max_size=6))
def test_masking_keeps_the_number_of_arguments(arguments: list[str]) -> None:
    assert len(masked_arguments(arguments)) == len(arguments)


# Values.


def hidden(**fields: Any) -> Any:
    report = empty_report()
    report.recompiles = [recompile("r1", "0/1", **fields)]
    return _without_values(report).recompiles[0]


def test_long_strings_become_a_length_and_a_hash() -> None:
    import hashlib

    digest = hashlib.sha256(LONG.encode()).hexdigest()[:12]
    found = hidden(guard=f"prompt == {LONG!r}", source="prompt", expected=repr(LONG), actual="'short'")
    assert found.expected == f"<str of {len(LONG)} characters, sha256 {digest}>"
    assert LONG not in found.guard
    assert found.guard.startswith("prompt == <str of ")
    assert found.actual == "'short'"


def test_a_tensor_that_is_named_by_a_key_keeps_its_guard() -> None:
    guard = "tensor 'kwargs['x']' size mismatch at index 1. expected 4, actual 7"
    assert hidden(guard=guard).guard == guard
    secret = hidden(guard=guard.replace("'x'", repr(LONG))).guard
    assert LONG not in secret and secret.endswith("size mismatch at index 1. expected 4, actual 7")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("/usr/lib/python3.11/site-packages/vision_models/blocks/attention.py", True),
        ("C:\\Users\\ann\\projects\\vision\\models\\blocks\\attention.py", True),
        ("/home/ann/patients/2026/records_of_the_whole_ward_and_others.csv", False),
        ("/please summarize the letter that I wrote in the file notes.py", False),
        ("see /usr/lib/python3.11/site-packages/vision_models/blocks/attention.py", False),
    ],
)
def test_the_path_of_a_source_file_is_a_place_and_no_value(value: str, kept: bool) -> None:
    found = hidden(guard=f"G == {value!r}", expected=repr(value))
    assert (found.expected == repr(value)) is kept


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("inside", ["", "\\'", '\\"', "\\\\", "\\n", "é", " == "])
def test_any_literal_is_hidden(quote: str, inside: str) -> None:
    found = hidden(guard=f"a == {quote}{LONG}{inside}{LONG}{quote} and b == 1")
    assert "upon a time" not in found.guard
    assert found.guard.endswith("and b == 1")


def test_a_literal_that_was_cut_short_is_hidden_too() -> None:
    """The child keeps at most some thousand characters of a value, so that its closing quote is missing."""
    whole = repr(LONG * 100)
    found = hidden(guard=f"prompt == {whole[:2000]}", expected=whole[:2000], actual=whole[:2000])
    assert "upon a time" not in found.guard + found.expected + found.actual


def test_keys_are_values_as_well() -> None:
    assert LONG not in hidden(source=f"cache['{LONG}']").source


def test_breaks_quote_values_too() -> None:
    report = empty_report()
    report.graph_breaks = [
        graph_break("b1", "split", line_of(44, 12, 33), context=f"args ['{LONG}']", explanation=f"with '{LONG}'",
                    hints=[f"Avoid '{LONG}'."])
    ]  # fmt: skip
    (found,) = _without_values(report).graph_breaks
    assert LONG not in "".join([found.context, found.explanation, *found.hints])


def test_the_name_of_a_class_is_no_value() -> None:
    said = "builtin print [<class 'torch._dynamo.variables.constant.ConstantVariable'>, 'a']"
    report = empty_report()
    report.graph_breaks = [graph_break("b1", "split", line_of(44, 12, 33), context=f"{said} <class '{LONG}")]
    (found,) = _without_values(report).graph_breaks
    assert found.context.startswith(said)
    assert LONG not in found.context


def test_measurements_quote_values_too() -> None:
    report = filled_report(f"ValueError: '{LONG}'")
    cleaned = _without_values(report)
    (measured,), (accuracy,) = cleaned.measurements, cleaned.accuracy
    assert LONG not in "".join([measured.reason, *measured.notes, accuracy.reason])


def test_names_of_tensors_are_the_programs_own() -> None:
    report = filled_report(CANARY)
    report.accuracy[0].tensors *= 2
    report.accuracy[0].tensors = [msgspec.structs.replace(each) for each in report.accuracy[0].tensors]
    tensors = privacy.without_source(report).accuracy[0].tensors
    assert [tensor.name for tensor in tensors] == ["output 1", "output 2"]


def test_what_the_program_wrote_into_torch_compile_is_its_own() -> None:
    report = filled_report(CANARY)
    (measured,) = report.measurements
    measured.configuration = "as written"
    measured.options = {"backend": CANARY, "mode": "default", "dynamic": True, CANARY: True, "fullgraph": CANARY}
    assert privacy.without_source(report).measurements[0].options == {"mode": "default", "dynamic": True}


def test_the_apostrophe_of_torchs_own_wording_opens_no_string() -> None:
    said = "Operator `aten.nonzero.default`'s output shape depends on input Tensor data."
    assert hidden(guard=said).guard == said
    shown = hidden(guard=f"`f(x)`'s prompt is {LONG!r}; `{LONG!r}` too").guard
    assert shown.startswith("`f(x)`'s prompt is <str of ")
    assert LONG not in shown


def test_short_strings_and_numbers_stay() -> None:
    found = hidden(guard="mode == 'up' and n == 123456789012345678901234567890123456789012345", expected="'up'")
    assert found.guard == "mode == 'up' and n == 123456789012345678901234567890123456789012345"
    assert found.expected == "'up'"


def test_no_output_shows_a_long_value_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def secretive() -> Report:
        report = empty_report()
        report.recompiles = [
            recompile("r1", "0/1", cause="value", source="prompt", expected=repr(LONG), actual=repr(LONG[::-1]),
                      guard=f"prompt == {LONG!r}")
        ]  # fmt: skip
        return report

    shown = published(secretive(), tmp_path, capsys, show_values=True)
    assert LONG in shown["json"]
    assert [name for name, text in published(secretive(), tmp_path, capsys).items() if "upon a time" in text] == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_hiding_and_redacting_never_fail(one: str, other: str) -> None:
    report = filled_report(one)
    report.recompiles[0].guard = f"x == {other!r}"
    for clean in (_without_values, privacy.mask_secrets, privacy.without_source, privacy.redact):
        assert isinstance(clean(report), Report)


@settings(max_examples=100)
@given(st.text(min_size=41, max_size=80))
def test_no_literal_of_any_text_survives(text: str) -> None:
    assert text not in hidden(guard=f"x == {text!r}", expected=repr(text)).expected


# Redaction.


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    monkeypatch.setattr(socket, "gethostname", lambda: "enigma")


def test_no_field_names_the_user_or_the_machine(ada: None) -> None:
    report = names_in(filled_report("plain"), "/home/ada/work ada@enigma:/home/ada (ada) enigma.local /tmp/of_ADA_1")
    assert len([path for path, each in texts_of(report) if "ada" in each]) > 70
    named = {path: each for path, each in texts_of(privacy.redact(report)) if re.search("ada|ADA|enigma", each)}
    assert named == {}


def test_only_whole_names_are_replaced(ada: None) -> None:
    report = empty_report(message="adaptive avgpool in canada; enigmatic; /home/adam/x; /home/ada")
    message = privacy.redact(report).outcome.message
    assert message == "adaptive avgpool in canada; enigmatic; /home/adam/x; ~"


@pytest.mark.parametrize("user", ["user", "complete", "split", "script", "python", "shape", "observed", "root"])
def test_a_user_called_like_a_word_of_the_report_leaves_it_readable(
    user: str, ada: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    report = rich_report()
    redacted = privacy.redact(report)
    assert from_json(to_json(redacted)) == redacted
    assert redacted.environment["python"] == "3.11.7"


def test_a_machine_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(Path, "home", lambda: Path("/"))
    monkeypatch.setattr(getpass, "getuser", unknown)
    monkeypatch.setattr(socket, "gethostname", lambda: "")
    assert privacy.redact(rich_report()) == rich_report()


def test_the_report_handed_in_is_left_as_it_was_by_redaction(ada: None) -> None:
    report = filled_report("/home/ada")
    privacy.redact(report)
    assert report == filled_report("/home/ada")
