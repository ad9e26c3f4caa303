"""What a report may show: secrets masked always; source, paths and long values as the user chose.

What a text is, is marked in the record that has it (sensitivity.py), and decides alone what becomes of it:

| what it holds      | secrets | long strings of the program | --no-source             | --redact |
|--------------------|---------|-----------------------------|-------------------------|----------|
| a word of ours     | as is   | as is                       | stays                   | as is    |
| name, path, ...    | masked  | as is                       | stays                   | redacted |
| an error's text    | masked  | as is                       | goes                    | redacted |
| a message of ours  | masked  | shortened                   | up to what it quotes    | redacted |
| a quote, a guard   | masked  | shortened                   | goes                    | redacted |
| source             | masked  | as is                       | goes                    | redacted |
| dtype, backend ... | masked  | as is                       | stays if it is a known one | redacted if it is none |

A few records then say in our own or PyTorch's words what went: they add, they never let anything through.
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
# The words that stay although the field may hold anything: the part of a text that is one.
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
"""What gives the verdict of a policy on a report that is cleaned."""


def showable(
    report: Report, conclude: Conclude | None = None, /, *, no_source: bool, redact: bool, show_values: bool
) -> Report:
    """A report cleaned and judged, its facts in their order. Rules see only what may be shown: they quote it.

    `conclude` gives the verdict of a policy on what the rules found; without it the one that is there stays.
    """
    report = cleaned(report, no_source=no_source, show_values=show_values)
    report.findings = judge(report)
    add_fingerprints(report)
    if conclude is not None:
        report.policy = conclude(report)
    return _redact(report) if redact else report


def cleaned(document: Document, *, no_source: bool, show_values: bool, redacted: bool = False) -> Document:
    """A document without secrets, and without what is not to be shown of values, source and the machine."""
    masked = _masking(document)

    def clean(holds: Holds, text: str) -> str:
        text = masked(holds, text)
        return text if show_values else shortened(holds, text)

    document = changed(document, clean, line=masked_arguments)
    document = without_source(document) if no_source else document
    return redact(document) if redacted else document


def mask_secrets(document: Document) -> Document:
    """No secret in any text."""
    return changed(document, _masking(document), line=masked_arguments)


def _masking(document: msgspec.Struct) -> Callable[[Holds, str], str]:
    """What takes secrets out of a text: known by its shape, by the name that it stands under, or by an option or a
    variable.
    """
    found, lines = texts(document)
    own = {text for holds, text in found if holds is not Holds.WORD}
    known = secrets_of(lines) | secrets_around()
    known.update(*map(secrets_in, own))
    masking = Masking(own, known)

    def masked(holds: Holds, text: str) -> str:
        return text if holds is Holds.WORD else masking.masked(text, code=holds in (Holds.SOURCE, Holds.QUOTE))

    return masked


def shortened(holds: Holds, text: str) -> str:
    """A text without long strings of the program's own (prompts, tokens), as guards and messages quote them: each is a
    length and a hash.
    """
    if holds not in _SHORTENED or not ("'" in text or '"' in text):
        return text
    return _STRING.sub(lambda found: _shortened(found[0]), text)


def without_source(document: Document, restated: Restate | None = None) -> Document:
    """No line of user code anywhere: also none quoted by torch's explanations, guards or exceptions.

    Findings go too, since they quote the facts: judge what this returns. A comparison is cleaned after the matching,
    so that what is hidden still counts in it. `restated` says what records of a feature hold then.
    """
    return changed(document, _bare, {**_RESTATED, **(restated or {})})


def redact(document: Document) -> Document:
    """No home folder, user name or host name in any text of a document; what is surely no name of anybody stays."""
    clean = redaction()

    def named(holds: Holds, text: str) -> str | None:
        if holds is Holds.MACHINE:
            return None
        return text if holds is Holds.WORD or known_word(holds, text) == text else clean(text)

    return changed(document, named)


_redact = redact  # `showable` has a parameter of that name.


def known_word(holds: Holds, text: str) -> str:
    """The part of a text that its vocabulary knows; "" where it has none, or none is there."""
    if holds is Holds.BREAK_TYPE:
        return text if text in _OUR_REASONS or registry().id_of(text) else ""
    found = _KNOWN[holds].match(text) if holds in _KNOWN else None
    return found[0] if found else ""


def before_quote(message: str) -> str:
    """A message of ours up to what it quotes."""
    return message.partition(" raised ")[0].partition(":")[0]


def _bare(holds: Holds, text: str) -> str | None:
    if holds in _GONE:
        return None
    if holds is Holds.MESSAGE:
        return before_quote(text)
    if holds in _KNOWN or holds is Holds.BREAK_TYPE:
        return known_word(holds, text) or None
    return text


# What can be said in the place of what went, by the record that it stood in; all change it in place.


def _break(before: GraphBreak, after: GraphBreak) -> None:
    """As PyTorch's registry describes it."""
    entry = registry().entry(before.gb_id) if before.gb_id else None
    after.gb_type = after.gb_type or (entry.gb_type if entry else "Graph break")
    after.explanation, after.hints = (entry.explanation, list(entry.hints)) if entry else ("", [])


def _skipped(before: SkippedFrame, after: SkippedFrame) -> None:
    after.explanation = EXPLANATIONS[before.reason]


def _outcome(before: Outcome, after: Outcome) -> None:
    """What torch and we say of a run that did not fail quotes no code."""
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
    """What the program wrote into its own torch.compile may be anything."""
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
    """Our advice has a colon of its own; it quotes an exception where its trial failed."""
    if before.dynamic_trial is None or not before.dynamic_trial.error:
        after.dynamic_advice = before.dynamic_advice


def _cell(before: AttentionCell, after: AttentionCell) -> None:
    """A type of PyTorch's registry, the class of an exception, and our own words stay."""
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
