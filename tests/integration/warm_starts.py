"""Starts of dynalyze and of its targets without their imports: processes that have imported what these need fork them.

The program is the real one, with its own command line, streams, environment, directory, supervisor and child; what is
spared is the start of two interpreters, and torch's import, which take more than all else in most tests. A sandbox is
the real one, around a fork. Servers live for each test run: one has imported the command line, one torch, one
transformers too, for programs that name it, and one what tests import, for the workers of pytest-xdist.
`DYNALYZE_TESTS_START=real` starts everything anew instead, as `make slow` does; so do tests that ask for it.

Processes that measure have caches and variables of torch's of their own, and so a server of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import re
import selectors
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fork_client import ADDRESS, ADOPTED, FORKED, asked, read_at_import

if TYPE_CHECKING:
    import pytest

SELF = Path(__file__).resolve()
CLIENT = str(SELF.with_name("fork_client.py"))
START_SECONDS = 600.0
TORCH = ("torch", "torch._dynamo.backends.inductor", "torch._dynamo.precompile_context", "torch._dynamo.testing",
         "torch._inductor.compile_fx", "torch._export.non_strict_utils", "torch._functorch.aot_autograd")  # fmt: skip
IMPORTS = {
    "command": ("dynalyze.cli.group", "dynalyze.launch.observe", "dynalyze.render.html", "dynalyze.render.terminal",
                "dynalyze.cli.explain", "dynalyze.cli.report"),
    "target": ("dynalyze.capture.child", "dynalyze.capture.in_place", "dynalyze.capture.module_tree"),
}  # fmt: skip
IMPORTS["transformers"] = (*IMPORTS["target"], "transformers.models.llama.modeling_llama",
                           "transformers.models.auto.modeling_auto", "transformers.generation.utils")  # fmt: skip
# What tests import, in processes of pytest-xdist. No plugin of pytest's: it could not rewrite that any more.
IMPORTS["worker"] = ("transformers.trainer", "accelerate", "bitsandbytes", "peft", "ray", "playwright.sync_api",
                     "torch.utils.tensorboard", "jsonschema", "libcst")  # fmt: skip
_HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
# What torch imports while it compiles the first program, and the first with inductor; each brings more.
IMPORTED_BY_THE_FIRST = (
    "torch._dynamo.dce_extra_outputs", "torch._export.db.logging", "torch._functorch._aot_autograd.subclass_codegen",
    "torch._higher_order_ops.passes.inline_invoke_subgraph", "torch._inductor.compiler_bisector",
    "torch._subclasses.schema_check_mode", "torch.distributed.tensor.experimental", "torch.export._trace",
    "torch.fx.experimental.validator", "sympy.combinatorics", "sympy.tensor.tensor", "sympy.physics.units",
    "torch.utils.cpp_extension", "torch._inductor.choices", "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.codegen.cpu_device_op_overrides", "torch._inductor.codegen.cuda.device_op_overrides",
    "torch._inductor.codegen.cuda_combined_scheduling", "torch._inductor.codegen.halide",
    "torch._inductor.codegen.mps_device_op_overrides", "torch._inductor.codegen.mtia.device_op_overrides",
    "torch._inductor.codegen.pallas", "torch._inductor.codegen.python_wrapper_mtia",
    "torch._inductor.codegen.wrapper_fxir", "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.extern_node_serializer", "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.fuse_attention", "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm", "torch._inductor.runtime.caching", "torch._inductor.hooks",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref", "torch._inductor.codegen.memory_planning",
    *(f"torch._inductor.fx_passes.serialized_patterns._sfdp_pattern_{number}" for number in range(1, 31)),
)  # fmt: skip
LOGS = {"TORCH_LOGS", "TORCH_TRACE"}
# What the processes that measure are started with, beside READ_AT_USE: launch/run.py NOTHING_REMEMBERED.
MEASURING = ("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO", "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO")
# What says that a program imports transformers first of all: not after it has changed what can be imported.
_IMPORTS_IT = re.compile(rb"^(?:from|import) transformers\b", re.MULTILINE)
# What lives in the user's process, and what brings Ray or pytest along.
_OF_THE_TARGET = {
    "capture", "child", "recording", "testing", "integrations", "auto", "pytest_plugin", "ray", "__main__",
}  # fmt: skip
# The folder of the servers that another process has started for this one.
SHARED = "DYNALYZE_TESTS_SERVERS"
# Runs this file so that its frames, which are below those of every fork, are of no file: reports do not show them.
WITHOUT_A_FILE = (
    "import sys; __file__ = sys.argv.pop(1); sys.path[0] = __file__.rpartition('/')[0]; "
    "exec(compile(open(__file__).read(), '<warm starts>', 'exec'))"
)


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a start with this environment beside ours may be a fork."""
    real = os.environ.get("DYNALYZE_TESTS_START") == "real" or not hasattr(os, "pidfd_open")
    return not real and not read_at_import(env).keys() - set(ADOPTED)


