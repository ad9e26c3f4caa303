"""What the parent asks about a change, and the answers: declared once for both processes, without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Equality = Literal["bitwise", "tolerance", "different"]
Arm = Literal["eager", "traced"]


@dataclass(frozen=True)
class SourceChange:
    """A file, as its code objects name it, with its old and new source."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class CheckRequest:
    """A change of source files, or of settings of Dynamo. `sides` are lines of the unchanged code, one in each side of
    a branch, that random inputs should reach. No new inputs are drawn after `seconds` of processor time. Without
    `traced` they are compared in eager alone, and not at all if no code changes.
    """

    changes: list[SourceChange] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    draws: int = 0
    seconds: float = 10.0
    sides: list[tuple[str, int]] = field(default_factory=list)
    traced: bool = True

    @classmethod
    def of(cls, command: dict[str, Any]) -> CheckRequest:
        known = {name: command[name] for name in cls.__dataclass_fields__}
        changes = [SourceChange(**each) for each in command["changes"]]
        return cls(**{**known, "changes": changes, "sides": [(file, line) for file, line in command["sides"]]})


@dataclass
class Compared:
    """A run of the changed code compared with one of the unchanged code; `why` says what differs, if anything.

    `effects` are the side effects that differ, for people to judge. `as_compiled`: the unchanged code gives other
    results compiled than in eager, and the changed code gives the same as that.
    """

    equality: Equality
    why: str = ""
    effects: list[str] = field(default_factory=list)
    as_compiled: bool = False


@dataclass
class Draws:
    """How many random inputs were compared, how many of them raised the same exception in both, and the first
    difference.

    `as_compiled` is as in `Compared`, for at least one. `varied` are the circumstances that were compared too, `kinds`
    the values tried to reach other sides of branches; those that the model refuses are left out. `unproved` says what
    was not verified for other inputs, which is no difference.
    """

    tried: int = 0
    raised: int = 0
    bitwise: int = 0
    different: str = ""
    unproved: str = ""
    as_compiled: bool = False
    effects: list[str] = field(default_factory=list)
    varied: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CompiledShare:
    """How many of the operators of a run were in graphs."""

    compiled: int = 0
    operators: int = 0


@dataclass
class CheckResult:
    """The outcome. `problem` says why nothing could be compared. `own` is of the program's own calls, in eager alone if
    that differs; `lines` are those of the changed functions that ran, `unrun` those of the new code that never ran
    completely. `folder` holds the events of what the changed code compiled, None if nothing, and `share` is how much of
    the program's own calls that is.
    """

    problem: str = ""
    own: dict[Arm, Compared] = field(default_factory=dict)
    draws: Draws = field(default_factory=Draws)
    lines: list[tuple[str, int]] = field(default_factory=list)
    unrun: list[tuple[str, int]] = field(default_factory=list)
    gradients: bool = False
    folder: str | None = None
    share: CompiledShare | None = None

    @property
    def difference(self) -> str:
        """What differs in the program's own calls; "" for nothing."""
        arms = (f"{arm}, the program's own calls: {each.why}" for arm, each in self.own.items()
                if each.equality == "different")  # fmt: skip
        return next(arms, "")

    @property
    def compared(self) -> list[Compared | Draws]:
        """Everything with side effects to report."""
        return [*self.own.values(), self.draws]


@dataclass
class BaselineResult:
    """What the unchanged code compiles (events in `folder`), and whether it does the same twice; `problem` says why
    nothing can be verified about it.
    """

    problem: str = ""
    repeatable: bool = True
    folder: str = ""
    share: CompiledShare | None = None
