"""What a benchmark is asked for: the target, the configurations by their names, the sizes and the limits."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from dynalyze.bench.stats import DEFAULT_PAIRS
from dynalyze.capture.bench.wire import AS_WRITTEN, Configuration, Phase
from dynalyze.capture.shapes import Dim
from dynalyze.launch.shape_options import Shape
from dynalyze.text.errors import UsageError

EAGER = Configuration("eager", compile=False)
DEFAULT = Configuration("default")
MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# Names that mean the same as a longer one.
ALIASES = {
    "compile": "default",
    "compiled": "default",
    "inductor": "default",
    "regions": "regional",
    "blocks": "regional",
    "dynamic": "dynamic=on",
    "static": "dynamic=off",
    "as-written": AS_WRITTEN,
}
_SWITCHES: dict[str, dict[str, Any]] = {
    "default": {},
    "regional": {"region": "blocks"},
    "accelerate": {"region": "accelerate"},
    "fullgraph": {"fullgraph": True},
    **{mode: {"mode": mode} for mode in MODES},
    **{f"dynamic={value}": {"dynamic": value} for value in ("auto", "on", "off", "mark")},
}
_BACKEND = "backend="
_ON_CPU = ("default", "dynamic", "fullgraph", "regional")
_ON_CUDA = (*_ON_CPU, "reduce-overhead", "max-autotune-no-cudagraphs")
_PHASES: tuple[Phase, ...] = ("forward", "train", "prefill", "decode", "generate")


@dataclass(frozen=True)
class Work:
    """One workload: what is done with the model, and how large its inputs are. None leaves it to the target.

    `shape` are sizes by name (`--shapes`), other than the batch and sequence of a model that makes its own inputs.
    """

    phase: Phase = "forward"
    batch: int | None = None
    sequence: int | None = None
    shape: Shape = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Every size that was asked for, by name."""
        own = {"batch": self.batch, "sequence": self.sequence}
        return {**{name: size for name, size in own.items() if size is not None}, **dict(self.shape)}


@dataclass(frozen=True)
class Plan:
    """Everything `run_bench` needs to know. `source` is a worker's (`WorkerRequest.source`).

    Without `configurations` the sensible set for the device is run. `seconds` are timed seconds of a configuration,
    `timeout` is the life of each process, `total` bounds the whole benchmark: what is not done by then is left out.
    With `answers_first` memory and answers are known before speed: what `total` cuts is speed.
    Where `more_time`, a command that measures without `total`, is given, `total` is a budget: within it the verdict on
    speed comes first. Processes begin with the caches of the user, which the run before has filled; a start with empty
    ones comes last, where `cold_seconds`, what compiling took then, are left. What did not fit is told with it.
    With `as_called` the calls of a program that went backward through them are training steps, as it made them.
    `label` names the target before each line of its output. `autocast` holds for eager too. `written` is what the
    program itself does; it comes before the others with `adds_written`, or where `configurations` names it. `rerun`
    has each process run the program again. `dims` say which inputs have the sizes of a work's shape.
    """

    source: dict[str, Any]
    configurations: tuple[Configuration, ...] | None = (DEFAULT,)
    default: Configuration = DEFAULT
    written: Configuration | None = None
    adds_written: bool = False
    rerun: bool = False
    dims: tuple[Dim, ...] = ()
    works: tuple[Work, ...] = (Work(),)
    device: str | None = None
    dtype: str | None = None
    train: bool | None = None
    autocast: str = ""
    static_cache: bool = False
    new_tokens: int = 16
    threads: int | None = None
    seed: int = 0
    pairs: int = DEFAULT_PAIRS
    seconds: float = 10.0
    timeout: float = 600.0
    total: float | None = None
    python: str | None = None
    quiet: bool = False
    label: str = "target"
    accuracy: bool = True
    memory: bool = True
    answers_first: bool = False
    more_time: str = ""
    cold_seconds: float | None = None
    as_called: bool = False

    def configurations_on(self, device: str) -> tuple[Configuration, ...]:
        """The configurations to compare with eager on this device."""
        chosen = matrix(device, self.default) if self.configurations is None else self.configurations
        if self.written is not None:
            chosen = tuple(self.written if each.name == AS_WRITTEN else each for each in chosen)
            chosen = (self.written, *chosen) if self.adds_written else chosen
        return tuple(replace(each, autocast=self.autocast) for each in dict.fromkeys(chosen))

    @property
    def eager(self) -> Configuration:
        return replace(EAGER, autocast=self.autocast)


def matrix(device: str, default: Configuration = DEFAULT) -> tuple[Configuration, ...]:
    """The sensible set for a device. CUDA graphs and Triton's autotuning are nothing that a CPU has."""
    names = _ON_CUDA if device.startswith("cuda") else _ON_CPU
    return tuple(configuration(name, default) for name in names)


