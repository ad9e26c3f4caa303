"""Which submodules can be compiled in place of a model that breaks: the largest ones without a graph break.

Names and sources do not count. Each module is compiled by itself, as one graph or not at all, in the calls that the
model makes of it, from the outside in: a module that Dynamo refuses runs in eager, and the modules that it calls are
tried.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from dynalyze.capture.bench.configure import CallableGroup
from dynalyze.capture.regions import RegionalCompile, Regions, parts_of
from dynalyze.capture.torch_private import dynamo, numerics

_FEWEST_OPERATORS = 4
"""That a call of a region runs: a compiler gains nothing from a layer alone."""
_LEAST_SHARE = 0.01
"""Of the operators of all calls, for regions of one kind: those of the blocks of a list count together."""
_MOST_PASSES = 8
_TIMED_PASSES = 3
_ITEMS = ("block", "part", "piece")
"""What the variable of a loop is called, and that of one inside of it."""

Make = Callable[[Callable[..., Any]], object]
"""Makes the calls of what it is given instead of the model."""


def members_of(model: Any) -> Iterator[torch.nn.Module]:
    """The modules that a program compiles: the model, or several."""
    each = model.callables if isinstance(model, CallableGroup) else [model]
    return (member for member in each if isinstance(member, torch.nn.Module))


def find(model: Any, call: Callable[..., Any], compiled: Make, eager: Make) -> RegionalCompile:
    """The regions of a model that `call` calls. `compiled` runs the calls with compiling allowed, `eager` without."""
    members = list(members_of(model))
    regions, wholes = _without_breaks(members, lambda: compiled(call))
    work = _Work(call, [*wholes, *_parts(members, regions)], eager)
    regions = {name: _worth_it(name, paths, members, work) for name, paths in regions.items()}
    regions = {name: paths for name, paths in regions.items() if paths}
    parts = [*(each for each in wholes if type(each).__qualname__ not in regions), *_parts(members, regions)]
    return RegionalCompile(regions, "\n".join(lines_of(members, regions)), work.share(parts), work.share_of_time(parts))


def _without_breaks(
    members: Sequence[torch.nn.Module], make_pass: Callable[[], object]
) -> tuple[dict[str, list[str]], list[torch.nn.Module]]:
    """For each class of members that break, the paths of the outermost submodules that compile to one graph in every
    call; and the members that do so themselves.
    """
    trials = _Trials()
    candidates = [part for member in members for part in member.modules() if _can_be_region(part)]
    with _called_through(candidates, trials.compiled_alone):
        for _ in range(_MOST_PASSES):
            refused = len(trials.refused)
            trials.met.clear()
            make_pass()
            if len(trials.refused) == refused:
                break
    kept = trials.met - trials.refused
    found: dict[str, list[str]] = {}
    for member in members:
        if id(member) not in kept:
            name = type(member).__qualname__
            paths = [path for path, part in member.named_modules() if id(part) in kept]
            found[name] = [path for path in found.get(name, paths) if path in paths]  # What holds for all of a class.
    return found, [member for member in members if id(member) in kept]


def _parts(members: Sequence[torch.nn.Module], regions: Regions) -> list[torch.nn.Module]:
    return list({id(part): part for member in members for part in parts_of(member, regions)}.values())


def _can_be_region(module: torch.nn.Module) -> bool:
    """Whether it has parameters, and a forward that is not torch's own: `compile()` of nn.Sequential compiles its
    children one by one.
    """
    of_torch = str(getattr(type(module).forward, "__module__", "")).partition(".")[0] == "torch"
    scripted = isinstance(module, torch.jit.ScriptModule)
    return not (of_torch or scripted) and next(module.parameters(), None) is not None


@contextlib.contextmanager
def _called_through(
    modules: Sequence[torch.nn.Module], instead: Callable[[torch.nn.Module], Callable[..., Any]]
) -> Iterator[None]:
    """Route the calls of these modules through what `instead` makes of each."""
    for each in modules:
        each._compiled_call_impl = instead(each)
    try:
        yield
    finally:
        for each in modules:
            each._compiled_call_impl = None


class _Trials:
    """`met` are the modules called outside any graph, `refused` those that Dynamo refused once; by id."""

    def __init__(self) -> None:
        self.met: set[int] = set()
        self.refused: set[int] = set()

    def compiled_alone(self, module: torch.nn.Module) -> Callable[..., Any]:
        compiled = torch.compile(module._call_impl, backend="eager")

        def call(*args: Any, **kwargs: Any) -> Any:
            self.met.add(id(module))
            if id(module) not in self.refused:
                try:
                    with dynamo.refusing_breaks():
                        return compiled(*args, **kwargs)
                except Exception:  # If it is the program's own, the call below raises it too.
                    self.refused.add(id(module))
            return module._call_impl(*args, **kwargs)

        return call


class _Work:
    """How many operators and seconds calls of modules take in eager runs."""

    def __init__(self, model: Callable[..., Any], modules: Sequence[torch.nn.Module], make_pass: Make) -> None:
        self._model = model
        self._clock: Callable[[], float] = time.perf_counter
        self._of: dict[int, float] = defaultdict(float)
        self._calls: Counter[int] = Counter()
        self._whole = 0.0
        self._inside = False
        with _called_through(modules, self._measured):
            for _ in range(_TIMED_PASSES):
                make_pass(self._timed)
            self._seconds, self._whole_seconds = self._of, self._whole
            self._of, self._calls, self._whole, self._ran = defaultdict(float), Counter(), 0.0, 0
            self._clock = lambda: float(self._ran)
            make_pass(self._counted)

    def per_call(self, module: torch.nn.Module) -> float:
        return self._of[id(module)] / max(1, self._calls[id(module)])

    def share(self, modules: Sequence[torch.nn.Module]) -> float:
        """Their share of all operators."""
        return sum(self._of[id(each)] for each in modules) / max(1.0, self._whole)

    def share_of_time(self, modules: Sequence[torch.nn.Module]) -> float:
        return sum(self._seconds[id(each)] for each in modules) / (self._whole_seconds or 1.0)

    def _measured(self, module: torch.nn.Module) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:  # A module that two others share: the outer one counts.
                return module._call_impl(*args, **kwargs)
            self._calls[id(module)] += 1
            began, self._inside = self._clock(), True
            try:
                return module._call_impl(*args, **kwargs)
            finally:
                self._of[id(module)] += self._clock() - began
                self._inside = False

        return call

    def _timed(self, *args: Any, **kwargs: Any) -> Any:
        began = self._clock()
        try:
            return self._model(*args, **kwargs)
        finally:
            self._whole += self._clock() - began

    def _counted(self, *args: Any, **kwargs: Any) -> Any:
        def count(operation: Any, args: Any, kwargs: Any) -> Any:
            self._ran += not numerics.is_view(operation)
            return operation(*args, **kwargs)

        with numerics.watched_operations(count):
            return self._timed(*args, **kwargs)


def _worth_it(name: str, paths: Sequence[str], members: Sequence[torch.nn.Module], work: _Work) -> list[str]:
    """The paths whose modules do a notable part of the work; blocks of a list count together."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if any(work.per_call(part) >= _FEWEST_OPERATORS for part in _parts(members, {name: [path]})):
            kinds[re.sub(r"\b\d+\b", "*", path)].append(path)
    return [
        path for kind in kinds.values() if work.share(_parts(members, {name: kind})) >= _LEAST_SHARE for path in kind
    ]


