"""What a report may not show."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze import privacy
from dynalyze.cli.outputs import Outputs
from dynalyze.privacy import MASK, masked_arguments
from dynalyze.report import Location, Process, Report, Snippet
from dynalyze.report_json import from_json, to_json
from records import filled_report, texts_of
from sample_reports import empty_report, graph_break, line_of, recompile, rich_report

CANARY = "canary_9f3"
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

# Fields that hold no line of the user's code: names, paths, numbers, ids, our own words and the command line. A field
# that is not listed here must come out of --no-source without a trace of what stood in it.
HARMLESS = {
    "report.dynalyze", "report.created", "report.command[]", "report.traced_hash", "report.folder",
    "report.target.kind", "report.target.spec", "report.target.arguments[]",
    "report.target.model.class_name", "report.target.model.family", "report.target.model.inputs{key}",
    "report.target.model.inputs{}", "report.outcome.failed_stage.stage", "report.outcome.failed_stage.exception",
    "report.outcome.failed_stage.file",
    "report.outcome.status", "report.processes[].command[]",
    "report.compilations[].compile_id", "report.compilations[].status", "report.compilations[].function",
    "report.graph_breaks[].id", "report.graph_breaks[].gb_id", "report.graph_breaks[].effect",
    "report.graph_breaks[].url", "report.graph_breaks[].compile_ids[]",
    "report.recompiles[].id", "report.recompiles[].compile_id", "report.recompiles[].previous",
    "report.recompiles[].cause", "report.recompiles[].change",
    "report.forced_sizes[].id", "report.forced_sizes[].compile_ids[]", "report.forced_sizes[].recompiles[]",
    "report.compilations[].breaks[]",
    "report.compilations[].cache_bypasses[].cache", "report.compilations[].cache_bypasses[].reason",
    "report.candidates[].kind", "report.candidates[].class_name", "report.candidates[].reason",
    "report.skipped_frames[].id", "report.skipped_frames[].reason",
    "report.graphs[].id", "report.graphs[].compile_id", "report.graphs[].histogram{key}",
    "report.graphs[].stages[].stage", "report.graphs[].stages[].direction", "report.graphs[].inputs[].kind",
    "report.graphs[].inputs[].device",
    "report.kernels[].graph", "report.kernels[].name", "report.kernels[].kind", "report.kernels[].direction",
    "report.kernels[].ops[]",
    "report.traced_files[].path", "report.traced_files[].sha256", "report.traced_files[].origin",
    "report.traced_files[].functions[].name",
    "report.findings[].rule", "report.findings[].severity", "report.findings[].evidence[]",
    "report.findings[].detail.link", "report.findings[].detail.recipe",
    "report.capture.mode",
    "report.measurements[].configuration", "report.measurements[].phase", "report.measurements[].status",
    "report.measurements[].options{key}", "report.measurements[].options{}", "report.measurements[].dtype",
    "report.measurements[].device", "report.measurements[].speedup.verdict", "report.measurements[].memory.kind",
    "report.measurements[].break_even.reason", "report.measurements[].throughput{key}",
    "report.measurements[].startup.phases{key}", "report.measurements[].startup.cache{key}",
    "report.measurements[].startup.warm_cache{key}", "report.measurements[].shape{key}",
    "report.accuracy[].shape{key}",
    "report.accuracy[].configuration", "report.accuracy[].phase", "report.accuracy[].verdict",
    "report.accuracy[].tensors[].kind", "report.accuracy[].tensors[].verdict", "report.accuracy[].tensors[].dtype",
    "report.accuracy[].tensors[].compiled_dtype",
    "report.attention[].id", "report.attention[].graph", "report.attention[].file", "report.attention[].function",
    "report.attention[].device",
    "report.modules[].id", "report.modules[].class_name", "report.modules[].file", "report.modules[].family",
    "report.modules[].parameters{key}", "report.modules[].devices{key}", "report.modules[].attention",
    "report.modules[].quantization", "report.modules[].wrappers[]", "report.modules[].cache",
    "report.modules[].layers[].library", "report.modules[].layers[].kind", "report.modules[].adapters.library",
    *(f"report.warmup.{calls}[].{field}" for calls in ("calls", "after_warmup") for field in (
        "shape{key}", "in_eager[]", "recompiles[].cause", "recompiles[].function", "recompiles[].file")),
    "report.warmup.buckets[].padded_to{key}", "report.warmup.functions[].function", "report.warmup.functions[].file",
    "report.warmup.dynamic", "report.warmup.second_start.reasons[]",
}  # fmt: skip
HARMLESS |= {
    f"report.attention_matrix.{name}" for name in (
        "attentions[]", "dtypes[]", "caches[]", "device", "model", "phase", "backend", "own_attention", "own_dtype",
        "own_cache", "stopped", "cells[].id", "cells[].attention", "cells[].dtype", "cells[].cache", "cells[].status",
        "cells[].accuracy", "cells[].speedup.verdict", "cells[].backends[]", "cells[].file",
    )
}  # fmt: skip
HARMLESS |= {
    f"report.bisections[].{name}"
    for name in ("configuration", "phase", "stage", "file", "stages[].stage", "stages[].verdict")
}
# Open objects, of which the listener fills names and numbers only.
OPEN = ("report.environment", "report.policy", "report.settings", "report.modules[].config",
        "report.modules[].layers[].facts", "report.modules[].options", "report.attention_matrix.cells[].facts",
        "report.compilations[].seconds", "report.compilations[].cache", "report.compilations[].exclusive",
        "report.compilations[].backward[].seconds", "report.compilations[].backward[].exclusive")  # fmt: skip
# The recipe's own words and examples, which are tried code of ours.
RECIPES = {
    "report.findings[].detail.example.before", "report.findings[].detail.example.after",
    "report.findings[].detail.config", "report.findings[].detail.config_note", "report.findings[].impact.what",
}  # fmt: skip


def is_harmless(path: str) -> bool:
    name = path.rpartition(".")[2]
    places = ("location", "stack[]", "callers[]", "caller", "places[]", "forced_by")
    in_location = any(f".{part}." in path for part in places)
    if in_location and name in ("file", "function"):
        return True
    return path in HARMLESS | RECIPES or path.startswith(OPEN)


def canary_report() -> Report:
    """Every field filled with the canary, and told as torch and a failing program would."""
    report = filled_report(CANARY)
    report.outcome.status = "failed"
    report.capture.notes = [
        f"Net failed under torch.compile, and ran in eager from there on: ValueError: {CANARY}",
        f"Refused under --fullgraph: {CANARY}",
    ]
    report.capture.listener_errors = [f"ValueError: {CANARY}", f"torch.compile call: ValueError: {CANARY}"]
    report.candidates[0].error = f"ValueError: {CANARY}"
    (measured,), (accuracy,) = report.measurements, report.accuracy
    measured.reason = f"The calls could not be made: ValueError: {CANARY}"
    measured.notes = [f"The eager run raised ValueError: {CANARY}"]
    accuracy.reason = f"The fp64 copy failed: ValueError: {CANARY}"
    if (matrix := report.attention_matrix) is not None:
        matrix.notes = [f"Nothing could be tried: ValueError: {CANARY}"]
        matrix.cells[0].notes = [f"The accuracy is not known: ValueError: {CANARY}"]
    _tell_of_warmup(report)
    return report


def _tell_of_warmup(report: Report) -> None:
    warmup = report.warmup
    assert warmup is not None and warmup.dynamic_trial is not None
    for run in (*warmup.calls, *warmup.after_warmup):
        run.error = f"ValueError: {CANARY}"
    warmup.reason = f"no call came to its end: {CANARY}"
    warmup.notes = [f"The second start failed: {CANARY}"]
    warmup.dynamic_advice = f"dynamic=True was tried, and did not work: {CANARY}"
    warmup.dynamic_trial.error = f"ValueError: {CANARY}"


def shown_by(report: Report) -> set[str]:
    """The fields that still show the canary."""
    return {path for path, text in texts_of(report) if CANARY in text}


def test_without_source_no_field_shows_any(tmp_path: Path) -> None:
    """Findings are judged after the cleaning, so the report is looked at as it is written."""
    before = {path for path in shown_by(canary_report()) if not is_harmless(path)}
    assert len(before) > 20, "the canary must be in fields that matter"
    outputs(tmp_path, no_source=True).publish(with_plain_names(canary_report()))
    written = from_json((tmp_path / "r.json").read_bytes())
    assert {path for path in shown_by(written) if not is_harmless(path)} == set()
    assert written.findings


def with_plain_names(report: Report) -> Report:
    """Names of files and functions may be shown, and findings tell them: the canary stands in all else."""

    def named(value: Any) -> Any:
        return Location("/home/ada/model.py", 1, 0, "forward", value.code, 4) if isinstance(value, Location) else value

    return privacy.mapped(report, named)


def test_the_list_of_harmless_fields_names_real_ones() -> None:
    """A renamed field must not stay allowed by its old name."""
    paths = {path for path, _ in texts_of(filled_report(CANARY))}
    assert paths >= HARMLESS | RECIPES


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
    return Outputs.from_options({**options, **changes}, "r")


def published(report: Report, folder: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> dict[str, str]:
    outputs(folder, **changes).publish(report)
    return {
        "json": (folder / "r.json").read_text(),
        "html": (folder / "r.html").read_text(),
        "terminal": capsys.readouterr().out,
    }


def leaky_report() -> Report:
    """A run whose code, guards and exceptions all quote the canary."""
    report = rich_report()
    code = f"    score = {CANARY}.item()"
    place = msgspec.structs.replace(line_of(44, 12, 33), code=code.strip())
    texts = {
        "expression": f"{CANARY}.item()", "context": CANARY, "explanation": CANARY, "hints": [f"Avoid {CANARY}."],
        "stack": [place], "callers": [place], "snippet": Snippet(42, [code] * 5),
    }  # fmt: skip
    types = ["Unsupported Tensor.item() call with capture_scalar_outputs=False", "Never seen before"]
    report.graph_breaks = [graph_break(f"b{n}", "split", place, gb_type=kind, **texts) for n, kind in enumerate(types)]
    report.recompiles = [
        recompile("r1", "0/1", cause="value", source=f"self.{CANARY}", expected=CANARY, actual=f"'{CANARY}'",
                  guard=f"self.x == '{CANARY}'"),
        recompile("r2", "0/2", cause="other", source=None, expected=None, actual=None, guard=f"f({CANARY})"),
    ]  # fmt: skip
    report.compilations[-1].reason = f"ValueError: {CANARY}"
    report.outcome.status = "failed"
    report.outcome.message = f"The program raised ValueError: {CANARY} at /m.py:3"
    report.capture.notes = [f"Net failed under torch.compile: ValueError: {CANARY}"]
    return report


def test_no_output_shows_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = published(leaky_report(), tmp_path, capsys)
    assert all(CANARY in text for text in shown.values()), "the canary must be there to be dropped"
    hidden = published(leaky_report(), tmp_path, capsys, no_source=True)
    assert [name for name, text in hidden.items() if CANARY in text] == []


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
        (["https://ada:pass@host/x"], [f"https://{MASK}@host/x"]),
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
    (shown,) = masked_arguments([form.format(key)])
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


@given(st.lists(st.text(max_size=30), max_size=6))
def test_masking_keeps_the_number_of_arguments(arguments: list[str]) -> None:
    assert len(masked_arguments(arguments)) == len(arguments)


# Values.


def hidden(**fields: Any) -> Any:
    report = empty_report()
    report.recompiles = [recompile("r1", "0/1", **fields)]
    return privacy.hide_values(report).recompiles[0]


def test_long_strings_become_a_length_and_a_hash() -> None:
    import hashlib

    digest = hashlib.sha256(LONG.encode()).hexdigest()[:12]
    found = hidden(guard=f"prompt == {LONG!r}", source="prompt", expected=repr(LONG), actual="'short'")
    assert found.expected == f"<str of {len(LONG)} characters, sha256 {digest}>"
    assert LONG not in found.guard
    assert found.guard.startswith("prompt == <str of ")
    assert found.actual == "'short'"


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
    (found,) = privacy.hide_values(report).graph_breaks
    assert LONG not in "".join([found.context, found.explanation, *found.hints])


def test_the_name_of_a_class_is_no_value() -> None:
    said = "builtin print [<class 'torch._dynamo.variables.constant.ConstantVariable'>, 'a']"
    report = empty_report()
    report.graph_breaks = [graph_break("b1", "split", line_of(44, 12, 33), context=f"{said} <class '{LONG}")]
    (found,) = privacy.hide_values(report).graph_breaks
    assert found.context.startswith(said)
    assert LONG not in found.context


def test_measurements_quote_values_too() -> None:
    report = filled_report(f"ValueError: '{LONG}'")
    cleaned = privacy.hide_values(report)
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
    for clean in (privacy.hide_values, privacy.mask_secrets, privacy.without_source, privacy.redact):
        assert isinstance(clean(report), Report)


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
    text = "/home/ada/work ada@enigma:/home/ada (ada) enigma.local"
    report = filled_report(text)
    assert len([path for path, each in texts_of(report) if "ada" in each]) > 70
    named = {path: each for path, each in texts_of(privacy.redact(report)) if "ada" in each or "enigma" in each}
    # Keys are the report's own vocabulary: phases, caches, packages, variables of the allowlist.
    left = {path: each for path, each in named.items() if not path.endswith("{key}")}
    assert left == {}


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
