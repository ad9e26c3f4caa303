"""What is known of an environment, and what the checks say of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.sensitivity import ErrorText, FilePath, Message, Name, Word

Status = Literal["ok", "warning", "problem", "unknown"]

SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
"""Environment variables that switch torch.compile off; 1 does, and no other value."""


class Device(msgspec.Struct):
    """A GPU. `capability` are the two numbers of its compute capability."""

    name: Name
    capability: list[int] = []


class Package(msgspec.Struct):
    """An installed package. `requires` are its requirements on torch; `error` says why it does not import.

    `binary`: it has compiled code, so that only an import shows whether it works. `imported`: that was tried;
    `crashed`: it ended the process, or hung.
    """

    name: Name
    version: Name
    module: Name = ""
    requires: list[Name] = []
    binary: bool = False
    imported: bool = False
    error: ErrorText = ""
    crashed: bool = False


class CompileTrial(msgspec.Struct):
    """A tiny function through torch.compile; `error` is "" where it came out right. `unfinished`: it took too long."""

    backend: Name
    device: Name
    seconds: float = 0.0
    error: ErrorText = ""
    unfinished: bool = False


class Folder(msgspec.Struct):
    """A folder of compiled code, as the parent sees it. `runs`: its file system lets code be run from it."""

    name: Name
    path: FilePath
    exists: bool = False
    writable: bool = False
    free: int | None = None
    runs: bool = True


class Facts(msgspec.Struct):
    """The facts of an environment, None or "" where not known; `silence` says why the child wrote less.

    `arches` are the GPUs that this torch has code for; `device_warning` is torch's warning when it looked for GPUs.
    With `compiler_error` Inductor has no working C++ compiler.
    """

    interpreter: FilePath = ""
    python: Name = ""
    system: Name = ""
    machine: Name = ""
    torch: Name | None = None
    torch_error: ErrorText = ""
    cuda: Name | None = None
    hip: Name | None = None
    disabled: bool | None = None
    triton: Name | None = None
    triton_wanted: Name | None = None
    devices: list[Device] | None = None
    arches: list[Name] = []
    device_warning: Message = ""
    compiler: Name | None = None
    compiler_error: ErrorText = ""
    compiler_version: Name = ""
    include: FilePath = ""
    headers_error: ErrorText | None = None
    openmp_error: ErrorText | None = None
    caches: dict[Word, FilePath] = {}
    folders: list[Folder] = []
    variables: dict[Name, Name] = {}
    packages: list[Package] = []
    trials: list[CompileTrial] = []
    silence: Message = ""

    @property
    def imports(self) -> bool:
        return self.torch is not None and not self.torch_error

    @property
    def switch(self) -> str | None:
        """The environment variable that switches torch.compile off, if one does."""
        return next((name for name in SWITCHES if self.variables.get(name) == "1"), None)

    @property
    def switched_off(self) -> bool:
        return self.switch is not None or bool(self.disabled)

    @property
    def usable_gpu(self) -> bool:
        return bool(self.triton) and any(tuple(each.capability) >= (7, 0) for each in self.devices or ())


class Line(msgspec.Struct):
    """One line of the diagnosis. `mend` is a command or a setting; `fatal`: with this, compile cannot work at all."""

    check: Word
    status: Status
    found: Message
    mend: Message = ""
    fatal: bool = False
    group: Word = ""


class Diagnosis(msgspec.Struct):
    """What `dynalyze doctor --json` writes."""

    dynalyze: Word
    works: bool
    summary: Message
    lines: list[Line] = []
    facts: Facts = msgspec.field(default_factory=Facts)
    schema_version: int = 1
