"""What rules about layers of libraries ask of a report: which layers there are, and what happened in the library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from dynalyze.facts.stacks import Places
from dynalyze.report import GraphBreak, Location, Recompile, Report, SkippedFrame
from dynalyze.report.models import Adapters, LayerGroup, ModuleFacts

FROM_CONFIGURATION = "Read from the configuration of the layers."
NOT_SHOWN = "Read from the configuration; the run did not show it."
FROM_RUN = "Seen in this run."
LORA_WEIGHT = re.compile(r"\blora_(?:A|B|embedding_A|embedding_B|magnitude_vector)\b")
"""A weight of an adapter in the source of a guard."""


def layers_of(report: Report, *libraries: str) -> list[tuple[ModuleFacts, LayerGroup]]:
    """The quantised layers of these libraries, module by module."""
    return [(module, group) for module in report.modules for group in module.layers if group.library in libraries]


def adapters_of(report: Report) -> Iterator[tuple[ModuleFacts, Adapters]]:
    """The modules that hold adapters."""
    for module in report.modules:
        if module.adapters is not None:
            yield module, module.adapters


def uses_peft(report: Report) -> bool:
    """Whether a module holds adapters, or PEFT's code was traced."""
    return any(adapters_of(report)) or was_traced(report, "peft")


def version(report: Report, package: str) -> tuple[int, ...]:
    """The numbers of an installed version: (0, 50, 2); empty where it is not known."""
    packages = report.environment.get("packages")
    text = report.environment.get("torch") if package == "torch" else None
    if text is None and isinstance(packages, dict):
        text = packages.get(package)
    found = re.match(r"\d+(?:\.\d+)*", str(text or ""))
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def shown_version(numbers: tuple[int, ...]) -> str:
    """`0.50.2`."""
    return ".".join(map(str, numbers))


def comes_from(location: Location, folder: str) -> bool:
    """Whether a line is in a file below a folder of this name: that of an installed package."""
    return folder in PurePosixPath(location.file.replace("\\", "/")).parts[:-1]


def breaks_in(report: Report, folder: str) -> list[GraphBreak]:
    """The graph breaks at lines of a package."""
    return [found for found in report.graph_breaks if comes_from(found.location, folder)]


def skipped_in(report: Report, folder: str) -> list[SkippedFrame]:
    """The functions of a package that torch left in eager, where they work on tensors."""
    return [each for each in report.skipped_frames if each.tensors and comes_from(each.location, folder)]


def was_traced(report: Report, folder: str) -> bool:
    """Whether Dynamo read a file of a package."""
    return any(comes_from(Location(each.path, 1), folder) for each in report.traced_files)


def trains(report: Report, module: ModuleFacts) -> bool:
    """Whether the module was being trained: it says so itself, or a backward graph was compiled."""
    return module.training or any(each.backward for each in report.compilations)


def place_of(module: ModuleFacts) -> Location | None:
    """The program's own call of torch.compile."""
    return Location(module.file, module.line) if module.file and module.line else None


def called_from(report: Report, again: Recompile) -> Location:
    """The function that was compiled again, where it is the program's own; for a library's, the line of the program
    that called it, or that compiled the only module of that class.
    """
    named = [each for each in report.modules if (again.location.function or "").startswith(f"{each.class_name}.")]
    compiled = [place for each in named if (place := place_of(each)) is not None]
    places = Places()
    known = (again.location, *callers(report, again), *(compiled if len(compiled) == 1 else ()))
    return next((each for each in known if places.origin(each.file) == "user"), again.location)


def callers(report: Report, again: Recompile) -> list[Location]:
    """The line that made the call which compiled again; empty where it is not known."""
    key = (again.process, again.epoch, again.compile_id)
    made = (each for each in report.compilations if (each.process, each.epoch, each.compile_id) == key)
    return [each.caller for each in made if each.caller is not None]


def by_generate(report: Report, again: Recompile) -> bool:
    """Whether `generate` of transformers made the call."""
    files = (each.file.replace("\\", "/") for each in callers(report, again))
    return any(file.endswith("/transformers/generation/utils.py") for file in files)


def counted(number: int, what: str) -> str:
    """`1 layer`, `4 layers`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    """`once`, `4 times`."""
    return "once" if number == 1 else f"{number} times"


def spent(members: list[Recompile]) -> float | None:
    """What recompiles took together, where each was timed."""
    known = [each.seconds for each in members if each.seconds is not None]
    return round(sum(known), 6) if known and len(known) == len(members) else None
