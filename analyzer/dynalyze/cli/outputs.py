"""Writes what a report was asked for: whole files or none, and the summary."""

from __future__ import annotations

import copy
import importlib
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dynalyze.cli.files import check_writable, print_document, print_summary, same_file, write_whole
from dynalyze.events.log import RunLog
from dynalyze.launch.artifacts import check_folder, write_artifacts
from dynalyze.launch.interrupts import first_signal, how_it_ended
from dynalyze.privacy.shown import showable as showable
from dynalyze.report import Report, Status
from dynalyze.report.audit import PolicyVerdict
from dynalyze.report.document import to_json
from dynalyze.rules.rule import reaches
from dynalyze.text.errors import UsageError
from dynalyze.text.visible import say

_DEFAULT_FOLDER = "dynalyze-reports"
# Outputs that are one file each: the option's parameter, which is the renderer's module too, and what it is called.
_FORMATS = {
    "chrome_trace": "Chrome trace", "graphml": "GraphML", "sarif": "SARIF", "junit": "JUnit", "markdown": "Markdown",
    "bug_report": "Bug report",
}  # fmt: skip
_DOCUMENTS = ("json_file", "markdown", "bug_report")
"""Outputs that may be standard output, which then carries nothing else."""

_STATUSES: dict[Status, int] = {
    "timed_out": 4, "failed": 3, "interrupted": 130, "complete": 0, "nothing_compiled": 0, "incomplete": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Outputs:
    """The outputs of one command: files, or "-" for the one document on standard output."""

    json_file: str | None
    html_file: str | None
    default_stem: str
    fail_on: str
    no_source: bool
    redact: bool
    show_values: bool
    chrome_trace: str | None = None
    graphml: str | None = None
    sarif: str | None = None
    junit: str | None = None
    markdown: str | None = None
    bug_report: str | None = None
    artifacts: str | None = None

    @classmethod
    def from_options(cls, options: dict[str, Any], default_stem: str, source: str | None = None) -> Outputs:
        """Check, before anything runs, that every file can be written, and that none is `source`, what is read.

        Raises:
            UsageError: an output that cannot be written.
        """
        outputs = cls(
            options["json_file"], options["html_file"], default_stem, options["fail_on"],
            options["no_source"], options["redact"], options["show_values"],
            **{name: options.get(name) for name in _FORMATS}, artifacts=options.get("artifacts"),
        )  # fmt: skip
        if len(streamed := outputs._streamed()) > 1:
            both = " and ".join(f"{_option(name)} -" for name in streamed)
            raise UsageError(f"{both} exclude each other: standard output carries one document")
        named = outputs._named()
        for option, file in named:
            check_writable(option, file, source)
        for (option, file), (other, second) in itertools.combinations(named, 2):
            if same_file(file, second):
                raise UsageError(f"{option} and {other} both name {file}")
        outputs._check_artifacts()
        if outputs._wants_default():
            _check_default(Path(_DEFAULT_FOLDER))
        return outputs

    def keep(self) -> Callable[[RunLog], list[str]] | None:
        """What writes the artifacts of a run; None where none were asked for."""
        return None if self.artifacts is None else partial(write_artifacts, folder=Path(self.artifacts))

    def publish_early(self, report: Report, note: str) -> None:
        """Write the files of a report that is to be measured yet, with a note on that, and say that they are there.

        The report stays as it is: `publish` writes the whole of it, over these files.
        """
        early = copy.deepcopy(report)
        early.capture.notes.append(note)
        page = self._write_files(self._showable(early))
        there = [str(file) for file in (page, self.json_file) if file not in (None, "-")]
        say(f"{' and '.join(there) or 'the analysis'} {'are' if len(there) > 1 else 'is'} done; {note}")

    def publish(self, report: Report, conclude: Callable[[Report], PolicyVerdict] | None = None) -> int:
        """Clean, judge and write the report; returns the exit status of the contract.

        A signal that came since the run began has interrupted it, also where that had just come to its end.
        `conclude` judges it by a policy once the rules have judged it; then that verdict decides too.
        """
        interrupted = first_signal()
        if interrupted is not None and report.outcome.status != "interrupted":
            report.outcome.status = "interrupted"
            report.outcome.message = f"{report.outcome.message} {how_it_ended()}".strip()
        report = self._showable(report, conclude)
        page = self._write_files(report)
        if (document := self._on_standard_output(report)) is not None:
            print_document(document)
        else:
            more = [(title, getattr(self, name)) for name, title in _FORMATS.items()]
            more.append(("Artifacts", self.artifacts))
            _summarise(report, [("Page", page), ("JSON", self.json_file), *more], hide_names=self.redact)
        if (late := first_signal() or interrupted) is not None:
            return 128 + late
        if (status := _STATUSES[report.outcome.status]) != 0:
            return status
        failed = conclude is not None and report.policy is not None and not report.policy.passed
        return 1 if failed or reaches(report.findings, self.fail_on) else 0

    def _showable(self, report: Report, conclude: Callable[[Report], PolicyVerdict] | None = None) -> Report:
        return showable(report, conclude, no_source=self.no_source, redact=self.redact, show_values=self.show_values)

    def _on_standard_output(self, report: Report) -> str | None:
        """The one document that was asked for there; None where it carries the summary."""
        name = next(iter(self._streamed()), None)
        if name is None:
            return None
        return to_json(report) if name == "json_file" else _rendered(name, report)

    def _streamed(self) -> list[str]:
        return [name for name in _DOCUMENTS if getattr(self, name) == "-"]

    def _write_files(self, report: Report) -> Path | None:
        if self.json_file not in (None, "-"):
            write_whole(Path(str(self.json_file)), to_json(report))
        for name in _FORMATS:
            if (file := getattr(self, name)) not in (None, "-"):
                write_whole(Path(file), _rendered(name, report))
        page = self._page_path()
        if page is None:
            return None
        from dynalyze.render import html

        page.parent.mkdir(exist_ok=True)
        write_whole(page, html.render(report))
        return page

    def _check_artifacts(self) -> None:
        if self.artifacts is None:
            return
        for option, given in (("--no-source", self.no_source), ("--redact", self.redact)):
            if given:
                raise UsageError(f"--artifacts and {option} exclude each other: the files quote your code")
        check_folder(Path(self.artifacts))

    def _page_path(self) -> Path | None:
        if self.html_file is not None:
            return Path(self.html_file)
        return Path(_DEFAULT_FOLDER) / f"{self.default_stem}.dynalyze.html" if self._wants_default() else None

    def _wants_default(self) -> bool:
        return not self._streamed() and not self._named()

    def _named(self) -> list[tuple[str, str]]:
        """Every file that was asked for, with its option."""
        names = ("json_file", "html_file", *_FORMATS)
        streamed = self._streamed()
        files = {_option(name): None if name in streamed else getattr(self, name) for name in names}
        return [(option, file) for option, file in files.items() if file is not None]


def _option(name: str) -> str:
    """`--bug-report` for `bug_report`."""
    return f"--{name.removesuffix('_file').replace('_', '-')}"


def _rendered(name: str, report: Report) -> str:
    text: str = importlib.import_module(f"dynalyze.render.{name}").render(report)
    return text


def _summarise(report: Report, written: list[tuple[str, Path | str | None]], *, hide_names: bool) -> None:
    from dynalyze.privacy.redaction import redaction
    from dynalyze.render import terminal

    shown = redaction() if hide_names else str
    files = [(name, shown(str(path))) for name, path in written if path is not None]
    print_summary(terminal.render(report, files=files))


def _check_default(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is in the way: it is no directory; use --html FILE")
    if not os.access(folder if folder.exists() else Path.cwd(), os.W_OK):
        raise UsageError("the current directory is not writable; use --html FILE or --json FILE")
