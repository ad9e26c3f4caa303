"""What a program does to the world outside of its process: noted while it runs, refused where its calls are made again.

Python raises an audit event before it opens, removes, connects or starts anything (PEP 578); the hook sees it in time.
Who asks decides, not the name of a file: torch may write its caches and start its compilers, and the program may not,
though both call the same function. Code that is not Python's raises no events; `containment` has the kernel refuse it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal
from urllib.parse import unquote

from dynalyze.capture.hooks import Patch, after_import
from dynalyze.capture.installed import is_installed, is_torchs, torch_folder

HINT = "`--allow-effects` repeats that"
_OURS = os.path.join(Path(__file__).resolve().parents[1], "")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOWHERE = re.compile(r"/dev/(null|zero|full|stdin|stdout|stderr|fd/[012])|/proc/(self|thread-self)/(\w+|fd/[012])")
_COMPILERS = ("_dynamo", "_inductor", "_functorch", "_higher_order_ops", "fx", "utils/cpp_extension.py",
              "utils/file_baton.py", "utils/_triton.py")  # fmt: skip
"""Parts of torch that keep caches and start compilers, for themselves."""

_PASSES_ON = ("_dynamo/eval_frame.py", "_dynamo/external_utils.py")
"""Parts of Dynamo that call the program's own functions."""

_TOOLS = re.compile(r"[\\/](?:site|dist)-packages[\\/](filelock|setuptools|packaging|ninja)[\\/]")
"""Packages that torch's compilers have write for them."""

_OF_PYTHON = tuple(
    os.path.join(os.sep, *parts)
    for parts in (("platform.py",), ("uuid.py",), ("ctypes", "util.py"), ("multiprocessing", "resource_tracker.py"))
)
"""Parts of Python that start a process to read what the machine is (`uname`, `ldconfig`), as packages do at import, or
to clear up behind this one, as a lock of tqdm's does where processes are spawned.
"""

_TRITON = re.compile(r"[\\/](?:site|dist)-packages[\\/]triton[\\/]")
_BYTECODE = frozenset({"set_data", "_cache_bytecode"})
"""Of Python's import system: what keeps compiled modules in `__pycache__`."""

_NO_PLACES = ("/dev/", "/proc/", "anon_inode:", "/memfd:")
_MOST_NOTED, _MOST_LOGGED = 200, 10_000
_REST_OF = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
"""What Dynamo calls the rest of a function after a graph break."""

FrameKind = Literal["passes_on", "compiler", "library", "program"]
"""What a `compiler` asks for is let through."""
Target = Callable[[tuple[Any, ...]], "str | tuple[str, ...] | None"]
"""What an audit event is about, from its arguments; None where it changes nothing outside."""


@dataclass(frozen=True)
class SideEffect:
    """One thing that was done to the outside, `what` ("opens", "connects to", ...) and to what, and the line of the
    program that did it; `file` is empty where no line is known.
    """

    what: str
    target: str
    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        """In one line for people: `note` (m.py:6) opens rows.db."""
        target = self.target
        with contextlib.suppress(OSError):  # The working folder may be gone.
            target = os.path.relpath(target) if _is_below(target, os.getcwd()) else target
        place = f"{os.path.basename(self.file)}:{self.line}"
        who = f"`{self.function}` ({place})" if self.function.isidentifier() else place if self.file else "its code"
        return f"{who} {self.what} {target}"


class EffectOfPackage(SideEffect):
    """One that an installed package asked for as it was imported, or in a thread of its own."""


class Refused(BaseException):
    """A side effect that was refused before it happened. No Exception: what the program does about its own errors must
    not catch it.
    """

    def __init__(self, effect: SideEffect) -> None:
        super().__init__(str(effect))
        self.effect = effect