def run_dynalyze(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: str | None,
    seconds: float,
    *,
    measures: bool = False,
) -> tuple[int, str, str]:
    """Exit status and both streams of `python -m dynalyze ARGUMENTS`; `measures`: it starts processes that measure.

    Raises:
        subprocess.TimeoutExpired: it took longer; it is killed then.
    """
    request = {
        "argv": ["dynalyze", *arguments], "cwd": str(cwd),
        "env": {**os.environ, **env, ADDRESS: interpreters(measures, arguments, cwd, env)},
        "module": "dynalyze",
    }  # fmt: skip
    return _ran("command", request, stdin, seconds)


def run_script(
    script: Path, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float
) -> tuple[int, str, str]:
    """Exit status and both streams of `python SCRIPT ARGUMENTS`, whose torch is imported; its logs are set up anew."""
    environment = {**os.environ, **env}
    if not can_fork({name: value for name, value in env.items() if name not in LOGS}):
        ended = subprocess.run(
            [sys.executable, str(script), *arguments], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        return ended.returncode, ended.stdout, ended.stderr
    argv = [str(script), *arguments]
    request = {"argv": argv, "cwd": str(cwd), "env": environment, "path": argv[0]}
    return _ran(_with_torch([script.name, *arguments], script.parent, env), request, None, seconds)


def _ran(what: str, request: Mapping[str, Any], stdin: str | None, seconds: float) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((stdin or "").encode())
        given.seek(0)
        streams = given.fileno(), out.fileno(), err.fileno()
        if stdin is not None:
            status = asked(server(what), request, streams, seconds)
        else:
            with open(os.devnull, "rb") as nothing:  # noqa: PTH123
                status = asked(server(what), request, (nothing.fileno(), *streams[1:]), seconds)
        return status, *(_text(stream) for stream in (out, err))


def interpreters(
    measures: bool, arguments: Sequence[str] = (), cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """The value of ADDRESS: servers that have torch, each with variables of its own."""
    first = server(_with_torch(arguments, cwd, env or {}))
    return os.pathsep.join([first, *([server("measuring")] if measures else [])])


def _with_torch(arguments: Sequence[str], folder: Path | None, env: Mapping[str, str]) -> str:
    """The server for a target: that of transformers where one of the files that are named imports it anyway."""
    if "HF_HOME" in env or not _HAS_TRANSFORMERS:  # The variable is read while it is imported.
        return "target"
    names = {name for each in arguments for name in (each.partition(":")[0], f"{each}.py")}
    files = [path for name in names if folder and (path := folder / name).suffix == ".py" and path.is_file()]
    named = any(each.startswith("hf:") for each in arguments)
    return "transformers" if named or any(_IMPORTS_IT.search(each.read_bytes()) for each in files) else "target"


def forking(
    env: Mapping[str, str], *, measures: bool = False, program: Path | None = None
) -> tuple[str, dict[str, str]]:
    """What stands for the interpreter of a process with `env` beside our variables, and the variables that it needs.

    `program` is what it runs.
    """
    if not can_fork(env):
        return sys.executable, {}
    addresses = interpreters(measures, *((program.name,), program.parent) if program else ())
    return _stand_in(addresses), {ADDRESS: addresses}


def start_by_forks(here: pytest.MonkeyPatch, *, measures: bool = False) -> None:
    """Let this process start scripts of the target's side as forks, unless another interpreter is asked for."""
    python, variables = forking({}, measures=measures)
    here.setattr(sys, "executable", python)
    for name, value in variables.items():
        here.setenv(name, value)


def _stand_in(addresses: str) -> str:
    """What starts our scripts of the target's side as `python` does, as a fork, and all else as Python itself."""
    return str(Path(addresses.split(os.pathsep)[0]).with_name("python"))


def _text(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read().decode(errors="replace").replace("\r\n", "\n"))


_SERVERS: dict[str, str] = {}


def server(what: str) -> str:
    """The address of the server that all workers of pytest-xdist share, or of one of our own, and anew if it died."""
    address = _SERVERS.get(what) or (_address(os.environ[SHARED], what) if SHARED in os.environ else "")
    if not address or not _listens(address):
        if address:  # By the kernel, where memory ran out, or by what a test ran.
            print(f"the server for {what} ended", file=sys.stderr)
        address = _started(tempfile.TemporaryDirectory(prefix="warm-"), what)
        assert _listens(address), f"the server for {what} ended"
    _SERVERS[what] = address
    return address


def share_servers() -> None:
    """Start all servers for the processes that are started from now on; they need not wait for each other's imports."""
    folder = tempfile.TemporaryDirectory(prefix="warm-")
    os.environ[SHARED] = folder.name
    _started(folder, "command")
    _started(folder, "measuring")
    _started(folder, "target", "worker", *(["transformers"] if _HAS_TRANSFORMERS else []))


def forked_workers(config: pytest.Config) -> None:
    """Let pytest-xdist fork its workers off a process that has imported what tests import."""
    python = f"{sys.executable} -IS {CLIENT} worker {_address(os.environ[SHARED], 'worker')}"
    config.option.tx = [f"popen//python={python}" if each == "popen" else each for each in config.option.tx]


def _address(folder: str, what: str) -> str:
    return str(Path(folder, what, "socket"))


def _listens(address: str) -> bool:
    """Whether it still does, once it has begun to."""
    deadline = time.monotonic() + START_SECONDS
    while not Path(address).exists():
        if not Path(address).parent.exists() or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(address) == 0


def _started(folder: tempfile.TemporaryDirectory[str], *whats: str) -> str:
    """The address of the first of these servers; the others are forked off it, once it has imported torch."""
    addresses = [_address(folder.name, what) for what in whats]
    for address in addresses:
        Path(address).parent.mkdir()
    env = {**os.environ, **(dict.fromkeys(MEASURING, "0") if whats[0] == "measuring" else {})}
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_A_FILE, str(SELF), "serve", *addresses],
        stdin=subprocess.PIPE,
        env=env,
        cwd=os.sep,
    )
    atexit.register(_end, process, folder)
    return addresses[0]


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    process.kill()
    process.wait()
    folder.cleanup()