def with_options(backend: str, mode: str | None, dynamic: Any, fullgraph: bool) -> Configuration:
    """What `default` stands for under these options of the command line."""
    return replace(DEFAULT, backend=backend, mode=mode, dynamic=dynamic, fullgraph=fullgraph)


def names_default(text: str) -> bool:
    """Whether `--configs` holds the configuration that the compile options are for."""
    return any("default" in _parts(name) for name in text.split(","))


def configurations(text: str, default: Configuration = DEFAULT) -> tuple[Configuration, ...]:
    """Understand `--configs`; eager is always measured and need not be named.

    Raises:
        UsageError: a name that is not known, or two that exclude each other.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise UsageError("--configs is empty; for example --configs default,reduce-overhead")
    found = {name: configuration(name, default) for name in names if name != "eager"}
    return tuple(dict.fromkeys(found.values()))


def configuration(name: str, default: Configuration = DEFAULT) -> Configuration:
    """One configuration from its name: parts joined by +. `default` is what that part alone stands for.

    Raises:
        UsageError: a part that is not known, or that says again what another one said.
    """
    parts = _parts(name)
    if AS_WRITTEN in parts:
        if len(parts) > 1:
            raise UsageError(f'--configs {name}: "{AS_WRITTEN}" stands alone, the program has chosen its arguments')
        return replace(DEFAULT, name=AS_WRITTEN)
    settings: dict[str, Any] = {}
    for part in parts:
        for key, value in _settings(part, name, default).items():
            if key in settings:
                raise UsageError(f"--configs {name}: {key} is set twice")
            settings[key] = value
    return replace(DEFAULT, name="+".join(parts), **settings)


def works(phases: str | None, batches: str | None, sequences: str | None, *, train: bool | None) -> tuple[Work, ...]:
    """Every combination of `--phase`, `--batch` and `--sequence`.

    Raises:
        UsageError: an unknown phase, or a size that is not a whole number above zero.
    """
    default: Phase = "train" if train else "forward"
    chosen = (default,) if phases is None else tuple(_phase(each) for each in _listed("--phase", phases))
    if train is False and "train" in chosen:
        raise UsageError("--phase train and --eval exclude each other")
    combined = product(chosen, _sizes("--batch", batches), _sizes("--sequence", sequences))
    return tuple(dict.fromkeys(Work(phase, batch, sequence) for phase, batch, sequence in combined))


def given(chosen: Configuration) -> dict[str, Any]:
    """The arguments that a configuration sets, for the report: torch.compile's own names where it has them."""
    if chosen.name == AS_WRITTEN:
        return {**chosen.written, **({"autocast": chosen.autocast} if chosen.autocast else {})}
    if not chosen.compile:
        return {"autocast": chosen.autocast} if chosen.autocast else {}
    shown: dict[str, Any] = {"backend": chosen.backend}
    for key in ("mode", "dynamic", "fullgraph", "region", "autocast"):
        if (value := getattr(chosen, key)) != getattr(DEFAULT, key):
            shown[key] = value
    return shown


def _parts(name: str) -> list[str]:
    return [ALIASES.get(part.strip(), part.strip()) for part in name.split("+")]


def _settings(part: str, name: str, default: Configuration) -> dict[str, Any]:
    if part == "default":
        return {
            key: value
            for key in ("backend", "mode", "dynamic", "fullgraph")
            if (value := getattr(default, key)) != getattr(DEFAULT, key)
        }
    if part.startswith(_BACKEND) and part != _BACKEND:
        return {"backend": part.removeprefix(_BACKEND)}
    if part in _SWITCHES:
        return _SWITCHES[part]
    if part == "eager":
        raise UsageError(f"--configs {name}: eager is not compiled and joins with nothing")
    raise UsageError(f"--configs {name}: {_unknown(part)}")


def _unknown(part: str) -> str:
    known = ["eager", AS_WRITTEN, *_SWITCHES, *ALIASES, _BACKEND + "NAME"]
    near = difflib.get_close_matches(part, known, n=1, cutoff=0.0)
    return f"no configuration is called {part!r}; did you mean {near[0]}? dynalyze bench --help lists them"


def _listed(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{option} {text!r}: give one or more, separated by commas")
    return parts


def _phase(text: str) -> Phase:
    for phase in _PHASES:
        if phase == text:
            return phase
    raise UsageError(f"--phase {text}: choose from {', '.join(_PHASES)}")


def _sizes(option: str, text: str | None) -> list[int | None]:
    if text is None:
        return [None]
    sizes: list[int | None] = []
    for part in _listed(option, text):
        if re.fullmatch(r"[0-9]{1,9}", part) is None or int(part) == 0:
            raise UsageError(f"{option} {part}: give whole numbers above zero, separated by commas")
        sizes.append(int(part))
    return sizes
