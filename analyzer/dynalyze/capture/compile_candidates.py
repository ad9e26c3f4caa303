"""What a program called that could have been compiled (modules, methods in place of forward, functions), and what it
calls them.
"""

from __future__ import annotations

import re
import sys
import types
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any

import torch

from dynalyze.capture.events import CandidateEntry
from dynalyze.capture.held import hold
from dynalyze.capture.torch_private.dynamo import calling_frames
from dynalyze.capture.wire import CandidateKind, CandidateReason

MOST_MODULES = 64
_MOST_CALLERS = 50
_CALLED_AS_FORWARD = frozenset({"forward", "__call__", "_call_impl", "_wrapped_call_impl"})
_INDEX = re.compile(r"\.(\d+)(?=\.|$)")
_MOST_FRAMES = 50


class CompileCandidate:
    """A module, or a function that the user chose: how often it was called from outside of every other, and what
    became of these calls.
    """

    def __init__(self, target: Any, name: str) -> None:
        self.held = hold(target)
        self.name = name
        is_module = isinstance(target, torch.nn.Module)
        owner = target if is_module else getattr(target, "__self__", None)
        self.kind: CandidateKind = "module" if is_module else "function" if owner is None else "method"
        self.class_name = "" if owner is None else type(owner).__qualname__
        self.parameters = parameters_of(owner) if isinstance(owner, torch.nn.Module) else 0
        self.calls = 0
        self.seconds = 0.0
        self.taken = False
        """Whether its calls are compiled, or recorded alone in a run that compiles nothing."""
        self.was_compiled = False
        self.error = ""
        self.transforms = False
        """Whether it is a function that calls a model through torch.func."""
        self.left: Counter[CandidateReason] = Counter()
        """Why calls were not compiled, how often."""
        self._code = getattr(getattr(type(target), "forward", None) if is_module else target, "__code__", None)

    def called(self, seconds: float, left_alone: CandidateReason) -> None:
        """Count a call; `left_alone` says why it was not compiled, "" where it was."""
        self.calls += 1
        self.seconds += seconds
        if left_alone:
            self.left[left_alone] += 1

    def entry(self) -> CandidateEntry:
        """The facts. `reason` is the commonest one for which calls were not compiled."""
        code = self._code
        file, line, name = (code.co_filename, code.co_firstlineno, code.co_name) if code is not None else ("", 0, "")
        return CandidateEntry(
            self.kind, self.name, self.class_name, file, line, name,
            calls=self.calls, parameters=self.parameters, seconds=self.seconds,
            compiled=self.was_compiled and not self.error,
            reason="raised" if self.error else next((reason for reason, _ in self.left.most_common(1)), ""),
            error=self.error,
        )  # fmt: skip


