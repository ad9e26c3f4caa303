"""What a report may show: secrets masked always; source, paths and long values as the user chose."""

from __future__ import annotations

import getpass
import hashlib
import re
import socket
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.registry import registry
from dynalyze.report import Location, Report

MASK = "***"
_SECRET_NAME = re.compile(r"(token|secret|passw|api[-_]?key|access[-_]?key|credential|auth)", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|ya29\.|eyJ)[\w./+=-]{12,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_LONGEST_VALUE = 40


def mask_secrets(report: Report) -> Report:
    """Arguments that look like secrets, wherever a command line is kept or a message quotes them."""
    report.target.arguments = masked_arguments(report.target.arguments)
    report.command = masked_arguments(report.command)
    for process in report.processes:
        process.command = masked_arguments(process.command)
    variables = report.environment.get("variables")
    if isinstance(variables, dict):
        report.environment["variables"] = {k: _SECRET_VALUE.sub(MASK, str(v)) for k, v in variables.items()}
    return report


def masked_arguments(arguments: list[str]) -> list[str]:
    """`--api-key=abc` and `--token abc` lose their values; so does anything shaped like a known kind of key."""
    shown: list[str] = []
    follows = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if follows and not argument.startswith("-"):
            shown.append(MASK)
        elif equals and _SECRET_NAME.search(name):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(_SECRET_VALUE.sub(MASK, argument))
        follows = argument.startswith("-") and not equals and _SECRET_NAME.search(argument) is not None
    return shown


def hide_values(report: Report) -> Report:
    """Long strings of the program's own (prompts, tokens), as guards and breaks quote them: a length and a hash."""
    for found in report.graph_breaks:
        found.context = _short_strings(found.context)
        found.explanation = _short_strings(found.explanation)
    for recompile in report.recompiles:
        recompile.guard = _short_strings(recompile.guard)
        recompile.expected = _short_strings(recompile.expected)
        recompile.actual = _short_strings(recompile.actual)
    return report


def without_source(report: Report) -> Report:
    """No line of user code anywhere: also none quoted by torch's explanations, guards or exceptions."""
    known = registry()
    for found in report.graph_breaks:
        entry = known.entry(found.gb_id) if found.gb_id else None
        found.explanation = entry.explanation if entry else ""
        found.hints = list(entry.hints) if entry else []
        found.context, found.expression, found.snippet = "", "", None
    for recompile in report.recompiles:
        recompile.guard, recompile.source, recompile.expected, recompile.actual = "", None, None, None
    if report.outcome.status == "failed":
        report.outcome.message = "The program failed; its message is left out (--no-source)."
    report.capture.notes = [note.partition(" raised ")[0] for note in report.capture.notes]
    report.capture.listener_errors = [error.partition(":")[0] for error in report.capture.listener_errors]
    return _mapped(report, lambda value: _bare(value) if isinstance(value, Location) else value)


def redact(report: Report) -> Report:
    """No home folder, user name or host name in any text."""
    home, user, host = str(Path.home()), _user(), socket.gethostname()
    names = [(re.compile(rf"(?<![\w]){re.escape(n)}(?![\w])"), m) for n, m in ((user, "<user>"), (host, "<host>")) if n]

    def clean(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        value = value.replace(home, "~") if len(home) > 1 else value
        for pattern, mark in names:
            value = pattern.sub(mark, value)
        return value

    return _mapped(report, clean)


def _mapped(report: Report, change: Any) -> Report:
    """A copy of the report with `change` applied to every value in it, outermost first."""

    def walk(value: Any) -> Any:
        value = change(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: walk(getattr(value, name)) for name in value.__struct_fields__}
            return type(value)(**fields)
        if isinstance(value, list):
            return [walk(each) for each in value]
        if isinstance(value, dict):
            return {walk(key): walk(each) for key, each in value.items()}
        return value

    changed = walk(report)
    assert isinstance(changed, Report)
    return changed


def _bare(location: Location) -> Location:
    return Location(location.file, location.line, location.column, location.function, None, location.end_column)


def _short_strings(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return _STRING.sub(lambda found: _shortened(found[0]), text)


def _shortened(literal: str) -> str:
    inner = literal[1:-1]
    if len(inner) <= _LONGEST_VALUE:
        return literal
    return f"<str of {len(inner)} characters, sha256 {hashlib.sha256(inner.encode()).hexdigest()[:12]}>"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
