"""Writes what a report was asked for: whole files or none, and the summary."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dynalyze import privacy
from dynalyze.cli.files import check_writable, same_file, write_whole
from dynalyze.errors import UsageError
from dynalyze.report import Report, Status, to_json
from dynalyze.rules.rule import judge, reaches

_DEFAULT_FOLDER = "dynalyze-reports"
_STATUSES: dict[Status, int] = {"timed_out": 4, "failed": 3, "interrupted": 130, "complete": 0, "nothing_compiled": 0}


@dataclass(frozen=True)
class Outputs:
    """The outputs of one command. `json_file` "-" is standard output, which then carries nothing else."""

    json_file: str | None
    html_file: str | None
    default_stem: str
    fail_on: str
    no_source: bool
    redact: bool
    show_values: bool

    @classmethod
    def from_options(cls, options: dict[str, Any], default_stem: str, source: str | None = None) -> Outputs:
        """Check, before anything runs, that every file can be written, and that none is `source`, what is read.

        Raises:
            UsageError: an output that cannot be written.
        """
        outputs = cls(
            options["json_file"], options["html_file"], default_stem, options["fail_on"],
            options["no_source"], options["redact"], options["show_values"],
        )  # fmt: skip
        for option, file in (("--json", outputs.json_file), ("--html", outputs.html_file)):
            if file is not None and not (option == "--json" and file == "-"):
                check_writable(option, file, source)
        if outputs.json_file and outputs.html_file and same_file(outputs.json_file, outputs.html_file):
            raise UsageError(f"--json and --html both name {outputs.json_file}")
        if outputs._wants_default():
            _check_default(Path(_DEFAULT_FOLDER))
        return outputs

    def publish(self, report: Report) -> int:
        """Clean, judge and write the report; returns the exit status of the contract.

        Rules see only what may be shown, because they quote it.
        """
        report = self._cleaned(report)
        report.findings = judge(report)
        if self.redact:
            report = privacy.redact(report)
        page = self._write_files(report)
        if self.json_file == "-":
            sys.stdout.write(to_json(report))
            sys.stdout.flush()
        else:
            _summarise(report, [("Page", page), ("JSON", self.json_file)])
        if (status := _STATUSES[report.outcome.status]) != 0:
            return status
        return 1 if reaches(report.findings, self.fail_on) else 0

    def _cleaned(self, report: Report) -> Report:
        report = privacy.mask_secrets(report)
        if not self.show_values:
            report = privacy.hide_values(report)
        return privacy.without_source(report) if self.no_source else report

    def _write_files(self, report: Report) -> Path | None:
        if self.json_file not in (None, "-"):
            write_whole(Path(str(self.json_file)), to_json(report))
        page = self._page_path()
        if page is None:
            return None
        from dynalyze.render import html

        page.parent.mkdir(exist_ok=True)
        write_whole(page, html.render(report))
        return page

    def _page_path(self) -> Path | None:
        if self.html_file is not None:
            return Path(self.html_file)
        return Path(_DEFAULT_FOLDER) / f"{self.default_stem}.dynalyze.html" if self._wants_default() else None

    def _wants_default(self) -> bool:
        return self.json_file is None and self.html_file is None


def _summarise(report: Report, written: list[tuple[str, Path | str | None]]) -> None:
    from dynalyze.render import terminal

    files = [(name, str(path)) for name, path in written if path is not None]
    click.echo(terminal.render(report, files=files), nl=False)


def _check_default(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is in the way: it is no directory; use --html FILE")
    if not os.access(folder if folder.exists() else Path.cwd(), os.W_OK):
        raise UsageError("the current directory is not writable; use --html FILE or --json FILE")
