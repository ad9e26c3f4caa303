"""What stands for `python` in a command line: it asks a server of warm_starts for a fork, and ends as that does.

`fork_client.py target SCRIPT ARGUMENTS`, `fork_client.py command SERVER ARGUMENTS`, and `fork_client.py worker SERVER
-u -c CODE`, which is a worker of pytest-xdist. It is started for each process that is forked, so it imports next to
nothing: no pathlib, no subprocess.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# What start.py can be asked for that is a fork here.
FORKED = ("explain", "measure", "warmup", "serve", "fork-measures", "inquire")
# Read while a module is imported, or of the interpreter itself.
READ_AT_IMPORT = ("TORCH", "INDUCTOR", "PYTHON", "OMP_", "MKL_", "CUDA", "LD_", "TRITON", "NUMEXPR")
READ_AT_USE = {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"}
# Read while a module is imported, but a fork can still be told of them: `_adopt`.
ADOPTED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")
# Set in the command: the addresses of the servers that stand for interpreters.
ADDRESS = "DYNALYZE_TESTS_TARGETS"
# Set in the command: a part of the request of a target that is started anew, as one whose memory is watched from above.
ANEW = "DYNALYZE_TESTS_ANEW"


def asked(address: str, request: Mapping[str, Any], streams: Sequence[int], seconds: float | None) -> int:
    """The exit status of a forked process, as subprocess has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\n"], list(streams))
        connection.sendall(json.dumps(request).encode() + b"\n")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGURG):
            if seconds is None:  # We stand for the target, and pass on what it is sent.
                signal.signal(number, lambda number, frame: connection.sendall(bytes([number])))
        connection.settimeout(seconds)
        try:
            answer = connection.recv(64)
        except TimeoutError:
            import subprocess

            raise subprocess.TimeoutExpired(list(request["argv"]), seconds or 0) from None
        assert answer, "the server ended"
        return int(answer)


def stand_for_command(address: str, arguments: Sequence[str]) -> NoReturn:
    """Be `python -m dynalyze ARGUMENTS` for whoever started us, by a fork of the server."""
    argv = ["dynalyze", *arguments]
    _be(address, {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ), "module": "dynalyze"})  # noqa: PTH109


def stand_for_interpreter(given: list[str]) -> NoReturn:
    """Be `python SCRIPT ARGUMENTS` by a fork of a server.

    It becomes the interpreter itself where the environment has something that no server's imports saw.
    """
    addresses = os.environ.pop(ADDRESS, "").split(os.pathsep)
    anew = os.environ.pop(ANEW, "")
    argv = given
    sandbox: list[str] = []  # sandbox_init.py and what it is told.
    if argv[0] == "-I":
        sandbox = argv[2:]
        argv = json.loads(_text_of(sandbox[1]))["argv"][1:]
    what = argv[1] if len(argv) > 1 else ""
    if what not in FORKED or (anew and what == "explain" and anew in _text_of(f"{argv[2]}/request.json")):
        addresses = []
    seen = read_at_import(os.environ)
    adopted = {name: value for name, value in seen.items() if name in ADOPTED}
    for address in filter(None, addresses):
        if {**json.loads(_text_of(f"{os.path.dirname(address)}/environment")), **adopted} == seen:  # noqa: PTH120
            with contextlib.suppress(ConnectionRefusedError):  # It died: whoever asks next for it starts another.
                _be(address, {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ), "path": argv[0],  # noqa: PTH109
                              "sandbox": sandbox})  # fmt: skip
    os.execv(sys.executable, [sys.executable, *given])


def stand_for_worker(address: str, arguments: Sequence[str]) -> NoReturn:
    """Be `python -u -c CODE` by a fork of a server that may still have to import what it forks; by itself without."""
    deadline = time.monotonic() + 300
    while not os.path.exists(address) and time.monotonic() < deadline:  # noqa: PTH110
        if not os.path.exists(os.path.dirname(address)):  # noqa: PTH110, PTH120
            break
        time.sleep(0.02)
    if not os.path.exists(address):  # noqa: PTH110
        os.execv(sys.executable, [sys.executable, *arguments])
    code = arguments[-1]
    _be(address, {"argv": ["-c"], "cwd": os.getcwd(), "env": dict(os.environ), "code": code})  # noqa: PTH109


def _be(address: str, request: Mapping[str, Any]) -> NoReturn:
    """Wait for the fork, pass signals on to it, and end as it does."""
    status = asked(address, request, (0, 1, 2), None)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
        time.sleep(60)
    os._exit(status)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def read_at_import(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_IMPORT) and name not in READ_AT_USE}


if __name__ == "__main__":
    if sys.argv[1] == "command":
        stand_for_command(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "worker":
        stand_for_worker(sys.argv[2], sys.argv[3:])
    else:
        stand_for_interpreter(sys.argv[2:])
