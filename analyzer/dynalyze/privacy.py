"""What a report may show: secrets masked always; source, paths and long values as the user chose."""

from __future__ import annotations

import functools
import getpass
import hashlib
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, get_origin, get_type_hints

import msgspec

from dynalyze.audit_records import AttentionCell, AttentionMatrix, Bisection, PolicyVerdict, Warmup
from dynalyze.facts.compilations import CUT_OFF, NOTHING_TRACED
from dynalyze.facts.skipped import explain
from dynalyze.measurements import Accuracy, Measurement, Pair
from dynalyze.model_facts import AttentionCall, ModuleFacts
from dynalyze.registry import registry
from dynalyze.report import Graph, Location, Report

Document = TypeVar("Document", bound=msgspec.Struct)

MASK = "***"
# The last word of an option's name: --hf-token is a secret, --max-tokens and --tokenizer are not.
_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:token|secret|password|passwd|passphrase|(?:api|access|secret|private)[-_]?key|credentials?|auth)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|ya29\.|eyJ)[\w./+=-]{12,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
# A string literal, also one that was cut short; an apostrophe inside a word, or after `code`, opens none, nor does
# that of a class, whose name is no value.
_STRING = re.compile(
    r"(?<!\w)(?!(?<=<class )'[\w.<>]+'>)(?!(?<=[\w)\]]`)'s\b)(?:[bBrRuUfF]{1,2})?"
    r"(?:'(?:[^'\\]|\\.)*(?:'|$)|\"(?:[^\"\\]|\\.)*(?:\"|$))",
    re.DOTALL,
)
# How torch begins to tell why there is no CUDA graph; a stack of the program may follow.
_SKIP = re.compile(
    r"skipping cudagraphs due to (?:mutated inputs|cpu device|multiple devices|graph with symbolic shapes inputs"
    r"|disabling cudagraphs due to incompatible op|deterministic index put|\w+ mode\b)?"
)
# Arguments of torch.compile, and their values that are torch's own words.
_OF_COMPILE = ("backend", "mode", "dynamic", "fullgraph")
_OF_TORCH = (
    "inductor", "eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs", "default", "reduce-overhead",
    "max-autotune", "max-autotune-no-cudagraphs",
)  # fmt: skip
_NUMBER = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?")
_DTYPE = re.compile(r"(?:bool|b?float|u?int|complex)\w*|Sym\(\w+\)")
_EXCEPTION = re.compile(r"\w+(?:Error|Exception)(?=:)")
# Operations of torch and Python; those of the program have other names.
_OPERATION = re.compile(r"(?:torch(?:\.nn\.functional|\.linalg)?|operator|Tensor)\.\w{1,40}|aten\.\w{1,40}\.\w{1,40}")
# What our own facts say of a compilation.
_OUR_REASONS = (NOTHING_TRACED, CUT_OFF)
# How a note on a module begins; what follows a colon quotes an exception.
_OUR_NOTE = "Not all could be read "
_LONGEST_VALUE = 40
# A shorter masked value is a word that may stand anywhere.
_SHORTEST_QUOTED = 6


def mask_secrets(report: Report) -> Report:
    """Arguments that look like secrets, and every text that quotes them or holds a known kind of key."""
    lines = [report.target.arguments, report.command, *(process.command for process in report.processes)]
    secrets = secrets_of(lines)
    report.target.arguments = masked_arguments(report.target.arguments)
    report.command = masked_arguments(report.command)
    for process in report.processes:
        process.command = masked_arguments(process.command)
    return without(report, secrets)


def without(document: Document, secrets: list[str]) -> Document:
    """A document in which no text quotes one of these secrets, or holds a known kind of key."""

    def clean(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for secret in secrets:
            value = value.replace(secret, MASK)
        return _SECRET_VALUE.sub(MASK, value)

    return mapped(document, clean)


def masked_arguments(arguments: list[str]) -> list[str]:
    """`--api-key=abc` and `--token abc` lose their values; so does anything shaped like a known kind of key."""
    shown: list[str] = []
    for argument, part, secret in _parts(arguments):
        shown.append(argument[: len(argument) - len(part)] + MASK if secret else _SECRET_VALUE.sub(MASK, argument))
    return shown


def secrets_of(lines: Iterable[list[str]]) -> list[str]:
    """The values in command lines that are secret by their option's name, the longest first."""
    found = {part for line in lines for _, part, secret in _parts(line) if secret and len(part) >= _SHORTEST_QUOTED}
    return sorted(found, key=len, reverse=True)


def _parts(arguments: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Each argument, the part of it that is a value, and whether the option's name says that it is secret."""
    follows = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if follows and not argument.startswith("-"):
            yield argument, argument, True
        elif equals and _SECRET_NAME.search(name):
            yield argument, value, True
        else:
            yield argument, "", False
        follows = argument.startswith("-") and not equals and _SECRET_NAME.search(argument) is not None


def hide_values(report: Report) -> Report:
    """Long strings of the program's own (prompts, tokens), as guards and breaks quote them: a length and a hash."""
    for found in report.graph_breaks:
        found.context = _short_strings(found.context)
        found.explanation = _short_strings(found.explanation)
        found.hints = [_short_strings(hint) for hint in found.hints]
    for compilation in report.compilations:
        for bypass in compilation.cache_bypasses:
            bypass.said = _short_strings(bypass.said)
    for recompile in report.recompiles:
        recompile.guard = _short_strings(recompile.guard)
        if recompile.of_module is not None:
            recompile.of_module = mapped(recompile.of_module, _short_strings)
        recompile.source = _short_strings(recompile.source)
        recompile.expected = _short_strings(recompile.expected)
        recompile.actual = _short_strings(recompile.actual)
    for size in report.forced_sizes:
        size.source = _short_strings(size.source)
    for candidate in report.candidates:
        candidate.name, candidate.error = _short_strings(candidate.name), _short_strings(candidate.error)
    report.capture.notes = [_short_strings(note) for note in report.capture.notes]
    for measured in report.measurements:
        measured.notes = [_short_strings(note) for note in measured.notes]
        measured.reason = _short_strings(measured.reason)
    for accuracy in report.accuracy:
        accuracy.reason = _short_strings(accuracy.reason)
    report.bisections = [mapped(found, _short_strings) for found in report.bisections]
    if report.policy is not None:
        report.policy = mapped(report.policy, _short_strings)
    if report.warmup is not None:
        report.warmup = mapped(report.warmup, _short_strings)
    if report.attention_matrix is not None:
        report.attention_matrix = mapped(report.attention_matrix, _short_strings)
    return report


def without_source(report: Report) -> Report:
    """No line of user code anywhere: also none quoted by torch's explanations, guards or exceptions.

    Findings go too, since they quote the facts: judge what this returns.
    """
    known = registry()
    report.findings, report.sources, report.regions = [], [], []
    for found in report.graph_breaks:
        entry = known.entry(found.gb_id) if found.gb_id else None
        found.gb_type = _known_type(found.gb_type) or (entry.gb_type if entry else "Graph break")
        found.consequence = _known_type(found.consequence)
        found.explanation = entry.explanation if entry else ""
        found.hints = list(entry.hints) if entry else []
        found.context, found.expression, found.block, found.snippet = "", "", "", None
    for compilation in report.compilations:
        compilation.reason = (
            compilation.reason if compilation.reason in _OUR_REASONS else _known_type(compilation.reason)
        )
        compilation.module = ""
        for bypass in compilation.cache_bypasses:
            bypass.said = ""
    for frame in report.skipped_frames:
        frame.explanation = explain(frame.reason)
    for recompile in report.recompiles:
        recompile.guard, recompile.source, recompile.expected, recompile.actual = "", None, None, None
        recompile.of_module = None
        recompile.last_batch_of = ""
    for size in report.forced_sizes:
        size.source = None
        size.values = [value for value in size.values if _NUMBER.fullmatch(value)]
    for candidate in report.candidates:
        # The name is an expression of the program, or of the user for it; its class and its place tell which it is.
        candidate.name, candidate.error = "", _before_quote(candidate.error)
    for graph in report.graphs:
        _hide_graph(graph)
    for kernel in report.kernels:
        kernel.source_nodes, kernel.post_grad_nodes = [], []
    for measured in report.measurements:
        _hide_measurement(measured)
    for accuracy in report.accuracy:
        _hide_accuracy(accuracy)
    for bisection in report.bisections:
        _hide_bisection(bisection)
    if report.policy is not None:
        _hide_policy(report.policy)
    if report.warmup is not None:
        _hide_warmup(report.warmup)
    if report.attention_matrix is not None:
        _hide_attentions(report.attention_matrix)
    for module in report.modules:
        _hide_module(module)
    for call in report.attention:
        _hide_attention(call)
    if report.outcome.status == "failed":
        report.outcome.message = "The program failed; its message is left out (--no-source)."
        if report.outcome.failed_stage is not None:
            report.outcome.failed_stage.message = ""
    report.capture.notes = [_before_quote(note) for note in report.capture.notes]
    report.capture.listener_errors = [_before_quote(error) for error in report.capture.listener_errors]
    return mapped(report, lambda value: _bare(value) if isinstance(value, Location) else value)


def _hide_graph(graph: Graph) -> None:
    """Its code, and the names that the program gave to its tensors."""
    graph.code, graph.code_omitted = [], []
    for number, each in enumerate(graph.inputs, 1):
        each.name, each.source = f"input {number}", ""
        each.dtype = each.dtype if _DTYPE.fullmatch(each.dtype) else ""
    if graph.cudagraph_skip:
        known = _SKIP.match(graph.cudagraph_skip)
        graph.cudagraph_skip = known[0] if known else "the reason is left out (--no-source)"


def _hide_measurement(item: Measurement) -> None:
    """What an exception said, and what the program wrote into its own torch.compile."""
    item.reason, item.notes = _before_quote(item.reason), [_before_quote(note) for note in item.notes]
    if item.configuration == "as written":
        known = {name: value for name, value in item.options.items() if name in _OF_COMPILE}
        item.options = {name: value for name, value in known.items() if type(value) is bool or value in _OF_TORCH}


def _hide_module(module: ModuleFacts) -> None:
    """What exceptions said, and the names that the program gave to its parts and adapters."""
    module.notes = [_before_quote(note) for note in module.notes if note.startswith(_OUR_NOTE)]
    for group in module.layers:
        group.first = ""
    if module.adapters is not None:
        numbers = {name: f"adapter {number}" for number, name in enumerate(module.adapters.names, 1)}
        module.adapters.ranks = {numbers.get(name, "adapter"): rank for name, rank in module.adapters.ranks.items()}
        module.adapters.active = [numbers.get(name, "adapter") for name in module.adapters.active]
        module.adapters.names = list(numbers.values())


def _hide_attention(call: AttentionCall) -> None:
    """Names of operators may be the program's own; kinds, kernels, types, sizes and places stay."""
    call.name, call.why_not = call.name if call.name.startswith("aten.") else "", {}
    for tensor in (call.query, call.key, call.value, call.mask):
        if tensor is not None:
            tensor.dtype = tensor.dtype if _DTYPE.fullmatch(tensor.dtype) else ""


def _hide_accuracy(item: Accuracy) -> None:
    """What an exception said, and the names that the program gave to outputs and parameters, the reason's too."""
    item.reason = ""
    for number, tensor in enumerate(item.tensors, 1):
        tensor.name = f"{tensor.kind} {number}"


def _hide_warmup(warmup: Warmup) -> None:
    """What exceptions said, and what guards compare; their kinds, places and counts stay."""
    for run in (*warmup.calls, *warmup.after_warmup):
        run.error = _before_quote(run.error)
        for found in run.recompiles:
            found.source, found.expected, found.actual, found.guard = None, None, None, ""
    warmup.reason = _before_quote(warmup.reason)
    warmup.notes = [_before_quote(note) for note in warmup.notes]
    if warmup.dynamic_trial is not None and warmup.dynamic_trial.error:
        warmup.dynamic_trial.error = _before_quote(warmup.dynamic_trial.error)
        warmup.dynamic_advice = _before_quote(warmup.dynamic_advice)
    if warmup.second_start is not None:
        warmup.second_start.said = ""


def _hide_bisection(found: Bisection) -> None:
    """Names that the program gave, and the script, which holds its operations; torch's own names stay."""
    found.tensor, found.module, found.module_class, found.repro = "", "", "", ""
    found.why, found.reason = "", ""
    found.op = found.op if _OPERATION.fullmatch(found.op) else ""
    found.dtype = found.dtype if _DTYPE.fullmatch(found.dtype) else ""
    for run in found.stages:
        run.backend, run.reason = run.backend if run.backend in _OF_TORCH else "", ""


def _hide_policy(verdict: PolicyVerdict) -> None:
    """What quotes findings and names of the program: it comes after a colon."""
    told = [check.found for check in verdict.checks if check.status == "failed"]
    for check in verdict.checks:
        check.found, check.reason = _before_quote(check.found), ""
    outcome = "PASS" if verdict.passed else "FAIL"
    verdict.summary = f"{outcome}: {'; '.join(map(_before_quote, told))}" if told else outcome
    verdict.advice = ""


def _hide_attentions(matrix: AttentionMatrix) -> None:
    """What exceptions said, but for their class. A type of PyTorch's registry, and our words before a colon, stay."""
    matrix.notes = [_before_quote(note) for note in matrix.notes]
    for cell in matrix.cells:
        cell.reason = _shown_reason(cell)
        cell.notes = [_before_quote(note) for note in cell.notes]


def _shown_reason(cell: AttentionCell) -> str:
    if cell.status == "breaks":
        return _known_type(cell.reason)
    if cell.facts.get("raised"):
        raised = _EXCEPTION.match(cell.reason)
        return raised[0] if raised else ""
    return _before_quote(cell.reason) if cell.status in ("not_here", "crash", "timeout") else ""


def _known_type(gb_type: str) -> str:
    """A type of PyTorch's registry is torch's own wording; anything else may quote the program."""
    return gb_type if registry().id_of(gb_type) else ""


def _before_quote(note: str) -> str:
    return note.partition(" raised ")[0].partition(":")[0]


def redact(report: Document) -> Document:
    """No home folder, user name or host name in any text of a report, or of another document."""
    home, user, host = str(Path.home()), _user(), socket.gethostname()
    told = ((user, "<user>"), (host, "<host>"), (host.partition(".")[0], "<host>"))
    names = [(re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"), mark) for name, mark in told if name]
    if len(home) > 1:
        names.insert(0, (re.compile(rf"{re.escape(home)}(?![\w.-])"), "~"))

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            for pattern, mark in names:
                value = pattern.sub(mark, value)
        return value

    return mapped(report, clean)


def mapped(report: Document, change: Any) -> Document:
    """A copy of the document with `change` applied to every value in it, outermost first.

    Words of the report's own vocabulary (statuses, causes) and keys stay as they are.
    """

    def walk(value: Any) -> Any:
        if isinstance(value, Pair):  # Numbers alone, and very many of them.
            return value
        value = change(value)
        if isinstance(value, msgspec.Struct):
            fixed = _literals(type(value))
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return type(value)(**{name: each if name in fixed else walk(each) for name, each in fields.items()})
        if isinstance(value, list):
            return [walk(each) for each in value]
        if isinstance(value, dict):
            return {key: walk(each) for key, each in value.items()}
        return value

    changed = walk(report)
    assert isinstance(changed, type(report))
    return changed


@functools.cache
def _literals(struct: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of a struct that hold one of a few fixed words."""
    hints = get_type_hints(struct)
    return frozenset(name for name, hint in hints.items() if get_origin(hint) is Literal)


def _bare(location: Location) -> Location:
    return Location(location.file, location.line, location.column, location.function, None, location.end_column)


def _short_strings(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return _STRING.sub(lambda found: _shortened(found[0]), text)


def _shortened(literal: str) -> str:
    inner = literal.lstrip("bBrRuUfF")[1:]
    if inner[-1:] in ("'", '"'):
        inner = inner[:-1]
    if len(inner) <= _LONGEST_VALUE:
        return literal
    return f"<str of {len(inner)} characters, sha256 {hashlib.sha256(inner.encode(errors='replace')).hexdigest()[:12]}>"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