class EffectsWatch:
    """What this process has done to the outside. With `refuses` nothing of it happens: Refused is raised in its place.

    `own` are folders that it may write to. Each kind of effect of each line is passed to `tell` once.
    """

    def __init__(
        self, own: Sequence[str | Path], *, refuses: bool, tell: Callable[[SideEffect], None] = lambda _: None
    ) -> None:  # fmt: skip
        self.own = [os.path.realpath(each) for each in own]
        self.refuses = refuses
        self.offline = False
        """Whether a package that asks for the network as it is imported is told that there is none, as for its
        newest version: it goes on without, and no call of the model is concerned.
        """
        # Not by tempfile.gettempdir(): it holds a lock while it tries a folder, and remembers what it finds.
        self._temporary = next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), "/tmp")
        self.count = 0
        """How many there were."""
        self._log: list[SideEffect] = []
        self.seen: dict[SideEffect, None] = {}
        self._tell = tell
        self._kinds: dict[str, FrameKind] = {}
        self._busy = threading.local()

    @property
    def first(self) -> SideEffect | None:
        return next(iter(self.seen), None)

    def since(self, count: int) -> SideEffect | None:
        """The first of the effects that came after there were so many; None where none did."""
        return self._log[min(count, len(self._log) - 1)] if self.count > count else None

    @property
    def holds_open(self) -> bool:
        """Whether a file, a named pipe or a socket of the outside is open for writing: what is written to it is no
        event of Python's. True where nobody can tell.
        """
        try:
            names = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]
        except OSError:
            return True
        return any(self._leads_outside(int(name)) for name in names)

    def _leads_outside(self, descriptor: int) -> bool:
        import fcntl  # Not on Windows, where the command line is read all the same.

        try:
            flags, path = fcntl.fcntl(descriptor, fcntl.F_GETFL), os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return False
        if not flags & (os.O_WRONLY | os.O_RDWR):
            return False
        if path.startswith("pipe:"):  # Torch has pipes of its own; a process that the program started may read this.
            return any(each.what == "starts" for each in self.seen)
        if path.startswith(_NO_PLACES):
            return False
        return not any(_is_below(path, each) for each in self.own)

    def meet(self, event: str, given: tuple[Any, ...], frame: FrameType | None) -> None:
        """An audit event of this process."""
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            try:
                effect = self._effect_of(event, given, frame)
            except Exception:  # Our fault: it must not become the program's. What is not understood is refused.
                effect = SideEffect("does", event) if self.refuses else None
            if effect is None:
                return
            if self.offline and isinstance(effect, EffectOfPackage) and effect.what in ("looks up", "connects to"):
                raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
            self.count += 1
            if len(self._log) < _MOST_LOGGED:
                self._log.append(effect)
            if effect not in self.seen and len(self.seen) < _MOST_NOTED:
                self.seen[effect] = None
                self._tell(effect)
        finally:
            self._busy.now = False
        if self.refuses:
            raise Refused(effect)

    def _effect_of(self, event: str, given: tuple[Any, ...], frame: FrameType | None) -> SideEffect | None:
        what, target_of = _EVENTS[event]
        found = target_of(given)
        follow = event in ("open", "sqlite3.connect")
        for target in (found,) if isinstance(found, str) else found or ():
            if not (_NOWHERE.fullmatch(target) or (target.startswith("/") and self._is_own(target, follow=follow))):
                return self._asked_by(frame, what, target)
        return None

    def _is_own(self, path: str, *, follow: bool) -> bool:
        """Whether a path is in a folder of ours; a link itself is removed or renamed, what it leads to is opened."""
        folder, name = os.path.split(path)
        real = os.path.realpath(path) if follow else os.path.join(os.path.realpath(folder), name)
        return any(_is_below(real, each) for each in self.own)

    def _asked_by(self, frame: FrameType | None, what: str, target: str) -> SideEffect | None:
        """The effect with the line that asked for it; None where torch's compiler did, or Python for its own."""
        asker: FrameType | None = None
        temporary = imported = False
        while frame is not None:
            code = frame.f_code
            kind = self._kinds.get(code.co_filename)
            if kind is None:
                kind = self._kinds[code.co_filename] = _kind_of(code.co_filename)
            if asker is None:
                if kind == "compiler" or (code.co_name in _BYTECODE and code.co_filename.startswith("<frozen imp")):
                    return None
                if what == "listens on" and _asks_for_ipv6(code):
                    return None
                temporary = temporary or _is_tempfile(code)
            imported = imported or (asker is not None and code.co_filename.startswith("<frozen importlib"))
            if kind == "program" or (kind == "library" and asker is None):
                asker = frame
            if kind == "program":
                break
            frame = frame.f_back
        if temporary and _is_below(os.path.realpath(target), os.path.realpath(tempfile.tempdir or self._temporary)):
            return None
        if asker is None:
            return SideEffect(what, target)
        name = _REST_OF.sub(r"\1", asker.f_code.co_name)
        own_thread = threading.current_thread() is not threading.main_thread()
        of_package = imported or (own_thread and self._kinds[asker.f_code.co_filename] == "library")
        made = EffectOfPackage if of_package else SideEffect
        return made(what, target, asker.f_code.co_filename, asker.f_lineno, name)


