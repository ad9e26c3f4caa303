"""Reads the text of torch's graph breaks: type, explanation, hints, context, and what followed from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CHAIN = re.compile(r"\*\*\* While handling this graph break, another graph break occurred: \*\*\*")
_CONTEXT = re.compile(r"^[ \t]*Developer debug context:[ \t]*", re.MULTILINE)
_EXPLANATION = re.compile(r"^[ \t]*Explanation:[ \t]*", re.MULTILINE)
_HINT = re.compile(r"^[ \t]*Hint:[ \t]*", re.MULTILINE)
_LINK_LINE = re.compile(r"^[ \t]*For more details about this graph break, please visit: (?P<url>\S+)\s*", re.MULTILINE)
_USER_CODE = re.compile(r"\n(?:from user code:|User code traceback:|Stack variable source attribution:)")
_TRACE_LINE = re.compile(r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$', re.MULTILINE)
_HEADER = re.compile(r"^Graph break in user code at (?P<file>.+):(?P<line>\d+)[ \t]*$", re.MULTILINE)
# What torch says before the message itself: what it did about the break.
_PREFACE = re.compile(r"^(?:Encountered graph break|Failed to handle graph break gracefully)[^\n]*\n\n")
# What torch says before the cause of a break inside torch.cond and its like, which have to be captured whole.
_CAPTURED_WHOLE = re.compile(r"^[^\n]*captured completely with torch\.compile\. Got (?:graph break/error:)?\s*")
# The exception at the end of a traceback.
_RAISED = re.compile(
    r"^(?:torch\._dynamo\.)?exc\.(?:Unsupported|UserError|UncapturedHigherOrderOpError): ", re.MULTILINE
)
_REASON = "Graph Break Reason: "


@dataclass(frozen=True)
class Message:
    """One graph break as torch words it. `consequence` is the gb_type of the outermost break it led to."""

    gb_type: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    url: str = ""
    consequence: str = ""


def parse(message: str) -> Message:
    """Parse the message of an Unsupported; the root cause comes first, breaks that followed from it after."""
    links = _CHAIN.split(_CAPTURED_WHOLE.sub("", message.strip()))
    root = _parse_one(links[0])
    last = _parse_one(links[-1]).gb_type if len(links) > 1 else ""
    return Message(root.gb_type, root.explanation, root.hints, root.context, root.url, last)


def message_in(payload: str) -> str:
    """The message inside the payload of a break event, for where the live exception was out of reach."""
    _, found, reason = payload.partition(_REASON)
    if not found:
        raised = _RAISED.search(payload)
        reason = payload[raised.end() :] if raised else payload
    body = _USER_CODE.split(reason)[0]
    lead = _PREFACE.match(body)
    return body[lead.end() :] if lead else body


def frames_in(payload: str) -> list[tuple[str, int, str]]:
    """File, line and function of each frame of the user-code traceback in a payload, outermost first."""
    body = _USER_CODE.split(payload)
    text = body[-1] if len(body) > 1 else payload
    frames = [(m["file"], int(m["line"]), m["name"].strip()) for m in _TRACE_LINE.finditer(text)]
    if frames:
        return frames
    header = _HEADER.search(payload)
    return [(header["file"], int(header["line"]), "")] if header else []


def effect_in(payload: str) -> str | None:
    """What torch says it did about a break; None where this version of torch does not say."""
    if "Failed to handle graph break gracefully" in payload or "cannot properly resume" in payload:
        return "eager"
    if payload.startswith("Graph break: skip"):
        return "eager"
    if "that we cannot resume from" in payload or "skipping the rest of the function" in payload:
        return "partly_eager"
    if "when attempting to trace" in payload or "Data-dependent branching" in payload:
        return "split"
    return None


def _parse_one(text: str) -> Message:
    text = _USER_CODE.split(text)[0]
    link = _LINK_LINE.search(text)
    url = link["url"] if link else ""
    text = _LINK_LINE.sub("", text)
    head, _, context = _split(text, _CONTEXT)
    head, *hints = _HINT.split(head)
    gb_type, _, explanation = _split(head, _EXPLANATION)
    first = next(iter(gb_type.strip().splitlines()), "")
    return Message(first, _flat(explanation), tuple(_flat(hint) for hint in hints), context.strip(), url)


def _split(text: str, at: re.Pattern[str]) -> tuple[str, str, str]:
    found = at.search(text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def _flat(text: str) -> str:
    """Without the indentation of torch's message; its line breaks stay."""
    return "\n".join(line.strip() for line in text.strip().splitlines())