def start_dynalyze(
    arguments: Sequence[str], env: Mapping[str, str], *, measures: bool = False
) -> tuple[list[str], dict[str, str]]:
    """A command line, and the variables it needs, that is `python -m dynalyze ARGUMENTS`: signals reach the fork."""
    if not can_fork(env):
        return [sys.executable, "-m", "dynalyze", *arguments], {}
    command = [sys.executable, "-IS", CLIENT, "command", server("command"), *arguments]
    return command, {ADDRESS: interpreters(measures, arguments)}


def be_worker(executable: str, argv: list[str]) -> None:
    """A worker of a sweep, whose own targets are forks too: it is told of another interpreter than its own."""
    import runpy

    sys.executable, sys.argv = executable, argv
    sys.path[0] = str(Path(argv[0]).parent)
    runpy.run_path(argv[0], run_name="__main__")


@dataclass
class Job:
    """A forked process, and whoever asked for it."""

    connection: socket.socket
    pid: int
    handle: int = field(default=-1)


def serve(address: str, *others: str) -> None:
    """Import what is needed, then fork whoever asks, until our standard input ends.

    The servers at the other addresses are forks of this one.
    """
    del sys.path[0]
    gc.disable()  # What is imported stays.
    seen = json.dumps(read_at_import(os.environ), sort_keys=True)
    what = Path(address).parent.name
    waited_for = [address, *others]
    try:
        if what != "command":
            _import_torch()
        for other in others:
            if os.fork() == 0:
                address, what = other, Path(other).parent.name
                break
        waited_for = [address]
        if what == "transformers":
            os.environ["HF_HUB_OFFLINE"] = "1"
        if what in ("transformers", "worker"):
            _import_quietly(IMPORTS[what])
        else:
            for name in IMPORTS["target" if what == "measuring" else what]:
                importlib.import_module(name)
        if what == "command":
            _import_all_of_the_parent()
    except BaseException:
        for each in waited_for:
            shutil.rmtree(Path(each).parent)  # Nobody waits for us then.
        raise
    Path(address).with_name("environment").write_text(seen)
    gc.freeze()  # A collection in a fork would copy the pages of all that is imported.
    gc.enable()
    stand_in = Path(address).with_name("python")
    script = f"{SELF.parents[2]}/*/capture/start.py"
    forked = "|".join([*(f"{script}:{what}" for what in FORKED), f"{SELF.parents[2]}/*/launch/sandbox_init.py"])
    command = Path(address).parents[1] / "command/socket"
    stand_in.write_text(
        '#!/bin/sh\ncase "$1:$2" in -I:-S) script="$3";; *) script="$1:$2";; esac\n'
        f'case "$script" in {forked}) exec {sys.executable} -IS {CLIENT} target "$@";;'
        f" -c:*dynalyze.__main__*) [ ! -S {command} ] || {{ shift 2;"  # What `dynalyze mcp` runs.
        f' exec {sys.executable} -IS {CLIENT} command {command} "$@"; }}; exec {sys.executable} "$@";;'
        f' {SELF.parents[2]}/*/sweep/worker.py:*) exec {sys.executable} {SELF} worker "$0" "$@";;'
        f' *) exec {sys.executable} "$@";; esac\n'
    )
    stand_in.chmod(0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address + ".new")
    listener.listen(16)
    Path(address + ".new").rename(address)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    _fork(listener, selector)
                elif key.fileobj == 0:
                    os._exit(0)
                elif isinstance(key.data, Job):
                    _attend(key, selector)


