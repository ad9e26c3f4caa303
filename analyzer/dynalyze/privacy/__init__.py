"""What a report may show: secrets always masked; source, paths and long values as the user chose.

The mark on a text's field (sensitivity.py) decides what becomes of it:

| what it holds      | secrets | long strings of the program | --no-source             | --redact |
|--------------------|---------|-----------------------------|-------------------------|----------|
| a word of ours     | as is   | as is                       | stays                   | as is    |
| name, path, ...    | masked  | as is                       | stays                   | redacted |
| an error's text    | masked  | as is                       | goes                    | redacted |
| a message of ours  | masked  | shortened                   | up to what it quotes    | redacted |
| a quote, a guard   | masked  | shortened                   | goes                    | redacted |
| source             | masked  | as is                       | goes                    | redacted |
| dtype, backend ... | masked  | as is                       | stays if it is a known one | redacted if it is none |

A few records then describe in our own or PyTorch's words what was removed: they add, and let nothing through.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from dynalyze.facts.compilations import CUT_OFF, NOTHING_TRACED
from dynalyze.facts.fingerprints import add_fingerprints
from dynalyze.facts.registry import registry
from dynalyze.facts.why_not_compiled import EXPLANATIONS
from dynalyze.privacy.masking import Masking, masked_arguments, secrets_around, secrets_in, secrets_of
from dynalyze.privacy.redaction import redaction
from dynalyze.report import Graph, GraphBreak, Outcome, Report, SkippedFrame
from dynalyze.report.audit import AttentionCell, PolicyVerdict, Warmup
from dynalyze.report.measurements import Accuracy, Measurement
from dynalyze.report.models import Adapters, ModuleFacts
from dynalyze.report.sensitivity import Holds, Restate, changed, texts
from dynalyze.rules.rule import judge

Document = TypeVar("Document", bound=msgspec.Struct)

# A string literal, also one that was cut short; an apostrophe inside a word, or after `code`, opens none, nor does
# that of a class, whose name is no value.
_STRING = re.compile(
    r"(?<!\w)(?!(?<=<class )'[\w.<>]+'>)(?!(?<=[\w)\]]`)'s\b)(?:[bBrRuUfF]{1,2})?"
    r"(?:'(?:[^'\\]|\\.)*(?:'|$)|\"(?:[^\"\\]|\\.)*(?:\"|$))",
    re.DOTALL,
)
# torch quotes the name of a tensor that may have quotes itself: `tensor 'kwargs['x']' size mismatch at index 1. ...`
_TENSOR = re.compile(r"tensor '(?P<name>[^\n]+?)' (?=(?:\w+ ){1,4}mismatch)")
_LONGEST_VALUE = 40
_SHORTENED = (Holds.QUOTE, Holds.MESSAGE)
_GONE = (Holds.QUOTE, Holds.SOURCE, Holds.ERROR)
LEFT_OUT = "(--no-source)"
# Arguments of torch.compile, and their values that are torch's own words.
_OF_COMPILE = ("backend", "mode", "dynamic", "fullgraph")
_OF_TORCH = (
    "inductor", "eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs", "default", "reduce-overhead",
    "max-autotune", "max-autotune-no-cudagraphs",
)  # fmt: skip
# What our own facts say of a compilation.
_OUR_REASONS = (NOTHING_TRACED, CUT_OFF)
# Words that stay in fields which may hold anything.
_KNOWN = {
    Holds.DTYPE: re.compile(r"(?:(?:bool|b?float|u?int|complex)\w*|Sym\(\w+\))\Z"),
    Holds.NUMBER: re.compile(r"-?\d{1,20}(?:\.\d{1,20})?\Z"),
    # Operations of torch and Python; those of the program have other names.
    Holds.OPERATION: re.compile(
        r"(?:(?:torch(?:\.nn\.functional|\.linalg)?|operator|Tensor)\.\w{1,40}|aten\.\w{1,80}(?:\.\w{1,40})?)\Z"
    ),
    Holds.BACKEND: re.compile(rf"(?:{'|'.join(map(re.escape, _OF_TORCH))})\Z"),
    # How torch begins to say why there is no CUDA graph; a stack of the program may follow.
    Holds.CUDAGRAPH: re.compile(
        r"skipping cudagraphs due to (?:mutated inputs|cpu device|multiple devices|graph with symbolic shapes inputs"
        r"|disabling cudagraphs due to incompatible op|deterministic index put|\w+ mode\b)?"
    ),
}
_EXCEPTION = re.compile(r"\w+(?:Error|Exception)(?=:)")
# How a note on a module begins; what follows a colon quotes an exception.
_OUR_NOTE = "Not all could be read "


Conclude = Callable[[Report], PolicyVerdict]
"""Gives the verdict of a policy on a cleaned report."""


def showable(
    report: Report, conclude: Conclude | None = None, /, *, no_source: bool, redact: bool, show_values: bool
) -> Report:
    """The report cleaned and judged, its facts in their order. Rules see only what may be shown, as they quote it.

    `conclude` gives the verdict of a policy on the findings; without it an earlier verdict stays.
    """
    report = cleaned(report, no_source=no_source, show_values=show_values)
    report.findings = judge(report)
    add_fingerprints(report)
    if conclude is not None:
        report.policy = conclude(report)
    return _redact(report) if redact else report


def cleaned(document: Document, *, no_source: bool, show_values: bool, redacted: bool = False) -> Document:
    """The document without secrets, and without values, source and names that are not to be shown."""
    masked = _masking(document)

    def clean(holds: Holds, text: str) -> str:
        text = masked(holds, text)
        return text if show_values else shortened(holds, text)

    document = changed(document, clean, line=masked_arguments)
    document = without_source(document) if no_source else document
    return redact(document) if redacted else document


def mask_secrets(document: Document) -> Document:
    return changed(document, _masking(document), line=masked_arguments)


def _masking(document: msgspec.Struct) -> Callable[[Holds, str], str]:
    """A function that masks secrets: known by shape, by the name they stand under, or by an option or variable."""
    found, lines = texts(document)
    own = {text for holds, text in found if holds is not Holds.WORD}
    known = secrets_of(lines) | secrets_around()
    known.update(*map(secrets_in, own))
    masking = Masking(own, known)

    def masked(holds: Holds, text: str) -> str:
        return text if holds is Holds.WORD else masking.masked(text, code=holds in (Holds.SOURCE, Holds.QUOTE))

    return masked


def shortened(holds: Holds, text: str) -> str:
    """The text with length and hash for each long string of the program's (prompts, tokens) that it quotes."""
    if holds not in _SHORTENED or not ("'" in text or '"' in text):
        return text
    if (tensor := _TENSOR.match(text)) is not None:
        return f"tensor '{shortened(holds, tensor['name'])}' {shortened(holds, text[tensor.end() :])}"
    return _STRING.sub(lambda found: _shortened(found[0]), text)


