"""Records the programs beside it again: `python tests/data/events/record.py [NAME ...]`. Needs torch.

Each folder holds a `model.py` and two recordings of it. In `live.jsonl` the adapter reads live objects of the
compiler; in `text.jsonl` every one of those readers gives up, as it would on a version of torch that moved things, so
only torch's own texts are left. Paths of this machine become the placeholders that `recordings.py` fills in again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "analyzer" / "dynalyze"
COMPILE: dict[str, Any] = {}
# All but the first of torch's own frames in a traceback: hundreds of lines that say nothing here.
TORCH_FRAMES = re.compile(r'(?<=\n)  File "\{torch\}/_dynamo/(?!convert_frame)[^\n]*\n(?:    [^\n]*\n)*')

BLIND = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
from pathlib import Path
from dynalyze.capture.torch_private import trace
from dynalyze.capture.torch_private import dynamo
dynamo.live_break = dynamo.live_error = lambda: None
dynamo.stack_above = lambda: []
dynamo.compiled_module = lambda: None
dynamo.recompile_scope = lambda: None
dynamo.refuses_breaks = dynamo.raises_at_limit = lambda *error: None
trace.watch_untraced_breaks = lambda emit: lambda: None
dynamo.global_state = lambda name: None
dynamo.outermost_call = lambda: 0
dynamo.traced_functions = lambda: []
del sys.path[0]
from dynalyze.capture.child import main
sys.exit(main(Path(sys.argv[1])))
"""


def main(names: list[str]) -> None:
    for model in sorted(HERE.glob("*/model.py")):
        if not names or model.parent.name in names:
            for kind in ("live", "text"):
                lines = record(model, blind=kind == "text")
                (model.parent / f"{kind}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def record(model: Path, *, blind: bool) -> list[str]:
    """The events of the program's main process, one a line, without anything that differs from run to run."""
    with tempfile.TemporaryDirectory() as folder:
        request: dict[str, Any] = {
            "mode": "script", "spec": "model.py", "path": "model.py", "module": None, "name": None,
            "arguments": [], "inputs": [], "compile": COMPILE,
        }  # fmt: skip
        (Path(folder) / "request.json").write_text(json.dumps(request))
        start = ["-c", BLIND] if blind else [str(PACKAGE / "capture" / "start.py"), "explain"]
        subprocess.run([sys.executable, *start, folder], cwd=model.parent, check=False, capture_output=True)
        files = list((Path(folder) / "events").glob("*.jsonl"))
        (file,) = [path for path in files if '"main": true' in path.read_text()]
        events = [json.loads(line) for line in file.read_text().splitlines()]
    calls = [event["call"] for event in events if "call" in event]
    for event in events:
        if "call" in event:  # An address; only whether two are equal matters.
            event["call"] = event["call"] and calls.index(event["call"]) + 1
    return [neutral(event, model.parent) for event in events]


def neutral(event: dict[str, Any], folder: Path) -> str:
    event["at"] = 0.0
    if event["event"] == "process":
        event.update(pid=4711, parent=1, command=["model.py"])
    if event["event"] == "torch":
        event.update(cores=2, packages={}, variables={})
    if event["event"] == "graph":
        event["text"] = ""
    for name in [name for name in event.get("metrics", ()) if name.endswith(("_us", "_s", "_count"))]:
        if not name.startswith(("graph_", "guard_")):
            del event["metrics"][name]
    text = re.sub(r"(___check_obj_id\(\w+, )\d+", r"\g<1>4711", json.dumps(event))
    torch_folder, stdlib = Path(torch.__file__).parent, Path(json.__file__).parents[1]
    for path, mark in ((folder, "{program}"), (PACKAGE, "{dynalyze}"), (torch_folder, "{torch}"), (stdlib, "{stdlib}")):
        text = text.replace(str(path), mark)
    return shortened(text)


def shortened(line: str) -> str:
    event = json.loads(line)
    if event["event"] == "error":
        event["text"] = TORCH_FRAMES.sub("", event["text"])
    return json.dumps(event)


if __name__ == "__main__":
    main(sys.argv[1:])