def _import_quietly(names: Sequence[str]) -> None:
    """Import what is installed of these; torchao warns while it is imported."""
    ours = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    os.dup2(ours, 2)
    if "anyio" in sys.modules:  # It has a plugin for pytest, which wants to rewrite it.
        sys.modules["anyio"].__doc__ = "PYTEST_DONT_REWRITE"


def _import_torch() -> None:
    for name in TORCH:
        importlib.import_module(name)
    sys.modules["torch._dynamo"].list_backends(exclude_tags=None)  # Imports them all.
    for name in IMPORTED_BY_THE_FIRST:
        with contextlib.suppress(ImportError):  # Of another version of torch.
            importlib.import_module(name)
    with contextlib.suppress(AttributeError):  # Tables that the first compile would make, the same in each process.
        sys.modules["torch._dynamo.variables.torch"].get_overridable_functions()
        sys.modules["torch._dynamo.trace_rules"].get_tensor_method()
    spare_guard_profiles()


def _import_all_of_the_parent() -> None:
    """What commands import when they need it takes more than the rest of a short run."""
    root = SELF.parents[2] / "analyzer"
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if not _OF_THE_TARGET.intersection(parts):
            with contextlib.suppress(ImportError):  # Of an extra that is not installed.
                importlib.import_module(".".join(parts).removesuffix(".__init__"))
    assert "torch" not in sys.modules
    _render_once()


def _render_once() -> None:
    """Read recipes, compile templates, regular expressions and the like, as the first report of a process does."""
    sys.path.insert(0, str(SELF.parents[1] / "unit"))
    from dynalyze.facts import registry
    from dynalyze.facts.sources import Sources
    from dynalyze.privacy import showable
    from dynalyze.render import html, terminal
    from sample_reports import rich_report

    found = importlib.util.find_spec("torch")
    registry.registry(str(Path(found.origin).parent) if found and found.origin else "")
    Sources().last_line(str(SELF), _render_once.__code__.co_firstlineno)
    report = showable(rich_report(), no_source=False, redact=False, show_values=False)
    terminal.render(report)
    html.render(report)
    del sys.path[0]