class CompileCandidates:
    """All of them, in the order of their first calls; after the first 64 one stands for the rest."""

    def __init__(self) -> None:
        self._rest: CompileCandidate | None = None
        self._targets: dict[int, CompileCandidate] = {}
        self._all: list[CompileCandidate] = []
        self._callers: dict[tuple[str, int], CandidateEntry] = {}
        self._transformed = 0
        self._constructed: dict[type[torch.nn.Module], CandidateEntry] = {}
        # Both hold for the compiled modules of these ids.
        self._compiled_parts: tuple[list[int], set[int]] = ([], set())
        self._owned: tuple[list[int], dict[int, bool]] = ([], {})

    @property
    def ids(self) -> set[int]:
        return {token for token, seen in self._targets.items() if seen.held.target is not None}

    def find(self, target: Any) -> CompileCandidate | None:
        seen = self._targets.get(id(target))
        if seen is None:
            return self._rest
        if not seen.held.is_for(target):
            # The program let it go, and its id is another one's now.
            del self._targets[id(target)]
            self._compiled_parts, self._owned = ([], set()), ([], {})
            return None
        seen.held.keep(target)
        return seen

    def add(self, target: Any, name: str = "") -> CompileCandidate:
        """Take in what is called for the first time, with the name that the program has for it."""
        frames = list(frames_of_program())
        seen = CompileCandidate(target, name or expression_of(target, frames))
        if len(self._all) >= MOST_MODULES:
            self._rest = seen
        else:
            self._all.append(seen)
            self._targets[id(target)] = seen
        caller = _caller(target, frames)
        if caller is not None and len(self._callers) < _MOST_CALLERS:
            self._callers.setdefault((caller.file, caller.line), caller)
        return seen

    def in_constructor(self) -> bool:
        """Whether a module is being constructed around the call of ours: `model = torch.compile(model)` comes after
        that, and what is called until then, to learn a size or a stride, is a part of it.
        """
        for frame in frames_of_program():
            code = frame.f_code
            if code.co_name != "__init__" or not code.co_varnames:
                continue
            owner = frame.f_locals.get(code.co_varnames[0])
            if issubclass(type(owner), torch.nn.Module):
                place = code.co_filename, code.co_firstlineno, code.co_name
                entry = CandidateEntry("module", "", type(owner).__qualname__, *place, reason="constructor")
                self._constructed.setdefault(type(owner), entry)
                return True
        return False

    def add_transforming(self, module: Any) -> None:
        """Note the function that a model was called from in a transform of torch.func, by the first few calls."""
        if self._transformed < _MOST_CALLERS:
            self._transformed += 1
            frames = [frame for frame in frames_of_program() if frame.f_code.co_name != "<lambda>"]
            if (caller := _caller(module, frames)) is not None:
                self._callers.setdefault((caller.file, caller.line), caller)

    def is_full(self, seen: CompileCandidate) -> bool:
        """Whether this candidate came after the number that is kept."""
        return seen is self._rest

    def owns_parameters(self, module: Any) -> bool:
        """Whether it has parameters besides those of compiled modules that it holds, as a loss may hold the model."""
        taken = self._taken()
        if self._owned[0] != (ids := list(map(id, taken))):
            self._owned = (ids, {})
        if id(module) not in self._owned[1]:
            held = {id(part) for part in module.modules()}
            known = {id(each) for root in taken if id(root) in held for each in root.parameters()}
            self._owned[1][id(module)] = any(id(each) not in known for each in module.parameters())
        return self._owned[1][id(module)]

    def is_part_of_compiled(self, module: Any) -> bool:
        """Whether a module that is compiled holds this one: `model = torch.compile(model)` leaves its parts alone."""
        roots = self._taken()
        if self._compiled_parts[0] != (ids := list(map(id, roots))):
            parts = {id(part) for root in roots for part in root.modules() if part is not root}
            self._compiled_parts = (ids, parts)
        return id(module) in self._compiled_parts[1]

    def _taken(self) -> list[torch.nn.Module]:
        taken = [each.held.target for each in self._targets.values() if each.taken and each.kind == "module"]
        return [each for each in taken if each is not None]

    def compiled(self) -> list[tuple[str, Any]]:
        """The modules that were compiled, by name, as far as they are still there."""
        modules = [each for each in self._targets.values() if each.was_compiled and each.kind == "module"]
        return [(each.name, module) for each in modules if (module := each.held.target) is not None]

    def entries(self) -> list[CandidateEntry]:
        rest = [self._rest] if self._rest is not None else []
        called = [*(seen.entry() for seen in [*self._all, *rest]), *self._callers.values()]
        return called or list(self._constructed.values())


def parameters_of(module: Any) -> int:
    """How many values its parameters hold; those without a shape yet count as one each."""
    uninitialized = torch.nn.parameter.UninitializedTensorMixin
    return sum(1 if isinstance(each, uninitialized) else each.numel() for each in module.parameters())


def _caller(module: Any, frames: list[FrameType]) -> CandidateEntry | None:
    """The method of another module, or the function of the program, that a module was called from."""
    for frame in frames:
        code, owner = frame.f_code, frame.f_locals.get("self")
        place = (
            code.co_filename,
            code.co_firstlineno,
            getattr(code, "co_qualname", code.co_name).replace("<locals>.", ""),
        )
        if not issubclass(type(owner), torch.nn.Module):
            if code.co_name in ("<module>", "<lambda>"):
                return None
            return CandidateEntry("function", code.co_name, "", *place, reason="function")
        if owner is not module and code.co_name not in _CALLED_AS_FORWARD:
            name = expression_of(owner, frames)
            method, parameters = f"{name}.{code.co_name}" if name else "", parameters_of(owner) or None
            return CandidateEntry(
                "method", method, type(owner).__qualname__, *place, parameters=parameters, reason="method"
            )
    return None


