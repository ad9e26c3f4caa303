"""--no-source and --redact in every format that a report, a comparison or a sweep is written in."""

from __future__ import annotations

import base64
import getpass
import gzip
import html as entities
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from canaries import CANARY, OF_THE_PROGRAM, canary_report, names_in
from dynalyze import privacy
from dynalyze.cli.outputs import Outputs
from dynalyze.comparison.reports import compare
from dynalyze.privacy import cleaned, showable
from dynalyze.render import (
    comparison_text,
    html,
)
from dynalyze.report import Report
from dynalyze.report.sensitivity import Holds, changed
from dynalyze.sweep import compare as sweeps
from dynalyze.sweep import pages
from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.records import Sweep
from dynalyze.sweep.shown import shown
from records import Choose, filled, first
from sample_reports import rich_report
from sample_sweeps import small_sweep
from slow_siblings import mostly_slow

FILES = {
    "json_file": "r.json", "html_file": "r.html", "markdown": "r.md", "bug_report": "bug.md", "sarif": "r.sarif",
    "junit": "r.xml", "chrome_trace": "t.json", "graphml": "m.graphml",
}  # fmt: skip
NAMES = "/home/ada/work ada@enigma:/home/ada (ada) enigma.local"
_EMBEDDED = re.compile(r'(<script id="report-json"[^>]*>)([^<]+)')
_TAG = re.compile(r"</?(?:span|mark|b|code|sub|wbr)\b[^>]*>")


def last(values: Sequence[Any]) -> Any:
    return values[-1]


def published(report: Report, folder: Path, capsys: pytest.CaptureFixture[str], **changes: bool) -> dict[str, str]:
    """Every output of a report, and what stands on the terminal."""
    shown = {"fail_on": "none", "no_source": False, "redact": False, "show_values": True, **changes}
    Outputs({**{name: str(folder / file) for name, file in FILES.items()}, **shown}, "r").publish(report)
    Outputs({"json_file": str(folder / "brief.json"), "brief": True, **shown}, "r").publish(report)
    texts = {file: (folder / file).read_text() for file in (*FILES.values(), "brief.json")}
    # The names of the files are ours: the folder of a test names the user that runs it.
    return texts | {"terminal": capsys.readouterr().out.replace(str(folder), "")}


def readable(text: str) -> str:
    """What a reader can get out of an output: also the JSON inside the page, and what colours and entities cut up."""
    opened = _EMBEDDED.sub(lambda found: gzip.decompress(base64.b64decode(found[2])).decode(), text)
    return f"{opened}\n{unquote(entities.unescape(_TAG.sub('', opened)))}"


def shows(texts: dict[str, str], *words: str) -> dict[str, str]:
    """The outputs that hold one of these words, with what stands around it."""
    found = {name: re.search("|".join(words), readable(text)) for name, text in texts.items()}
    return {name: each.string[max(0, each.start() - 80) : each.end() + 40] for name, each in found.items() if each}


def test_no_format_shows_a_line_of_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = shows(published(canary_report(), tmp_path, capsys), CANARY)
    assert set(told) >= {"r.json", "r.html", "r.md", "bug.md", "r.sarif", "brief.json", "terminal"}, (
        "it must be there to be dropped"
    )
    assert shows(published(canary_report(), tmp_path, capsys, no_source=True), CANARY) == {}


FORMS = (
    "{}",
    "'{}'",
    "ValueError: {}",
    "x == '{}' and y",
    "Not so: {}",
    "/{}/a.py",
    "a raised {} there",
    "{}\nfile: {}",
)


@pytest.mark.parametrize("seed", mostly_slow(range(6), every=3))
def test_whichever_fields_quote_the_program_no_format_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """The canary in some of the fields that may quote the program, in any form; the kinds that stay say "plain"."""
    random = Random(seed)

    def told(holds: Holds, text: str) -> str:
        quotes = holds in OF_THE_PROGRAM and random.random() < 0.5
        if holds is Holds.MESSAGE:
            return f"We saw {random.choice(('a fault: ', 'that it raised '))}{CANARY if quotes else text}"
        return random.choice(FORMS).replace("{}", CANARY) if quotes else text

    report = changed(filled(Report, "plain", random.choice), told)
    report.schema_version = 1
    report.outcome.status = "failed"
    for cell in report.attention_matrix.cells if report.attention_matrix else ():
        cell.reason = f"It cannot be tried: {CANARY}"  # Of a cell that was not tried it is a message of transformers.
    assert shows(published(report, tmp_path, capsys, no_source=True), CANARY) == {}


