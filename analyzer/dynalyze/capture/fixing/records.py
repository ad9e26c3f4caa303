"""What the parent asks about a change, and what it is told: declared once for both processes, without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Equality = Literal["bitwise", "tolerance", "different"]
Arm = Literal["eager", "traced"]


@dataclass(frozen=True)
class SourceChange:
    """A file, as its code objects name it, with its source as it is and as it is to be."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class CheckRequest:
    """A change of source files, settings of Dynamo, or `regions` to compile in the place of the model. `sides` are
    lines, of the code as it is, one in each side of a branch, which draws are to reach. No draw is begun after
    `seconds` of processor time; without `traced` draws are compared in eager alone: not at all where no code changes.
    """

    changes: list[SourceChange] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    draws: int = 0
    seconds: float = 10.0
    sides: list[tuple[str, int]] = field(default_factory=list)
    regions: dict[str, list[str]] = field(default_factory=dict)
    traced: bool = True

    @classmethod
    def of(cls, command: dict[str, Any]) -> CheckRequest:
        """As it was sent."""
        known = {name: command[name] for name in cls.__dataclass_fields__}
        changes = [SourceChange(**each) for each in command["changes"]]
        return cls(**{**known, "changes": changes, "sides": [(file, line) for file, line in command["sides"]]})


@dataclass
class Compared:
    """One run of the changed code against the same one of the code as it was; `why` says what differs, if anything.

    `effects` names the side effects that differ, which is for people to judge. `as_compiled`: the code as it was gives
    something else compiled than in eager already, and the changed code the same as that.
    """

    equality: Equality
    why: str = ""
    effects: list[str] = field(default_factory=list)
    as_compiled: bool = False


@dataclass
class Draws:
    """How many draws were compared, and in how many both raised the same exception; what the first that differed was.

    `as_compiled` says of one at least what `Compared` says. `varied` are the circumstances in which calls were compared
    as well, `kinds` the values that were tried to come by other sides of branches; a circumstance or kind that the
    model refuses is in neither. `unproved` says what was not verified of other inputs, which is no difference.
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
    """Operators of a run: how many ran in graphs, and how many there were."""

    compiled: int = 0
    operators: int = 0


@dataclass
class CheckResult:
    """What was found. `problem` says why nothing could be compared. `own` is of the program's own calls, in eager alone
    where that differs; `lines` of the changed functions ran in them or in draws, and `unrun` are those of the new code
    of which something never did. `folder` holds the events of what the changed code compiled, None where it compiled
    nothing, and `share` how much of the program's own calls that is.
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
        """What differs in the program's own calls; "" where nothing does."""
        arms = (f"{arm}, the program's own calls: {each.why}" for arm, each in self.own.items()
                if each.equality == "different")  # fmt: skip
        return next(arms, "")

    @property
    def compared(self) -> list[Compared | Draws]:
        """All that has side effects to tell."""
        return [*self.own.values(), self.draws]


@dataclass
class BaselineResult:
    """What the code as it is compiles (events in `folder`), and whether it does the same twice; `problem` says why
    nothing can be verified about it.
    """

    problem: str = ""
    repeatable: bool = True
    folder: str = ""
    share: CompiledShare | None = None