def without_source(document: Document, restated: Restate | None = None) -> Document:
    """The document without user code, also where torch's explanations, guards or exceptions quote it.

    Findings go too, since they quote the facts: judge the result. Clean a comparison after matching, so that hidden
    facts still count. `restated` describes what was removed from records of a feature.
    """
    return changed(document, _bare, {**_RESTATED, **(restated or {})})


def redact(document: Document) -> Document:
    """The document without home folder, user name and host name; words of known vocabularies stay."""
    clean = redaction()

    def named(holds: Holds, text: str) -> str | None:
        if holds is Holds.MACHINE:
            return None
        return text if holds is Holds.WORD or known_word(holds, text) == text else clean(text)

    return changed(document, named)


_redact = redact  # `showable` has a parameter of that name.


def known_word(holds: Holds, text: str) -> str:
    """The part of a text that is in its field's vocabulary; "" for none."""
    if holds is Holds.BREAK_TYPE:
        return text if text in _OUR_REASONS or registry().id_of(text) else ""
    found = _KNOWN[holds].match(text) if holds in _KNOWN else None
    return found[0] if found else ""


def before_quote(message: str) -> str:
    """The part of a message of ours before what it quotes."""
    return message.partition(" raised ")[0].partition(":")[0]


def _bare(holds: Holds, text: str) -> str | None:
    if holds in _GONE:
        return None
    if holds is Holds.MESSAGE:
        return before_quote(text)
    if holds in _KNOWN or holds is Holds.BREAK_TYPE:
        return known_word(holds, text) or None
    return text