_watch: EffectsWatch | None = None
_installed = False
_change_callback: Callable[[Any], Any] | None = None
"""torch's: what Dynamo does with each new frame of this thread. Ours are no part of what it compiles."""


def _hook(event: str, given: tuple[Any, ...]) -> None:
    watch = _watch
    if watch is None or event not in _EVENTS:
        return
    frame = sys._getframe().f_back  # None where a thread begins with a function of C.
    if _change_callback is None:
        watch.meet(event, given, frame)
        return
    before = _change_callback(None)
    try:
        watch.meet(event, given, frame)
    finally:
        _change_callback(before)


def watch(
    own: Sequence[str | Path], *, refuses: bool, tell: Callable[[SideEffect], None] = lambda _: None
) -> EffectsWatch:  # fmt: skip
    """See from here on what this process does to the outside, or refuse it; see Watch. The hook stays for ever."""
    global _watch, _installed
    _watch = EffectsWatch(own, refuses=refuses, tell=tell)
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)
        after_import("torch._dynamo.eval_frame", lambda _: _stay_out_of_dynamo())
    if refuses:
        _watch_native()
    return _watch


@contextlib.contextmanager
def refused(own: Sequence[str | Path] = ()) -> Iterator[EffectsWatch]:
    """Nothing that is called inside does anything to the outside; what there was before is watched again afterwards."""
    global _watch
    before = _watch
    try:
        yield watch(own, refuses=True)
    finally:
        _watch = before


def _stay_out_of_dynamo() -> None:
    global _change_callback
    from dynalyze.capture.torch_private import compiled_code

    compiled_code.leave_in_eager(_hook.__code__)
    _change_callback = compiled_code.frame_callback_setter()


def _check(event: str, *given: Any) -> None:
    """Handle a call that raises no audit event as if it raised one."""
    _hook(event, given)


def _watch_native() -> None:
    """Functions that write without an audit event: a few of Python's, and torch's and safetensors' writers of files."""

    def around(module: Any, name: str, event: str) -> None:
        if (original := getattr(module, name, None)) is None or hasattr(original, "_dynalyze_patch"):
            return
        patch = Patch(module, name)

        def checked(*args: Any, **kwargs: Any) -> Any:
            _check(event, *args, *kwargs.values())
            return patch.original(*args, **kwargs)

        patch.put(checked)

    def writers(torch: Any) -> None:
        from dynalyze.capture.torch_private import runtime

        for owner, name in runtime.file_writers(torch):
            around(owner, name, "dynalyze.written")

    for name, function, event in (
        ("os", "mkfifo", "dynalyze.made"), ("os", "mknod", "dynalyze.made"),
        *(("os", f"sched_set{name}", "dynalyze.scheduled") for name in ("affinity", "scheduler", "param")),
        ("os", "setpriority", "dynalyze.prioritized"), ("signal", "pidfd_send_signal", "dynalyze.signalled"),
        ("_posixsubprocess", "fork_exec", "dynalyze.started"), ("_posixshmem", "shm_open", "dynalyze.shared"),
    ):  # fmt: skip
        with contextlib.suppress(ImportError):
            around(importlib.import_module(name), function, event)
    after_import("torch", writers)
    after_import("safetensors.torch", lambda module: around(module, "serialize_file", "dynalyze.serialized"))


