"""A worker that measures nothing: it speaks the protocol of `capture.bench.protocol` as its request tells it to.

`source["acts"]` maps a configuration's name, or "*", to what it does on an order: {"order": ACT}. ACT is a dict (fields
of the answer), "die" (SIGKILL), "leave" (exit status 7), "hang", "child" (start a process that outlives it), or
"error KIND MESSAGE". An order may be written as "order@N": from the N-th process of that configuration on, or as
"order=N": in that one alone. Every order is noted in `source["log"]`, when it begins and when it is answered; of a
program also which calls it is to make.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

# A benchmark starts a score of it, so it imports little.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLAIN: dict[str, dict[str, Any]] = {
    "load": {"device": "cpu", "calls": 1, "import_seconds": 1.0, "load_seconds": 0.5, "threads": 2},
    "warm": {"calls_ms": [9.0, 2.0, 2.0], "steady_after": 1, "counts": {"compiled_frames": 1}, "phases": {}},
    "record": {"calls_ms": [9.0, 2.0, 2.0], "torch_folder": ""},
    "check": {"counts": {}, "recompiles_while_timing": 0, "cudagraph_replays": None, "invalid": ""},
    "memory": {"kind": "rss", "steady_peak": 1000, "compile_peak": 3000, "reserved_peak": None},
    "accuracy": {"verdict": "equal", "anchored": True},
}


def main(folder: str) -> None:
    with open(f"{folder}/request.json") as file:  # noqa: PTH123
        request = json.load(file)
    source, name = request["source"], request["configuration"]["name"]
    number = process_number(source["log"], name)
    acts = acts_of(source.get("acts", {}), name, number)
    if source.get("kind") == "program":
        note(source["log"], "made", name, number, json.dumps(source["made"]))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{folder}/bench.socket")
    while True:
        order = json.loads(_received(connection))
        if order["do"] == "end":
            _send(connection, b'{"ok": true}')
            os._exit(0)
        note(source["log"], "begin", name, number, order["do"])
        made = answer(acts.get(order["do"], {}), order["do"], request)
        note(source["log"], "end", name, number, order["do"])
        _send(connection, json.dumps(made).encode())


# As multiprocessing.connection has it, whose import takes longer than all else here: a length, and as many bytes.
def _received(connection: socket.socket) -> bytes:
    length = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(4, "big") + message)


def answer(act: Any, order: str, request: dict[str, Any]) -> dict[str, Any]:
    if act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "leave":
        os._exit(7)
    if act == "hang":
        time.sleep(600)
    if act == "child":
        import subprocess

        argument = request["source"]["log"]  # by which a test finds it again
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", argument], start_new_session=True)
        act = {}
    if isinstance(act, str):
        _, kind, message = act.split(" ", 2)
        return {"ok": False, "error": {"kind": kind, "message": message}}
    if order == "block":
        return {
            "ok": True,
            "samples_ms": [request["source"].get("ms", {}).get(request["configuration"]["name"], 2.0)] * 4,
        }
    return {"ok": True, **PLAIN.get(order, {}), **act}


def acts_of(acts: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    found = {}
    for written, act in {**acts.get("*", {}), **acts.get(name, {})}.items():
        order, sign, numbers = written.partition("=" if "=" in written else "@")
        if number == int(numbers or number) or (sign == "@" and number > int(numbers)):
            found[order] = act
    return found


def process_number(log: str, name: str) -> int:
    """Which process of this configuration this one is, counted from 1."""
    with open(f"{log}.{name}".replace("=", "-"), "a") as file:  # noqa: PTH123
        file.write("x")
        return file.tell()


def note(log: str, *words: object) -> None:
    with open(log, "a") as file:  # noqa: PTH123
        file.write(" ".join(map(str, words)) + "\n")


if __name__ == "__main__":
    main(sys.argv[2])
