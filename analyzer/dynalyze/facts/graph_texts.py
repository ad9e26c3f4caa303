"""The texts of each compile, from the Dynamo graph down to Inductor's output code, under the names of their files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dynalyze.events.log import RunLog
from dynalyze.events.types import GraphSeen
from dynalyze.facts.graph_text import parse
from dynalyze.facts.kernels import aot_id, direction_of
from dynalyze.report import Direction

Key = tuple[int, int, str]

_FILES = {
    "dynamo": "computation_graph",
    "transformed": "transformed_code",
    "post_grad": "post_grad",
    "output_code": "output_code",
    "runnable": "fx_graph_runnable",
}
KERNEL_NOTES = ("kernel_nodes", "kernel_stacks")
"""Stages that are no code: where the kernels of an output code came from, where Inductor tracked it."""
_AOT: dict[str, Direction] = {"joint": "", "forward": "forward", "backward": "backward", "inference": "inference"}
# Stages of one lowering; Inductor writes the output code last, and that alone names the graph it is of.
_LOWERED = ("post_grad", "runnable")


@dataclass(frozen=True)
class Text:
    """One text. `part` is AOTAutograd's id of the graph: a backend may cut one Dynamo graph into several."""

    stage: str
    reference: str
    direction: Direction = ""
    part: str = ""

    @property
    def is_aten(self) -> bool:
        return self.stage in ("forward", "backward", "inference")


@dataclass
class CompileTexts:
    """The texts of one compile id, in the order in which they came."""

    process: int
    epoch: int
    compile_id: str
    attempt: int = 0
    texts: list[Text] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.process, self.epoch, self.compile_id

    def named(self) -> Iterator[tuple[str, Text]]:
        """Each text with the name of its file, as users of vLLM's debug folders know them."""
        taken: dict[str, int] = {}
        for text in self.texts:
            stem = f"aot_{text.stage}" if text.stage in _AOT else _FILES.get(text.stage, text.stage)
            if text.stage not in _AOT and text.direction == "backward":
                stem += "_backward"
            taken[stem] = taken.get(stem, 0) + 1
            suffix = ".json" if text.stage in KERNEL_NOTES else ".py"
            yield (f"{stem}{suffix}" if taken[stem] == 1 else f"{stem}_{taken[stem]}{suffix}"), text


def texts_of(run: RunLog) -> list[CompileTexts]:
    """Every compile that gave a graph to a backend. One that restarted holds its last attempt."""
    found: dict[Key, CompileTexts] = {}
    for process, event in run.all():
        if isinstance(event, GraphSeen):
            _take(found, process, event, run)
    return list(found.values())


def _take(found: dict[Key, CompileTexts], process: int, event: GraphSeen, run: RunLog) -> None:
    compile_ = found.get((process, event.epoch, event.id))
    if compile_ is None:
        if event.stage != "dynamo":
            return
        compile_ = CompileTexts(process, event.epoch, event.id, event.attempt)
        found[compile_.key] = compile_
    elif event.stage == "dynamo":
        compile_.attempt = event.attempt
        compile_.texts.clear()
    _add(compile_.texts, event, run)


def _add(texts: list[Text], event: GraphSeen, run: RunLog) -> None:
    if event.stage in _AOT:
        texts.append(Text(event.stage, event.text, _AOT[event.stage]))
    elif event.stage in _LOWERED:
        _put(texts, Text(event.stage, event.text, _by_inputs(run.read_text(event.text))))
    elif event.stage == "output_code":
        _add_code(texts, event.text, run.read_text(event.text))
    elif event.stage in KERNEL_NOTES:
        _add_note(texts, event)
    else:
        _put(texts, Text(event.stage, event.text))


def _add_code(texts: list[Text], reference: str, code: str) -> None:
    """Add output code, and give its part's id to the texts that led to it."""
    part, direction = aot_id(code), direction_of(code)
    new = Text("output_code", reference, direction, part)
    if not part:
        texts.append(new)
        return
    pending = [text for text in texts if text.stage in _LOWERED and not text.part]
    texts[:] = [text for text in texts if text not in pending]
    for text in pending:
        _put(texts, replace(text, part=part, direction=direction))
    _put(texts, new)


def _add_note(texts: list[Text], event: GraphSeen) -> None:
    """Add what was tracked of the last output code; it names neither that code nor its direction."""
    code = next((text for text in reversed(texts) if text.stage == "output_code"), None)
    if code is not None and code.part:
        _put(texts, Text(event.stage, event.text, code.direction, code.part))


def _put(texts: list[Text], new: Text) -> None:
    """Add a text; what is written again of the same part (Inductor may compile it twice) counts once."""
    for at, text in enumerate(texts):
        if (text.stage, text.part) == (new.stage, new.part):
            texts[at] = new
            return
    texts.append(new)


def _by_inputs(text: str) -> Direction:
    """AOTAutograd calls what comes into a backward graph tangents."""
    return "backward" if any(name.startswith("tangents_") for name, _ in parse(text).inputs) else ""