def _kind_of(file: str) -> FrameKind:
    if file.startswith(("<frozen ", "<eval_with_key>", _OURS)) or "torchinductor_" in file:
        return "passes_on"
    if (caches := os.environ.get("TORCHINDUCTOR_CACHE_DIR")) and _is_below(file, os.path.abspath(caches)):
        return "passes_on"
    if is_torchs(file):
        part = file[len(torch_folder()) :].replace(os.sep, "/")
        return "compiler" if part.startswith(_COMPILERS) and not part.startswith(_PASSES_ON) else "passes_on"
    if _TRITON.search(file):
        return "compiler"
    if _TOOLS.search(file):
        return "passes_on"
    if not is_installed(file):
        return "program"
    if "-packages" in file:
        return "library"
    return "compiler" if file.endswith(_OF_PYTHON) else "passes_on"


def _is_tempfile(code: CodeType) -> bool:
    return os.path.basename(code.co_filename) in ("tempfile.py", "weakref.py") and is_installed(code.co_filename)


def _asks_for_ipv6(code: CodeType) -> bool:
    """Whether it is urllib3, which binds a port of its own for a moment as it is imported (`import requests`)."""
    return code.co_name == "_has_ipv6" and "urllib3" in code.co_filename and is_installed(code.co_filename)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _path(value: Any, folder: Any = None) -> str | None:
    """An absolute path; None for a descriptor that is open already."""
    if isinstance(value, int) or value is None:
        return None
    with contextlib.suppress(TypeError, ValueError):
        path = os.fsdecode(value)
        base = os.readlink(f"/proc/self/fd/{folder}") if isinstance(folder, int) and folder >= 0 else os.getcwd()
        return os.path.normpath(os.path.join(base, path)) if path else None
    return str(value)


def _opened(given: tuple[Any, ...]) -> str | None:
    path, mode, flags = given
    writes = bool(set(mode) & set("wax+")) if isinstance(mode, str) else False
    return _path(path) if writes or (isinstance(flags, int) and flags & _WRITES) else None


def _existing(path: Any, folder: Any = None) -> str | None:
    """Absolute path of something that exists, else None: an operation on nothing fails by itself."""
    found = _path(path, folder)
    return found if found is not None and os.path.lexists(found) else None


def _new(path: Any, folder: Any = None) -> str | None:
    """Absolute path where nothing exists yet, else None: what exists stays as it is."""
    found = _path(path, folder)
    return None if found is None or os.path.lexists(found) else found