@pytest.mark.parametrize("seed", mostly_slow(range(6), every=3))
def test_whichever_fields_name_the_user_no_format_does(
    ada: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    random = Random(seed)
    paths = ("/tmp/torchinductor_ada/x", "job_ADA_1", "%2Fhome%2Fada", "C:\\Users\\ada", "~ada")
    forms = (NAMES, *paths, "ada@corp.example")

    def told(holds: Holds, text: str) -> str:
        return text if holds is Holds.WORD or random.random() < 0.5 else random.choice(forms)

    report = changed(filled(Report, "plain", random.choice), told)
    report.schema_version = 1
    words = (r"(?i:(?<![^\W_])ada(?![^\W_]))", "enigma")
    assert shows(published(report, tmp_path, capsys, redact=True), *words) == {}


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    monkeypatch.setattr(socket, "gethostname", lambda: "enigma.local")


def about_ada(kind: Any, choose: Choose = first) -> Any:
    """The names in every text that may hold one: all but our own words."""
    return names_in(filled(kind, "plain", choose), NAMES)


@pytest.mark.parametrize("choose", [first, last])
def test_no_format_names_the_user_or_the_machine(
    ada: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], choose: Choose
) -> None:
    words = (r"\bada\b", "enigma")
    told = shows(published(about_ada(Report, choose), tmp_path, capsys), *words)
    assert set(told) == {*FILES.values(), "brief.json", "terminal"}
    assert shows(published(about_ada(Report, choose), tmp_path, capsys, redact=True), *words) == {}


def test_the_first_name_of_a_machine_is_its_name_too(ada: None) -> None:
    report = rich_report()
    report.outcome.message = "on enigma, enigma.local and enigmatic"
    assert privacy.redact(report).outcome.message == "on <host>, <host> and enigmatic"


# Comparisons and sweeps.


def compared(before: Report, after: Report, **how: bool) -> dict[str, str]:
    whole = {"no_source": False, "redact": False, "show_values": True}
    judged = (showable(report, **whole) for report in (before, after))
    found = cleaned(compare(*judged), **{"no_source": False, "redacted": False, "show_values": True, **how})
    return {
        "text": comparison_text.render_comparison(found, color=False, width=80),
        "page": html.render_comparison(found), "json": comparison_text.render_comparison_json(found),
    }  # fmt: skip


def test_no_comparison_shows_a_line_canary_report() -> None:
    for order in (lambda a, b: (a, b), lambda a, b: (b, a)):
        assert set(shows(compared(*order(rich_report(), canary_report())), CANARY)) == {"text", "page", "json"}
        assert shows(compared(*order(rich_report(), canary_report()), no_source=True), CANARY) == {}


def test_no_comparison_names_the_user_or_the_machine(ada: None) -> None:
    assert shows(compared(rich_report(), about_ada(Report), redacted=True), r"\bada\b", "enigma") == {}


def written(sweep: Sweep) -> dict[str, str]:
    return {
        "text": sweep_text.render(sweep, color=False, width=80), "page": pages.render_sweep(sweep),
        "json": msgspec.json.encode(sweep).decode(),
    }  # fmt: skip


def differing(comparison: sweeps.SweepComparison) -> dict[str, str]:
    return {
        "text": sweep_text.render_diff(comparison, color=False, width=80),
        "page": pages.render_diff(comparison), "json": pages.diff_json(comparison),
    }  # fmt: skip


def swept() -> Sweep:
    """The canary where a row quotes the program."""
    sweep = small_sweep()
    for row in sweep.items:
        row.error = row.error and f"ValueError: {CANARY}"
        row.notes = [CANARY]
        row.breaks = [
            msgspec.structs.replace(found, gb_type=f"call {CANARY}", reason=CANARY, code=CANARY) for found in row.breaks
        ]
    return sweep


def test_no_sweep_shows_a_line_canary_report() -> None:
    assert set(shows(written(swept()), CANARY)) == {"text", "page", "json"}
    assert shows(written(shown(swept(), no_source=True, redact=False)), CANARY) == {}
    for pair in ((Sweep("", "", [], []), swept()), (swept(), small_sweep()), (small_sweep(), swept())):
        assert shows(differing(shown(sweeps.compare(*pair), no_source=True, redact=False)), CANARY) == {}


def test_no_sweep_names_the_user_or_the_machine(ada: None) -> None:
    words = (r"\bada\b", "enigma")
    assert set(shows(written(about_ada(Sweep)), *words)) == {"text", "page", "json"}
    assert shows(written(privacy.redact(about_ada(Sweep))), *words) == {}
    found = sweeps.compare(small_sweep(), about_ada(Sweep))
    assert shows(differing(privacy.redact(found)), *words) == {}
