"""Whether what is timed is what was asked for: what was compiled, what compiled again, and what runs in eager."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any

from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
from dynalyze.capture.bench.workload import Step
from dynalyze.capture.environment import nothing_compiled
from dynalyze.capture.events import Frame
from dynalyze.capture.hooks import after_import
from dynalyze.capture.torch_private import dynamo, runtime


@dataclass
class Compiles:
    """Everything that compiles in this process, counted from the moment when Dynamo is imported.

    Code is known by its identity: a constant of code that Dynamo made may be a dict, and such code has no hash.
    """

    made: Counter[int] = field(default_factory=Counter)
    with_graph: dict[int, tuple[CodeType, CodeType]] = field(default_factory=dict)
    """The code of each version with a graph, after that of its function, by the id of the version's."""
    started: int = 0
    _originals: dict[int, CodeType] = field(default_factory=dict)
    _at_mark: tuple[int, ...] = ()

    def listen(self) -> None:
        def made(original: CodeType, code: CodeType) -> None:
            self._originals[id(original)] = original
            self.made[id(original)] += 1
            if runtime.calls_a_graph(code):
                self.with_graph[id(code)] = original, code

        def start() -> None:
            self.started += 1

        def attach(_: ModuleType) -> None:
            dynamo.watch_bytecode(made)
            runtime.watch_compiles(start)

        after_import("torch._dynamo.convert_frame", attach)

    def runs_a_graph(self, code: CodeType) -> bool:
        return id(code) in self.with_graph

    def versions_run(self, action: Callable[[], Any]) -> tuple[list[tuple[int, Frame]], list[Frame]]:
        """The versions that run in `action`, by their numbers from 1 on, each with its function; and the functions that
        run without any of theirs.
        """
        numbers = {made: number for number, made in enumerate(self.with_graph, 1)}
        originals = {id(original) for original, _ in self.with_graph.values()}
        seen = codes_run(action, lambda code: id(code) in numbers or id(code) in originals)
        compiled = [(numbers[key], dynamo.definition_of(self.with_graph[key][0])) for key in seen if key in numbers]
        return compiled, [dynamo.definition_of(code) for key, code in seen.items() if key not in numbers]

    @property
    def activity(self) -> tuple[int, ...]:
        """Numbers of which one grows with whatever compiles, tries to, or records a CUDA graph."""
        return self.started, sum(self.made.values()), runtime.counters("frames").get("total", 0)

    def mark(self) -> None:
        """Timing begins here."""
        self._at_mark = self.activity

    def since_mark(self) -> int:
        """Compiles, and attempts to compile, since `mark`."""
        before = self._at_mark or (0, 0, 0)
        return max(now - then for now, then in zip(self.activity, before, strict=True))

    def counts(self) -> dict[str, Any]:
        """The fields of `measurements.Counts` that are known without running anything."""
        frames = runtime.counters("frames")
        return {
            "compiled_frames": len(self.with_graph),
            "eager_frames": max(0, frames.get("total", 0) - frames.get("ok", 0)),
            "graph_breaks": sum(runtime.counters("graph_break").values()),
            "graphs": runtime.counters("stats").get("unique_graphs", 0),
            "recompiles": sum(times - 1 for times in self.made.values()),
            "cudagraph_skips": runtime.counters("inductor").get("cudagraph_skips", 0),
        }


@dataclass
class PassCounts:
    """One untimed pass: steps without a compiled graph, replays of CUDA graphs, code that called graphs."""

    steps: int
    steps_in_eager: int
    replays: int
    codes: int = 0


def look(steps: Sequence[Step], runs_a_graph: Callable[[CodeType], bool]) -> PassCounts:
    """Run one pass and watch what runs in it."""
    in_eager, codes = 0, set[int]()
    with runtime.counted_replays() as replays:
        for step in steps:
            step.prepare()
            seen = codes_run(step.run, runs_a_graph)
            in_eager += not seen
            codes |= seen.keys()
    return PassCounts(len(steps), in_eager, replays[0], len(codes))


def reason_against(configuration: Configuration, counts: dict[str, Any], evidence: PassCounts, device: str) -> str:
    """Why what was timed is not what was asked for, in one line; "" where it is."""
    if not configuration.compile:
        return "something was compiled in the eager arm" if counts["compiled_frames"] else ""
    limited = runtime.recompile_limit_hit()
    if not counts["compiled_frames"] and not limited:
        nothing, switches = "nothing was compiled: every call ran in eager", nothing_compiled()
        if switches.variable:
            return f"{nothing}, because {switches.variable} is set"
        turned_off = switches.stance == "force_eager" or switches.disabled
        return f"{nothing}, because the program turned compiling off" if turned_off else nothing
    again = counts["recompiles_while_timing"]
    if again:
        return f"it compiled again while it was timed ({again} {'time' if again == 1 else 'times'})"
    of_program = configuration.name == AS_WRITTEN or evidence.steps_in_eager < evidence.steps
    if evidence.steps_in_eager and not (limited and of_program):  # Past the limit the program runs so; that is told.
        why = ": the recompile limit was reached" if limited else ""
        return f"{evidence.steps_in_eager} of {evidence.steps} calls ran no compiled code{why}"
    wanted = device == "cuda" and configuration.backend == "inductor"
    if wanted and runtime.cudagraphs_wanted(configuration.mode) and not evidence.replays:
        return "CUDA graphs were asked for, and none was replayed"
    return ""


def codes_run(action: Callable[[], Any], wanted: Callable[[CodeType], bool]) -> dict[int, CodeType]:
    """Which `wanted` code runs in `action`, in this thread or one that it starts: by its id, in order of calls."""
    seen: dict[int, CodeType] = {}

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and wanted(frame.f_code):
            seen.setdefault(id(frame.f_code), frame.f_code)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen
