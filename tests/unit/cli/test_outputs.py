"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
import threading
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from dynalyze.cli.files import write_whole
from dynalyze.cli.outputs import Outputs
from dynalyze.report import Report, Status
from dynalyze.report.document import from_json, to_json
from dynalyze.rules.rule import judge
from dynalyze.text.errors import UsageError
from sample_reports import clean_report, priced_report, rich_report


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outputs(source: str | None = None, **changes: Any) -> Outputs:
    options = {
        "json_file": None, "html_file": None, "fail_on": "none", "no_source": False, "redact": False,
        "show_values": False,
    }  # fmt: skip
    return Outputs({**options, **changes}, "model", source)


def refused(source: str | None = None, **changes: Any) -> str:
    with pytest.raises(UsageError) as error:
        outputs(source, **changes)
    return str(error.value)


# What is written where.


def test_the_page_goes_to_a_folder_of_its_own_unless_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs().publish(clean_report()) == 0
    page = here / "dynalyze-reports" / "model.dynalyze.html"
    assert page.read_text().lower().startswith("<!doctype html>")
    assert "dynalyze-reports/model.dynalyze.html" in capsys.readouterr().out


def test_a_named_output_is_the_only_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs(json_file="r.json").publish(rich_report())
    assert [path.name for path in here.iterdir()] == ["r.json"]
    assert len(from_json((here / "r.json").read_bytes()).graph_breaks) == 6
    assert "r.json" in capsys.readouterr().out


def test_the_formats_of_ci_are_named_in_the_summary(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs(sarif="r.sarif", junit="r.xml", markdown="r.md").publish(rich_report()) == 0
    assert sorted(path.name for path in here.iterdir()) == ["r.md", "r.sarif", "r.xml"]
    assert ET.parse(here / "r.xml").getroot().tag == "testsuites"
    assert (here / "r.md").read_text().startswith("### ")
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("SARIF", "JUnit", "Markdown", "r.sarif", "r.xml", "r.md"))


def test_a_comment_on_standard_output_stands_there_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs(markdown="-", sarif="r.sarif").publish(rich_report())
    out = capsys.readouterr().out
    assert out.startswith("### ") and out.rstrip().endswith("</details>")
    assert [path.name for path in here.iterdir()] == ["r.sarif"]


def test_standard_output_carries_one_json_document_and_nothing_else(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs(json_file="-", html_file="r.html").publish(rich_report())
    out = capsys.readouterr().out
    assert json.loads(out)["schema_version"] == 1
    assert (here / "r.html").is_file()


@pytest.mark.parametrize(
    ("status", "fail_on", "code"),
    [
        ("complete", "none", 0),
        ("complete", "warning", 1),
        ("complete", "graph-break", 1),
        ("failed", "none", 3),
        ("failed", "error", 3),
        ("timed_out", "warning", 4),
        ("interrupted", "warning", 130),
        ("nothing_compiled", "none", 0),
        ("nothing_compiled", "error", 1),
    ],
)
def test_exit_statuses(status: Status, fail_on: str, code: int) -> None:
    report = rich_report()
    report.outcome.status = status
    assert outputs(json_file="r.json", fail_on=fail_on).publish(report) == code


def test_a_price_above_the_limit_fails_by_the_low_end_of_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    code = outputs(json_file="r.json", fail_on="max-break-ms=1.2").publish(priced_report())
    assert (code, "1.40 ms per call" in capsys.readouterr().err) == (1, True)
    assert outputs(json_file="r.json", fail_on="max-break-ms=1.35").publish(priced_report()) == 0


def test_breaks_whose_price_is_not_known_fail_and_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    report = priced_report()
    report.measurements = []
    assert outputs(json_file="r.json", fail_on="max-break-ms=1.2").publish(report) == 1
    assert "not known: no prices were measured" in capsys.readouterr().err
    assert outputs(json_file="r.json", fail_on="max-break-ms=1.2").publish(clean_report()) == 0, "no break, no price"


# Whole or not at all.


def test_a_file_that_cannot_be_rendered_stays_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "r.sarif").write_text("before")

    def refuse(*_: Any, **__: Any) -> str:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("dynalyze.render.sarif.render", refuse)
    with pytest.raises(ValueError, match="a mistake"):
        outputs(sarif="r.sarif").publish(rich_report())
    assert (here / "r.sarif").read_text() == "before"


def test_an_old_file_is_replaced(here: Path) -> None:
    (here / "r.json").write_text("old and much longer than what follows" * 10_000)
    outputs(json_file="r.json").publish(clean_report())
    assert (here / "r.json").read_text() == to_json(_judged(clean_report()))


def _judged(report: Report) -> Report:
    report.findings = judge(report)
    return report


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_file_and_no_trace(
    here: Path, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "r.json").write_text("old")

    class Full:
        def __init__(self, descriptor: int, *args: object, **more: object) -> None:
            self._descriptor = descriptor

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *error: object) -> None:
            os.close(self._descriptor)

        def write(self, content: bytes) -> None:
            os.write(self._descriptor, content[:10])
            raise failure

    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(UsageError if isinstance(failure, OSError) else KeyboardInterrupt):
        write_whole(Path("r.json"), "new" * 100)
    assert [path.name for path in here.iterdir()] == ["r.json"]
    assert (here / "r.json").read_text() == "old"


