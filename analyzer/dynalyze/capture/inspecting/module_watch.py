"""Reports what is given to torch.compile, and how it and torch stand at each moment that counts.

A program changes a module between torch.compile and its calls (wraps it, moves it, casts it, gives it adapters), and
the module is often gone by the end of the run: so it is looked at again whenever something compiles, within a small
budget of time, and reported again where it has changed.
"""

from __future__ import annotations

import itertools
import sys
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

from dynalyze.capture.events import Emit, Lost, ModuleSeen, SettingsSeen
from dynalyze.capture.hooks import after_fork
from dynalyze.capture.inspecting.modules import inspected, living_wrappers
from dynalyze.capture.inspecting.settings import settings_seen

_MOST_MODULES = 200
_BUDGET_SECONDS = 0.5
_SHOWN_OPTIONS = ("mode", "dynamic", "fullgraph", "backend")
_LONGEST_WORD = 40


@dataclass
class _Given:
    """A module that was given to torch.compile, held weakly, and what was last reported of it."""

    name: str
    module: weakref.ref[Any]
    place: dict[str, Any]
    reported: dict[str, Any] = field(default_factory=dict)


class Inspection:
    """Emits the events `settings` and `module` of this process. Nothing here raises into the program.

    Without `at_once` nothing is written before a first compile: a helper process that compiles nothing leaves no trace.
    """

    def __init__(self, emit: Emit, *, at_once: bool) -> None:
        self._emit = emit
        self._at_once = at_once
        self._given: list[_Given] = []
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._names = itertools.count(1)
        self._settings_emitted = False
        self._spent = 0.0
        after_fork(self._after_fork)

    def given(self, model: Any, file: str, line: int, options: dict[str, Any]) -> None:
        """A call of torch.compile with a module, or with a method of one."""
        module = getattr(model, "__self__", model)
        torch = sys.modules["torch"]
        if not isinstance(module, torch.nn.Module) or len(self._given) >= _MOST_MODULES or module in self._known:
            return
        self._known.add(module)
        place = {"file": file, "line": line, "options": shown_options(options)}
        self._given.append(_Given(f"m{next(self._names)}", weakref.ref(module), place))
        if self._at_once:
            self._look(self._given[-1:])

    def forget(self) -> None:
        """Forget what was given so far."""
        self._settings_emitted = False
        self._given.clear()
        self._known.clear()

    def compiling(self, frames: int) -> None:
        """A frame begins to compile, the `frames`th of this process, in the thread that compiles it."""
        if not self._settings_emitted:
            self._settings_emitted = True
            self._emit(SettingsSeen(settings_seen()))
        if self._spent < _BUDGET_SECONDS:
            self.look_again()

    def look_again(self, *, ended: bool = False) -> None:
        """Report every module that is still there and is not as it was; `ended`: the program is through."""
        began = time.perf_counter()
        self._look(self._given, ended=ended)
        self._spent += time.perf_counter() - began

    def _look(self, some: list[_Given], *, ended: bool = False) -> None:
        try:
            living = [(each, module) for each in some if (module := each.module()) is not None]
            holders = living_wrappers(always=ended) if living else []
            for each, module in living:
                facts = {**each.place, **inspected(module, holders)}
                if facts != each.reported:
                    each.reported = facts
                    self._emit(ModuleSeen(each.name, facts))
        except Exception as error:
            self._emit(Lost(f"what was compiled: {type(error).__name__}: {error}"[:500]))

    def _after_fork(self) -> None:
        """Report everything again: a forked process writes its own file."""
        self._settings_emitted = False
        self._at_once = False
        for each in self._given:
            each.reported = {}


def shown_options(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of torch.compile that are switches or torch's own words; a backend of the program's is "custom"."""
    shown: dict[str, Any] = {}
    for name in _SHOWN_OPTIONS:
        value = options.get(name)
        word = isinstance(value, str) and len(value) <= _LONGEST_WORD and value.replace("-", "_").isidentifier()
        if word or isinstance(value, bool):
            shown[name] = value
        elif name == "backend" and value is not None:
            shown[name] = "custom"
    return shown