def lines_of(members: Sequence[torch.nn.Module], regions: Regions) -> list[str]:
    """The lines that compile them, to be pasted; a single model is called `model`, others by their classes."""
    split = {type(each).__qualname__: each for each in members if type(each).__qualname__ in regions}
    lines: list[str] = []
    for name, member in split.items():
        called = "model" if len(split) == 1 else type(member).__name__.lower()
        lines += _lines_below(member, called, regions[name])
    return lines


def _lines_below(module: torch.nn.Module, called: str, paths: Sequence[str]) -> list[str]:
    """The lines for paths below a module; equal blocks of a list become a loop."""
    below: dict[str, list[str]] = {}
    for path in paths:
        child, _, rest = path.partition(".")
        below.setdefault(child, []).append(rest)
    if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
        return _loops(module, called, below)
    lines: list[str] = []
    for name, rests in below.items():
        inner = f"{called}[{name!r}]" if isinstance(module, torch.nn.ModuleDict) else f"{called}.{name}"
        lines += [f"{inner}.compile()"] if rests == [""] else _lines_below(module.get_submodule(name), inner, rests)
    return lines


def _loops(module: torch.nn.Module, called: str, below: dict[str, list[str]]) -> list[str]:
    """The lines for children of a list, in a loop for those with the same regions."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, rests in below.items():
        alike.setdefault(tuple(rests), []).append(name)
    outer = re.split(r"\W", called, maxsplit=1)[0]
    item = _ITEMS[(_ITEMS.index(outer) + 1) % len(_ITEMS)] if outer in _ITEMS else _ITEMS[0]
    lines: list[str] = []
    for together, names in alike.items():
        each = [f"{called}[{name}]" for name in names]
        one = each[0] if len(names) == 1 else item
        inner = [f"{one}.compile()"]
        if together != ("",):
            inner = _lines_below(module.get_submodule(names[0]), one, together)
        if len(names) == 1:
            lines += inner
            continue
        over = called if len(names) == len(module._modules) else f"({', '.join(each)})"
        lines += [f"for {item} in {over}:", *(f"    {line}" for line in inner)]
    return lines