def _both(given: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Old and new path of something that exists."""
    source, made = _existing(given[0], given[2]), _path(given[1], given[3])
    return None if source is None or made is None else (source, made)


def _changed(given: tuple[Any, ...], folder: Any = None) -> str | None:
    """Path of an existing file, given by path or descriptor."""
    if isinstance(given[0], int):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{given[0]}")
        return f"descriptor {given[0]}"
    return _existing(given[0], folder)


def _changed_below(given: tuple[Any, ...]) -> str | None:
    return _changed(given, given[-1])


def _address(given: tuple[Any, ...]) -> str | None:
    address = given[1] if len(given) > 1 else given[0]
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return os.fsdecode(address) if isinstance(address, (str, bytes)) else str(address)


def _host(given: tuple[Any, ...]) -> str | None:
    host = given[0]
    numeric = host is None or re.fullmatch(r"[\d.]+|[0-9a-fA-F:]*:[0-9a-fA-F:]*", os.fsdecode(host))
    return None if numeric else os.fsdecode(host)


def _database(given: tuple[Any, ...]) -> str | None:
    name = os.fsdecode(given[0]) if isinstance(given[0], (str, bytes, os.PathLike)) else str(given[0])
    if name in ("", ":memory:") or re.match(r"file:.*[?&]mode=(ro|memory)", name):
        return None
    return _path(unquote(name.removeprefix("file:").partition("?")[0]) if name.startswith("file:") else name)


def _other_process(process: int) -> str | None:
    """Name of another process; None for this one and its threads."""
    return None if process in (0, os.getpid()) or os.path.exists(f"/proc/self/task/{process}") else f"process {process}"


def _signalled(given: tuple[Any, ...]) -> str | None:
    if given[0] == os.getpid() or given[1] == 0:
        return None
    return f"process {given[0]}" if given[0] > 0 else "a group of processes"


def _first(given: tuple[Any, ...]) -> str | None:
    value = given[0]
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    return os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)


def _new_mapping(given: tuple[Any, ...]) -> str | None:
    return str(given[0]) if given[1] & os.O_CREAT else None


_EVENTS: dict[str, tuple[str, Target]] = {
    "open": ("opens", _opened),
    "os.remove": ("removes", lambda given: _existing(*given[:2])),
    "os.rmdir": ("removes", lambda given: _existing(*given[:2])),
    "os.rename": ("renames", _both),
    "os.link": ("links", _both),
    "os.symlink": ("links", lambda given: _path(given[1], given[2])),
    "os.mkdir": ("makes", lambda given: _new(given[0], given[2])),
    "os.truncate": ("truncates", _changed),
    "os.chmod": ("changes the mode of", _changed_below),
    "os.chown": ("changes the owner of", _changed_below),
    "os.chflags": ("changes the flags of", _changed),
    "os.utime": ("changes the times of", _changed_below),
    "os.setxattr": ("changes the attributes of", _changed),
    "os.removexattr": ("changes the attributes of", _changed),
    "sqlite3.connect": ("opens", _database),
    "dbm.open": ("opens", lambda given: _path(given[0])),
    "socket.connect": ("connects to", _address),
    "socket.bind": ("listens on", _address),
    "socket.sendto": ("sends to", _address),
    "socket.sendmsg": ("sends to", _address),
    "socket.getaddrinfo": ("looks up", _host),
    "socket.gethostbyname": ("looks up", _host),
    "socket.gethostbyaddr": ("looks up", _host),
    "socket.sethostname": ("sets the host name", _first),
    "subprocess.Popen": ("starts", _first),
    "os.system": ("starts", _first),
    "os.exec": ("starts", _first),
    "os.spawn": ("starts", lambda given: str(given[1])),
    "os.posix_spawn": ("starts", _first),
    "os.startfile": ("starts", _first),
    "pty.spawn": ("starts", _first),
    "os.fork": ("starts", lambda _: "a process"),
    "os.forkpty": ("starts", lambda _: "a process"),
    "os.kill": ("sends a signal to", _signalled),
    "os.killpg": ("sends a signal to", lambda given: "a group of processes" if given[1] else None),
    "resource.prlimit": ("changes the limits of", lambda given: _other_process(given[0]) if given[2] else None),
    "syslog.syslog": ("writes to", lambda _: "the system's log"),
    "dynalyze.written": ("writes", lambda given: _path(given[0]) if isinstance(given[0], (str, bytes)) else None),
    "dynalyze.serialized": ("writes", lambda given: _path(given[1])),
    "dynalyze.made": ("makes", lambda given: _path(given[0])),
    "dynalyze.scheduled": ("schedules", lambda given: _other_process(given[0])),
    "dynalyze.prioritized": ("schedules", lambda given: _other_process(given[1])),
    "dynalyze.signalled": ("sends a signal to", lambda given: "a process" if given[1] else None),
    "dynalyze.started": ("starts", _first),
    "dynalyze.shared": ("makes", _new_mapping),
}
