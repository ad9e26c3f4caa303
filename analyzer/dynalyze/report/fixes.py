"""What `dynalyze fix` adds to the typed report: changes that end graph breaks, and how each was verified."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.measurements import Speedup
from dynalyze.report.sensitivity import BreakType, CommandLine, FilePath, Message, Quote, Source, Word

FixKind = Literal["source", "setting"]
FixStatus = Literal["verified", "suggested", "rejected", "proved"]
"""`proved` is the word of reports before 0.1; it is read as verified."""

Equality = Literal["bitwise", "tolerance", "different", ""]
"""How the changed code's results compare; "" where nothing was compared."""


class BranchSide(msgspec.Struct):
    """A side of a branch that a change concerns, by its first line in the code as it is; `taken` by any call at all."""

    place: Location
    taken: bool = False


class CompileCounts(msgspec.Struct):
    """What calls compile: distinct graph breaks, graphs, and recompiles."""

    breaks: int = 0
    graphs: int = 0
    recompiles: int = 0


class CompiledOperators(msgspec.Struct):
    """Of the `operators` that the program's own calls run in eager or in graphs (views are none), those in graphs."""

    compiled: int = 0
    operators: int = 0


class WholeProgram(msgspec.Struct):
    """Runs of the whole program: `runs` as it is, and one with the changes, in a sandbox or with effects refused.
    `different` is what the changed program does otherwise, first of all; `compared` is what was the same: exit status,
    printed lines, files. `unchecked` says what could not be compared, or why nothing was; `left_out` is what two runs
    of the program as it is do not agree on, and nobody relies on.
    """

    runs: int = 0
    sandboxed: bool = False
    compared: list[Message] = []
    different: Message = ""
    unchecked: list[Message] = []
    left_out: list[Message] = []


class Evidence(msgspec.Struct):
    """What was run for a fix. `calls` are the program's own, `draws` were made of fresh inputs, `raised` of them raised
    the same exception before and after; `searched` are the kinds of draws that looked for sides nobody had taken, and
    `varied` the circumstances that were tried as well: another batch, gradients, training or evaluation, other weights.

    `outputs` is the worst of all that was compared; with `as_compiled` some were held to what the code as it was gives
    compiled, which is something else than in eager. `effects` are side effects that the compiled code does not have in
    common with the code as it was, for people to judge. `backend` is the one of the program that answers were held to
    eager's and to fp64 with, and `accuracy` the verdict. `compiled_before` and `compiled_after` are operators in
    graphs. `speedup` is the time of compiled calls before by that after.
    """

    calls: int = 0
    draws: int = 0
    raised: int = 0
    varied: list[Word] = []
    searched: list[Word] = []
    outputs: Equality = ""
    as_compiled: bool = False
    gradients: bool = False
    effects: list[Quote] = []
    sides: list[BranchSide] = []
    before: CompileCounts | None = None
    after: CompileCounts | None = None
    backend: Word = ""
    accuracy: Word = ""
    compiled_before: CompiledOperators | None = None
    compiled_after: CompiledOperators | None = None
    program: WholeProgram | None = None
    speedup: Speedup | None = None


class Fix(msgspec.Struct):
    """A change that ends graph breaks, or a setting that ends recompiles: `breaks` and `recompiles` are their ids.

    verified: the breaks are gone, none is new, no less is compiled, the calls give the same in eager, traced and under
    the program's own backend, and the whole program does what it did. suggested: some of that could not be checked, as
    `reason` says. rejected: `reason` says what went wrong. `patch` is a unified diff, `setting` lines of Python that
    set it.
    """

    id: Word
    breaks: list[Word]
    kind: FixKind
    status: FixStatus
    title: Message = ""
    rewrite: Word = ""
    reason: Quote = ""
    files: list[FilePath] = []
    patch: Source = ""
    setting: Source = ""
    evidence: Evidence = msgspec.field(default_factory=Evidence)
    recompiles: list[Word] = []

    @property
    def ends(self) -> list[str]:
        """The ids of all that it ends."""
        return [*self.breaks, *self.recompiles]

    def __post_init__(self) -> None:
        if self.status == "proved":
            self.status = "verified"


class Unfixed(msgspec.Struct):
    """A graph break that nothing verified ends, and why: nothing fits it, or what was tried was rejected."""

    break_id: Word
    gb_type: BreakType
    place: Location | None = None
    reason: Quote = ""


class Fixed(msgspec.Struct):
    """What the fixes come to together: `kept` are the ids of those that were verified as a whole, `patch` is all of
    their changes to files, `setting` all their settings, and `evidence` is of the whole. Where the run was interrupted,
    or out of time, before that, none are kept, and both are of the changes that are suggested.

    `before` and `after` are of whole runs of the program. `libraries` are files of installed packages among those that
    the patch changes: they are never written to. `reproduce` is the command that verifies it again.
    `given`: the change is not ours, it was given to `dynalyze verify`.
    """

    kept: list[Word] = []
    unfixed: list[Unfixed] = []
    patch: Source = ""
    setting: Source = ""
    evidence: Evidence | None = None
    before: CompileCounts | None = None
    after: CompileCounts | None = None
    libraries: list[FilePath] = []
    reproduce: CommandLine = []
    given: bool = False