def test_the_new_file_appears_under_its_name_only_when_it_is_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, str]] = []
    replace = Path.replace

    def watching(self: Path, target: Path) -> Path:
        seen.append((Path(target).exists(), self.read_text()))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watching)
    write_whole(Path("r.json"), "text")
    assert seen == [(False, "text")]


def test_a_link_stays_a_link(here: Path) -> None:
    (here / "real").mkdir()
    (here / "real" / "r.json").write_text("old")
    (here / "link.json").symlink_to(here / "real" / "r.json")
    outputs(json_file="link.json").publish(clean_report())
    assert (here / "link.json").is_symlink()
    assert from_json((here / "real" / "r.json").read_bytes()).outcome.status == "complete"
    assert [path.name for path in (here / "real").iterdir()] == ["r.json"]


def test_a_link_to_a_file_that_is_not_there_yet(here: Path) -> None:
    (here / "link.json").symlink_to(here / "later.json")
    outputs(json_file="link.json").publish(clean_report())
    assert (here / "link.json").is_symlink()
    assert (here / "later.json").is_file()


def test_a_link_into_a_folder_that_does_not_exist_is_refused_before_the_run(here: Path) -> None:
    (here / "link.json").symlink_to(here / "none" / "r.json")
    assert "link.json" in refused(json_file="link.json")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_heeds_the_umask(here: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(Path("r.json"), "text")
        assert os.umask(mask) == mask, "the umask must be as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE((here / "r.json").stat().st_mode) == 0o666 & ~mask


def test_an_old_file_keeps_its_mode(here: Path) -> None:
    (here / "r.json").write_text("old")
    (here / "r.json").chmod(0o640)
    write_whole(Path("r.json"), "text")
    assert stat.S_IMODE((here / "r.json").stat().st_mode) == 0o640


def test_texts_are_utf_8_whatever_the_locale(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    write_whole(Path("r.json"), "Größe 变量 🔥 \udce9")
    assert (here / "r.json").read_bytes() == "Größe 变量 🔥 \\udce9".encode()


# Devices and pipes.


def test_a_full_device_is_one_clear_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(UsageError, match="/dev/full cannot be written"):
        outputs(json_file="/dev/full").publish(clean_report())


def test_a_device_needs_no_writable_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an ordinary user /dev is not writable, and /dev/null is."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path("/dev") and access(path, mode))
    outputs(json_file="/dev/null")


def test_a_pipe_is_written_to(here: Path) -> None:
    os.mkfifo(here / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((here / "pipe").read_bytes()))
    reader.start()
    outputs(json_file="pipe").publish(clean_report())
    reader.join(10)
    assert from_json(read[0]).outcome.status == "complete"
    assert stat.S_ISFIFO((here / "pipe").stat().st_mode)


# Checked before anything runs.


@pytest.mark.parametrize("option", ["json_file", "html_file", "chrome_trace", "graphml", "sarif", "markdown"])
def test_places_that_cannot_be_written_are_refused_before_the_run(here: Path, option: str) -> None:
    name = "--" + option.removesuffix("_file").replace("_", "-")
    (here / "folder").mkdir()
    (here / "file").write_text("")
    assert f"{name} needs the name of a file" in refused(**{option: ""})
    assert "is a directory" in refused(**{option: "folder"})
    assert "no such directory" in refused(**{option: "none/r"})
    assert "directory" in refused(**{option: "file/r"})
    assert not (here / "none").exists()


@pytest.mark.parametrize("option", ["html_file", "chrome_trace", "graphml", "sarif", "junit"])
def test_what_is_no_text_for_people_is_not_for_standard_output(option: str) -> None:
    name = "--" + option.removesuffix("_file").replace("_", "-")
    assert f"{name} needs a file" in refused(**{option: "-"})


def test_standard_output_carries_one_document() -> None:
    assert "--json - and --markdown - exclude each other" in refused(json_file="-", markdown="-")


def test_a_folder_that_may_not_be_written_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "not writable" in refused(json_file="r.json")
    assert "not writable" in refused()


def test_a_file_in_the_way_of_the_default_folder_is_refused(here: Path) -> None:
    (here / "dynalyze-reports").write_text("")
    assert "in the way" in refused()
    outputs(json_file="r.json")


def test_one_file_for_two_outputs_is_refused(here: Path) -> None:
    (here / "link").symlink_to(here / "r")
    assert "both" in refused(json_file="r", html_file="./r")
    assert "both" in refused(json_file="r", html_file="link")
    assert "--json and --graphml both" in refused(json_file="r", html_file="h", graphml="link")
    assert "--chrome-trace and --graphml both" in refused(chrome_trace="r", graphml="r")
    assert "--sarif and --junit both" in refused(sarif="r", junit="r")


def test_what_is_read_is_not_overwritten(here: Path) -> None:
    (here / "model.py").write_text("")
    (here / "link").symlink_to(here / "model.py")
    for name in ("model.py", "./model.py", "link"):
        assert "overwrite" in refused("model.py", json_file=name)


def test_no_file_is_left_in_the_folder_for_temporary_ones(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lie on another disk, from which a file cannot be moved in one step."""
    scratch = here / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    write_whole(here / "r.json", "text")
    assert list(scratch.iterdir()) == []
