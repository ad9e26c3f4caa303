"""Writes the outputs of a report: whole files or none, and the summary."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from dynalyze import privacy
from dynalyze.cli.files import check_outputs, print_document, print_summary, write_whole
from dynalyze.cli.options import FORMATS
from dynalyze.events.log import RunLog
from dynalyze.launch.artifacts import check_folder, write_artifacts
from dynalyze.launch.interrupts import first_signal, how_it_ended
from dynalyze.render.text.report import line_words
from dynalyze.report import Report
from dynalyze.report.document import to_json
from dynalyze.rules.report_queries import costliest_break
from dynalyze.rules.rule import break_limit, reaches
from dynalyze.text.amounts import milliseconds
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import dashed, say

_DEFAULT_FOLDER = "dynalyze-reports"
_DOCUMENTS = ("json_file", "markdown", "bug_report")
"""Outputs that may be standard output, which then carries nothing else."""
EXIT_STATUSES: dict[str, int] = {
    "timed_out": 4, "failed": 3, "interrupted": 130, "complete": 0, "nothing_compiled": 0, "incomplete": 0,
}  # fmt: skip

WORST_FIRST = (2, 4, 3, 1, 0)
"""The exit statuses of the contract: where several hold, the first does."""


def exit_status(ended: Iterable[str], *, failed: bool) -> int:
    """That of the contract, for runs that ended so and what --fail-on says of them."""
    if (number := first_signal()) is not None:
        return 128 + number
    return max((EXIT_STATUSES[each] for each in ended), default=0) or int(failed)


class Outputs:
    """The outputs of one command: files, or "-" for the one document on standard output."""

    def __init__(self, options: Mapping[str, Any], default_stem: str, source: str | None = None) -> None:
        """Raise UsageError, before anything runs, for a file that cannot be written, or is `source`, which is read."""
        self._options = options
        self._artifacts: str | None = options.get("artifacts")
        names = ("json_file", "html_file", *FORMATS)
        self._files: dict[str, str] = {name: file for name in names if (file := options.get(name)) is not None}
        if options.get("brief") and "json_file" not in self._files:
            raise UsageError("--brief makes the JSON a short one: name it with --json FILE, or --json - to print it")
        streamed = [name for name in _DOCUMENTS if self._files.get(name) == "-"]
        if len(streamed) > 1:
            both = " and ".join(f"{_option(name)} -" for name in streamed)
            raise UsageError(f"{both} exclude each other: standard output carries one document")
        self._streamed = streamed[0] if streamed else None
        self._files.pop(self._streamed or "", None)
        check_outputs([(_option(name), file) for name, file in self._files.items()], source)
        if self._artifacts is not None:
            for name in ("no_source", "redact"):
                if options[name]:
                    raise UsageError(f"--artifacts and {_option(name)} exclude each other: the files quote your code")
            check_folder(Path(self._artifacts))
        self._page = Path(self._files["html_file"]) if "html_file" in self._files else None
        if self._streamed is None and not self._files:
            folder = Path(_DEFAULT_FOLDER)
            self._page = folder / f"{default_stem}.dynalyze.html"
            if folder.exists() and not folder.is_dir():
                raise UsageError(f"{folder} is in the way: it is no directory; use --html FILE")
            if not os.access(folder if folder.exists() else Path.cwd(), os.W_OK):
                raise UsageError("the current directory is not writable; use --html FILE or --json FILE")

    def keep(self) -> Callable[[RunLog], list[str]] | None:
        """What writes the artifacts of a run; None without --artifacts."""
        return None if self._artifacts is None else partial(write_artifacts, folder=Path(self._artifacts))

    def publish_early(self, report: Report, note: str) -> None:
        """Write the files of a report before it is measured, with a note on that; `publish` overwrites them."""
        early = copy.deepcopy(report)
        early.capture.notes.append(note)
        self._write_files(self._showable(early))
        there = [str(file) for file in (self._page, self._files.get("json_file")) if file is not None]
        say(f"{' and '.join(there) or 'the analysis'} {'are' if len(there) > 1 else 'is'} done; {note}")

    def publish(self, report: Report, conclude: privacy.Conclude | None = None) -> int:
        """Clean, judge and write the report; returns the exit status of the contract.

        A signal that came since the run began counts as its interruption. `conclude` gives the verdict of a policy on
        what the rules found, which then decides too.
        """
        interrupted = first_signal()
        if interrupted is not None and report.outcome.status != "interrupted":
            report.outcome.status = "interrupted"
            report.outcome.message = f"{report.outcome.message} {how_it_ended()}".strip()
        report = self._showable(report, conclude)
        self._write_files(report)
        if self._streamed is not None:
            print_document(self._rendered(self._streamed, report))
        else:
            self._summarise(report)
        failed = conclude is not None and report.policy is not None and not report.policy.passed
        return exit_status([report.outcome.status], failed=failed or self._fails(report))

    def _fails(self, report: Report) -> bool:
        """Whether `--fail-on` is met. An unknown cost fails, unless there is no graph break."""
        level = self._options["fail_on"]
        limit = break_limit(level)
        if limit is None:
            return reaches(report.findings, level)
        costliest, reason = costliest_break(report.measurements)
        if reason and report.capture.mode != "none" and not report.graph_breaks:
            return False
        if reason:
            say(f"--fail-on {level}: not known: {reason}")
        elif costliest is not None and costliest[1].low > limit:
            say(f"--fail-on {level}: {milliseconds(costliest[1].value)} per call: {line_words(costliest[0])}")
            return True
        return bool(reason)

    def _showable(self, report: Report, conclude: privacy.Conclude | None = None) -> Report:
        shown = {name: self._options[name] for name in ("no_source", "redact", "show_values")}
        return privacy.showable(report, conclude, **shown)

    def _write_files(self, report: Report) -> None:
        for name, file in self._files.items():
            if name != "html_file":
                write_whole(Path(file), self._rendered(name, report))
        if self._page is not None:
            from dynalyze.render import html

            self._page.parent.mkdir(exist_ok=True)
            write_whole(self._page, html.render(report))

    def _rendered(self, name: str, report: Report) -> str:
        if name == "json_file" and not self._options.get("brief"):
            return to_json(report)
        module = "brief" if name == "json_file" else name
        return str(import_module(f"dynalyze.render.{module}").render(report))

    def _summarise(self, report: Report) -> None:
        from dynalyze.privacy.redaction import redaction
        from dynalyze.render import terminal

        shown = redaction() if self._options["redact"] else str
        written = [("Page", self._page), ("JSON", self._files.get("json_file"))]
        written += [(title, self._files.get(name)) for name, (title, _) in FORMATS.items()]
        written.append(("Artifacts", self._artifacts))
        files = [(name, shown(str(path))) for name, path in written if path is not None]
        print_summary(terminal.render(report, files=files, verbose=bool(self._options.get("verbose"))))


def _option(name: str) -> str:
    return f"--{dashed(name.removesuffix('_file'))}"
