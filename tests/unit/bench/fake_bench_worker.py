"""A worker that measures nothing: it speaks the protocol of `capture.bench.protocol` as its request tells it to.

`source["acts"]` maps a configuration's name, or "*", to what it does on an order: {"order": ACT}. ACT is a dict (fields
of the answer), "die" (SIGKILL), "leave" (exit status 7), "hang", "child" (start a process that outlives it), or
"error KIND MESSAGE". An order may be written as "order@N": from the N-th process of that configuration on. Every order
is noted in `source["log"]`, when it begins and when it is answered; of a program also which calls it is to make.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

PLAIN: dict[str, dict[str, Any]] = {
    "load": {"device": "cpu", "calls": 1, "import_seconds": 1.0, "load_seconds": 0.5, "threads": 2},
    "warm": {"calls_ms": [9.0, 2.0, 2.0], "steady_after": 1, "counts": {"compiled_frames": 1}, "phases": {}},
    "check": {"counts": {}, "recompiles_while_timing": 0, "cudagraph_replays": None, "invalid": ""},
    "memory": {"kind": "rss", "steady_peak": 1000, "compile_peak": 3000, "reserved_peak": None},
    "accuracy": {"verdict": "equal", "anchored": True},
}


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text())
    source, name = request["source"], request["configuration"]["name"]
    number = _process_number(Path(source["log"]), name)
    acts = _acts(source.get("acts", {}), name, number)
    if source.get("kind") == "program":
        _note(source["log"], "made", name, number, json.dumps(source["made"]))
    connection = Client(str(folder / "bench.socket"), "AF_UNIX")
    while True:
        order = json.loads(connection.recv_bytes())
        if order["do"] == "end":
            connection.send_bytes(b'{"ok": true}')
            os._exit(0)
        _note(source["log"], "begin", name, number, order["do"])
        answer = _act(acts.get(order["do"], {}), order, request)
        _note(source["log"], "end", name, number, order["do"])
        connection.send_bytes(json.dumps(answer).encode())


def _act(act: Any, order: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    if act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "leave":
        os._exit(7)
    if act == "hang":
        time.sleep(600)
    if act == "child":
        argument = request["source"]["log"]  # by which a test finds it again
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", argument], start_new_session=True)
        act = {}
    if isinstance(act, str):
        _, kind, message = act.split(" ", 2)
        return {"ok": False, "error": {"kind": kind, "message": message}}
    if order["do"] == "block":
        return {
            "ok": True,
            "samples_ms": [request["source"].get("ms", {}).get(request["configuration"]["name"], 2.0)] * 4,
        }
    return {"ok": True, **PLAIN[order["do"]], **act}


def _acts(acts: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    found = {}
    for written, act in {**acts.get("*", {}), **acts.get(name, {})}.items():
        order, _, first = written.partition("@")
        if number >= int(first or 1):
            found[order] = act
    return found


def _process_number(log: Path, name: str) -> int:
    """Which process of this configuration this one is, counted from 1."""
    with log.with_suffix(f".{name}".replace("=", "-")).open("a") as file:
        file.write("x")
        return file.tell()


def _note(log: str, *words: object) -> None:
    with Path(log).open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[2]))