# What replaces the removed texts of a record, which is changed in place.


def _break(before: GraphBreak, after: GraphBreak) -> None:
    """The words of PyTorch's registry."""
    entry = registry().entry(before.gb_id) if before.gb_id else None
    after.gb_type = after.gb_type or (entry.gb_type if entry else "Graph break")
    after.explanation, after.hints = (entry.explanation, list(entry.hints)) if entry else ("", [])


def _skipped(before: SkippedFrame, after: SkippedFrame) -> None:
    after.explanation = EXPLANATIONS[before.reason]


def _outcome(before: Outcome, after: Outcome) -> None:
    """The message of a run that did not fail quotes no code."""
    failed = before.status == "failed"
    after.message = f"The program failed; its message is left out {LEFT_OUT}." if failed else before.message


def _graph(before: Graph, after: Graph) -> None:
    for number, each in enumerate(after.inputs, 1):
        each.name = f"input {number}"
    if before.cudagraph_skip and not after.cudagraph_skip:
        after.cudagraph_skip = f"the reason is left out {LEFT_OUT}"


def _accuracy(before: Accuracy, after: Accuracy) -> None:
    for number, tensor in enumerate(after.tensors, 1):
        tensor.name = f"{tensor.kind} {number}"


def _measurement(before: Measurement, after: Measurement) -> None:
    """The program's own arguments of torch.compile may hold anything."""
    if before.configuration == "as written":
        known = {name: value for name, value in before.options.items() if name in _OF_COMPILE}
        after.options = {name: value for name, value in known.items() if type(value) is bool or value in _OF_TORCH}


def _module(before: ModuleFacts, after: ModuleFacts) -> None:
    after.notes = [note for note in after.notes if note.startswith(_OUR_NOTE)]


def _adapters(before: Adapters, after: Adapters) -> None:
    numbers = {name: f"adapter {number}" for number, name in enumerate(before.names, 1)}
    after.names = list(numbers.values())
    after.active = [numbers.get(name, "adapter") for name in before.active]
    after.ranks = {numbers.get(name, "adapter"): rank for name, rank in before.ranks.items()}


def _verdict(before: PolicyVerdict, after: PolicyVerdict) -> None:
    failed = [check.found for check in after.checks if check.status == "failed"]
    outcome = "PASS" if before.passed else "FAIL"
    after.summary = f"{outcome}: {'; '.join(failed)}" if failed else outcome


def _warmup(before: Warmup, after: Warmup) -> None:
    """Our advice, which has a colon of its own, quotes an exception only where its trial failed."""
    if before.dynamic_trial is None or not before.dynamic_trial.error:
        after.dynamic_advice = before.dynamic_advice


def _cell(before: AttentionCell, after: AttentionCell) -> None:
    if before.status == "breaks":
        after.reason = known_word(Holds.BREAK_TYPE, before.reason)
    elif before.facts.get("raised"):
        raised = _EXCEPTION.match(before.reason)
        after.reason = raised[0] if raised else ""
    elif before.status in ("not_here", "crash", "timeout"):
        after.reason = before_quote(before.reason)


_RESTATED: Restate = {
    GraphBreak: _break, SkippedFrame: _skipped, Outcome: _outcome, Graph: _graph, Accuracy: _accuracy,
    Measurement: _measurement, ModuleFacts: _module, Adapters: _adapters, PolicyVerdict: _verdict, Warmup: _warmup,
    AttentionCell: _cell,
}  # fmt: skip


# A path is no value of the program's: where it has to be hidden, `--redact` does.
_FILE = re.compile(r"(?:/|[A-Za-z]:[\\/])[^\s'\"]*[\\/][^\s'\"\\/]+\.(?:pyi?|so|pyd|ipynb)")


def _shortened(literal: str) -> str:
    inner = literal.lstrip("bBrRuUfF")[1:]
    inner = inner[:-1] if inner.endswith(("'", '"')) else inner
    if len(inner) <= _LONGEST_VALUE or _FILE.fullmatch(inner):
        return literal
    return f"<str of {len(inner)} characters, sha256 {hashlib.sha256(inner.encode(errors='replace')).hexdigest()[:12]}>"