def spare_guard_profiles() -> None:
    """Let torch not flush the processor's caches after each compile, to time the new guards once; nothing reads it."""
    guards = sys.modules.get("torch._dynamo.guards")
    if guards is not None and hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0  # type: ignore[attr-defined]


def _fork(listener: socket.socket, selector: selectors.BaseSelector) -> None:
    connection, _ = listener.accept()
    streams: list[int] = []
    data = b""
    with contextlib.suppress(OSError):  # Whoever asked was killed meanwhile.
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        while not data.endswith(b"\n") and (more := connection.recv(1 << 16)):
            data += more
    if not data.endswith(b"\n"):
        for handle in (*streams, connection.detach()):
            os.close(handle)
        return
    pid = os.fork()
    if pid == 0:
        for key in list(selector.get_map().values()):
            os.close(key.fd)
        selector.close()
        connection.close()
        become(json.loads(data), streams)
    for stream in streams:
        os.close(stream)
    job = Job(connection, pid, os.pidfd_open(pid))
    selector.register(job.handle, selectors.EVENT_READ, job)
    selector.register(connection, selectors.EVENT_READ, job)


def _attend(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    job = key.data
    if key.fileobj is job.connection:
        orders = b""
        with contextlib.suppress(OSError):
            orders = job.connection.recv(16)
        if orders:
            for number in orders:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(job.pid, number)
            return
        selector.unregister(job.connection)  # Killed, or tired of waiting.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(job.pid, signal.SIGKILL)
        return
    selector.unregister(job.handle)
    os.close(job.handle)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(job.pid, signal.SIGKILL)
    _, status = os.waitpid(job.pid, 0)
    with contextlib.suppress(KeyError):
        selector.unregister(job.connection)
    with contextlib.suppress(OSError):
        job.connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    job.connection.close()


def become(request: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """The forked process: its streams, directory, environment and arguments, and then the program to its end."""
    import runpy

    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        if stream > 2:
            os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    sys.argv = request["argv"]
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=-1 if number < 2 else 1, closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    try:
        if "module" in request:
            sys.executable = _stand_in(os.environ[ADDRESS])
            sys.path.insert(0, request["cwd"])
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        elif "code" in request:
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(request["code"], vars(sys.modules["__main__"]))
        else:
            _adopt(request["env"])
            sys.path.insert(0, str(Path(request["path"]).parent))
            if request.get("sandbox"):
                _enter_sandbox(*request["sandbox"], request["path"])
            runpy.run_path(request["path"], run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        leave(end.code or 0)
    leave(0)


def _enter_sandbox(init: str, spec: str, path: str) -> NoReturn:
    """Be `python -I -S INIT SPEC`, whose last process runs this script where it would execute it."""
    import runpy
    import traceback

    execute = os.execvp

    def instead(*_: object) -> NoReturn:
        os.execvp = execute
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            leave(end.code if isinstance(end.code, int) else int(end.code is not None))
        except BaseException:
            traceback.print_exc()
            leave(1)
        leave(0)

    os.execvp = instead
    leave(runpy.run_path(init)["main"](spec))


def _adopt(env: Mapping[str, str]) -> None:
    """Let torch, which is imported, have the variables that it would have read by now."""
    threads = env.get("OMP_NUM_THREADS") or env.get("MKL_NUM_THREADS")
    if threads:
        sys.modules["torch"].set_num_threads(int(threads))
    if LOGS & env.keys():
        logs = sys.modules["torch._logging._internal"]
        logs.LOG_TRACE_HANDLER = None  # type: ignore[attr-defined]
        logs._init_logs()  # type: ignore[attr-defined]
    if compiling := env.get("TORCHINDUCTOR_COMPILE_THREADS"):
        sys.modules["torch._inductor.config"].compile_threads = int(compiling)  # type: ignore[attr-defined]


def leave(status: int) -> NoReturn:
    """End as Python does, but for taking all modules apart, which costs more than most programs of the tests."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # Closed, or none.
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        be_worker(sys.argv[2], sys.argv[3:])