class Modules:
    """The modules whose code was compiled so far, by the number of the code.

    Names are looked for only once a code has a second module: reading the variables of a running function keeps what
    they held alive for as long as it runs (up to Python 3.12).
    """

    def __init__(self) -> None:
        self._of_code: dict[str, dict[int, weakref.ref[torch.nn.Module]]] = {}

    def met(self, code: str, module: torch.nn.Module, frames: Iterable[FrameType]) -> dict[int, list[str]]:
        """Note a module with its code; where others have that too, what all of them are called, by their ids."""
        known = self._of_code.setdefault(code, {})
        known[id(module)] = weakref.ref(module)
        if len(known) < 2:
            return {}
        callers = list(frames)
        living = ((token, reference()) for token, reference in known.items())
        return {token: names_of(each, callers) for token, each in living if each is not None}


def names_of(module: torch.nn.Module, frames: Iterable[FrameType]) -> list[str]:
    """Expressions for a module, the innermost caller's own variable first: `layer`, then `self.layers[2]`.

    A variable may stand for one module after the other; a path below another module is its own alone.
    """
    found: list[str] = []
    for frame in islice(frames, _MOST_FRAMES):
        scopes = (frame.f_locals,) if frame.f_locals is frame.f_globals else (frame.f_locals, frame.f_globals)
        for scope in scopes:
            found += [*_variables(module, scope), *_paths(module, scope)]
        if found:
            break
    return list(dict.fromkeys(found))


def name_in(frame: FrameType, module: Any) -> str:
    """The shortest way to write a module in the code of a frame: a variable, a part of one, an attribute of an object;
    "" where there is none.
    """
    scopes = (frame.f_locals,) if frame.f_locals is frame.f_globals else (frame.f_locals, frame.f_globals)
    found = (next(search(module, names), "") for search in (_variables, _paths, _attributes) for names in scopes)
    return next((name for name in found if name), "")


def frames_of_program() -> Iterator[FrameType]:
    """The frames above, innermost first, without torch's and ours."""
    return (frame for frame in calling_frames() if not frame.f_code.co_filename.startswith("<frozen"))


def expression_of(module: Any, frames: list[FrameType]) -> str:
    """What the program calls a module: `model`, `model.encoder`, `main:net` for a local of main(), "" if nothing."""
    main = sys.modules.get("__main__")
    spaces: list[tuple[str, dict[str, Any]]] = [("", vars(main))] if main is not None else []
    spaces += [
        (f"{frame.f_code.co_name}:", frame.f_locals) for frame in reversed(frames) if frame.f_code.co_name != "<module>"
    ]
    for scope, names in spaces:  # The outermost first: a function of a library has names of its own for it.
        for search in (_variables, _paths, _attributes):
            if name := next(search(module, names), ""):
                return scope + name
    return ""


def _variables(module: Any, names: dict[str, Any]) -> Iterator[str]:
    for name, value in list(names.items()):
        if name.isidentifier() and (value is module or _plain(value) is module):
            yield name


def _paths(module: Any, names: dict[str, Any]) -> Iterator[str]:
    """Where a module stands below another one: `model.layers[2]`."""
    for name, value in list(names.items()):
        holder = _plain(value)
        if name.isidentifier() and issubclass(type(holder), torch.nn.Module) and holder is not module:
            for path, part in torch.nn.Module.named_modules(holder):
                if part is not holder and (part is module or _plain(part) is module):
                    yield name + _INDEX.sub(r"[\1]", f".{path}".replace("._orig_mod", ""))


def _plain(value: Any) -> Any:
    """The module itself where torch.compile's wrapper around it stands."""
    parts = vars(value).get("_modules") if issubclass(type(value), torch.nn.Module) else None
    return parts.get("_orig_mod", value) if isinstance(parts, dict) else value


def _attributes(module: Any, names: dict[str, Any]) -> Iterator[str]:
    """Attributes of objects that are no modules: `trainer.model`."""
    for name, value in list(names.items()):
        held = getattr(value, "__dict__", None)
        if type(held) is dict and not issubclass(type(value), (type, types.ModuleType, torch.nn.Module)):
            yield from (f"{name}.{attribute}" for attribute in _variables(module, held))
