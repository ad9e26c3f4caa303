"""What is known of an environment, and what the checks say of it."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "warning", "problem", "unknown"]


class Device(msgspec.Struct):
    """A GPU. `capability` are the two numbers of its compute capability."""

    name: str
    capability: list[int] = []


class Package(msgspec.Struct):
    """An installed package; `error` says why it does not import."""

    name: str
    version: str
    error: str = ""


class Trial(msgspec.Struct):
    """A tiny function through torch.compile; `error` is "" where it came out right. `unfinished`: it took too long."""

    backend: str
    device: str
    seconds: float = 0.0
    error: str = ""
    unfinished: bool = False


class Folder(msgspec.Struct):
    """A folder of compiled code, as the parent sees it. `size` is None where there were too many files to add up."""

    name: str
    path: str
    exists: bool = False
    writable: bool = False
    size: int | None = None
    free: int | None = None


class Facts(msgspec.Struct):
    """All that was found out. None, or "" for a text, is what could not be; `silence` says why the child told less."""

    interpreter: str = ""
    python: str = ""
    system: str = ""
    machine: str = ""
    torch: str | None = None
    torch_error: str = ""
    cuda: str | None = None
    hip: str | None = None
    disabled: bool | None = None
    triton: str | None = None
    triton_wanted: str | None = None
    devices: list[Device] | None = None
    compiler: str | None = None
    compiler_error: str = ""
    include: str = ""
    headers_error: str | None = None
    openmp_error: str | None = None
    caches: dict[str, str] = {}
    folders: list[Folder] = []
    variables: dict[str, str] = {}
    packages: list[Package] = []
    importing: str = ""
    trials: list[Trial] = []
    silence: str = ""

    @property
    def usable_gpu(self) -> bool:
        """Whether Triton can compile for a device that is here."""
        return bool(self.triton) and any(tuple(each.capability) >= (7, 0) for each in self.devices or ())


class Line(msgspec.Struct):
    """One line of the diagnosis. `mend` is a command or a setting; `fatal`: with this, compile cannot work at all."""

    check: str
    status: Status
    found: str
    mend: str = ""
    fatal: bool = False


class Diagnosis(msgspec.Struct):
    """What `dynalyze doctor --json` writes."""

    dynalyze: str
    works: bool
    summary: str
    lines: list[Line] = []
    facts: Facts = msgspec.field(default_factory=Facts)
    schema_version: int = 1
