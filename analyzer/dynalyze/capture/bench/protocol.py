"""The protocol between the measuring processes and their parent. Standard library only.

A worker is started as `PYTHON capture/start.py measure FOLDER`, with `request.json` in the folder (`WorkerRequest` as
JSON). It connects to the Unix socket `bench.socket` in the same folder, as a client of multiprocessing.connection, and
answers each message that it gets with one, both JSON. Its standard streams belong to the target. A message has `do` and
the fields of that `Command` (commands.py, and `child` of a feature, see dynalyze/registry.py); the answer has the
fields of its `answer`, and `ok`. After `end` the worker ends itself, without running the target's exit handlers.

An answer with `"ok": false` has `error`: {"kind": a Failure, "message": one line}; the worker lives on, unless
it died. Every command runs alone: the parent gives the next one, to whichever worker, when the answer has come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args

from dynalyze.capture.settings import CompileArguments, Generation, Phase, Placement
from dynalyze.capture.shapes import Dim

if TYPE_CHECKING:
    from dynalyze.capture.bench.worker import MeasuringSession

SOCKET_FILE = "bench.socket"
IMPORT_SECONDS_VARIABLE = "DYNALYZE_IMPORT_SECONDS"
"""In a forked worker: how long its fork server took to import torch."""
BESIDE = "beside"
"""Asks a fork server to import while the user's program runs, and to leave it the processors that it wants."""
# The name of the configuration with the arguments that the program itself gave to torch.compile; of bundles alone.
AS_WRITTEN = "as written"
TURNS_SHARE = 0.25
"""Of the time: what turns in the program's own process take, where answers and the cost of breaks are measured in other
processes afterwards.
"""
RERUN_HINT = (
    "`dynalyze bench --rerun` would measure by running the script again in every process, "
    "which repeats its side effects"
)

VARIANTS = (
    "other memory format", "batch 0", "batch 7", "NaN", "a second call with another batch", "gradients",
    "a second call", "a call in the other mode between two", "a second call under autocast",
    "not contiguous", "expanded", "one tensor as several", "infinities", "large numbers", "largest and least integers",
    "storage offset", "batch 1", "zeros of both signs", "subnormal numbers",
)  # fmt: skip
"""The variants of a workload's inputs (capture/bench/variants.py), those that have shown most faults first."""

RIGHT = ("equal", "benign", "rounding only")
"""The verdicts on answers that are right (docs/explanation/accuracy.md)."""
CONCLUSIVE = (*RIGHT, "suspicious")
"""The verdicts that need no compile for the test alone."""

Failure = Literal["misuse", "load", "eager", "compile", "out_of_memory", "not_replayable", "effects", "internal"]
NOT_REPEATED: tuple[Failure, ...] = ("not_replayable", "effects")
"""Neither model nor configuration is wrong. With `effects` the calls were refused effects outside."""


Answer = TypeVar("Answer")
COMMANDS: dict[str, type[Command[Any]]] = {}  # Every command that is declared, by the `do` of its messages.


class Command(ABC, Generic[Answer]):
    """A request to a worker, declared once for both sides: a dataclass, as its answer is, or a dict of JSON.

    The parent sends one and reads the answer; the worker makes it of its fields, and carries it out.
    """

    do: ClassVar[str]
    answer: ClassVar[type]

    def __init_subclass__(cls, do: str) -> None:
        (base,) = cls.__orig_bases__  # type: ignore[attr-defined]
        (cls.answer,), cls.do = get_args(base), do
        COMMANDS[do] = cls

    @abstractmethod
    def carry_out(self, session: MeasuringSession) -> Answer:
        """Runs in the worker alone. Whatever it raises becomes the answer."""


@dataclass(frozen=True)
class Configuration(CompileArguments):
    """One way of running the target. `compile` False is eager.

    `region` compiles repeated blocks only: "blocks" with torch.compile on each, "accelerate" through Accelerate.
    `autocast` is a dtype's name. Of AS_WRITTEN the arguments of torch.compile are those that the program gave, as far
    as its calls agree, and `written` has them for people. `settings` are Python statements about torch's own settings,
    in our words and never the user's: they run before anything compiles.
    """

    name: str
    compile: bool = True
    region: Literal["", "blocks", "accelerate"] = ""
    autocast: str = ""
    settings: str = ""
    written: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Work:
    """One workload: what is done with the model, and how large its inputs are. None leaves it to the target.

    `shape` are sizes by name (`--shapes`), other than the batch and sequence of a model that makes its own inputs.
    """

    phase: Phase = "forward"
    batch: int | None = None
    sequence: int | None = None
    shape: tuple[tuple[str, int], ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        own = {"batch": self.batch, "sequence": self.sequence}
        return {**{name: size for name, size in own.items() if size is not None}, **dict(self.shape)}


@dataclass(frozen=True, kw_only=True)
class CommonSettings(Generation, Placement):
    """What holds for every process of a benchmark.

    `seed` makes the processes of a pair build one and the same model. `threads` is fixed before anything compiles; None
    leaves torch's own number. `dims` say which inputs have the sizes of a work's shape. With `allow_effects` calls that
    do something to the outside may do it again and again; else they are refused.
    """

    seed: int = 0
    threads: int | None = None
    dims: tuple[Dim, ...] = ()
    allow_effects: bool = False


@dataclass(frozen=True, kw_only=True)
class WorkerRequest(Work, CommonSettings):
    """Everything a worker needs to know before it starts. `source` is one of these.

        {"kind": "object", "path", "module", "name", "inputs", "arguments", "attention"}   FILE:NAME and MODULE:NAME
        {"kind": "library", "library", "name", and the fields of ModelBuild}  a model of a library
        {"kind": "bundle", "file", "digest", "sys_path", "arguments", "folder"}   calls that were recorded
        {"kind": "program", "mode", "path", "module", "arguments", "seconds", "made"}   a program that is run again

    `cloudpickle` is the folder that holds that package, for interpreters that lack it. `extra["check"]` is a list of
    the other configurations, as dicts: `load` refuses a backend or mode of theirs that torch does not know (misuse).
    Sizes of `shape` that no `dims` have go to the factory that makes the model.
    """

    source: dict[str, Any]
    configuration: Configuration
    cloudpickle: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
