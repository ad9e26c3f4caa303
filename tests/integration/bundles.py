"""Runs a program in the recording child, and makes its calls again in a fresh process."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from warm_starts import forking, run_script

from dynalyze.launch.run import START
from limits import WALL_SECONDS

# What a program writes down of its own calls; tests compare it with what the fresh process answers.
PREAMBLE = """
import pickle, sys
import torch
torch.manual_seed(0)
SEEN = []
def seen(value):
    tensor = value if isinstance(value, torch.Tensor) else value[0]
    SEEN.append(tensor.detach().clone())
    with open("seen.pickle", "wb") as file:
        pickle.dump(SEEN, file)
    return value
"""

READER = """
import importlib.util, json, pickle, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("start", sys.argv[1])
start = importlib.util.module_from_spec(spec)
spec.loader.exec_module(start)
start.load_package()
from dynalyze.capture.bench.bundle import check_sizes, open_bundle, workload_of
from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
asked = json.loads(sys.argv[2])
out = Path(asked.pop("out"))
found = {}
try:
    request = WorkerRequest(configuration=Configuration("eager", compile=False), **asked)
    check_sizes(request)
    workload = workload_of(open_bundle(request), request)
except Failed as failure:
    found = {"kind": failure.kind, "message": failure.message}
else:
    import torch
    scope = {"Configuration": Configuration, "workload": workload, "torch": torch, "found": found}
    exec(Path(str(out) + ".py").read_text(), scope)
out.write_bytes(pickle.dumps(found))
"""

EACH_CALL = """
target = workload.model
for turn in range(2):
    outputs = []
    for step in workload.steps(target):
        step.prepare()
        made = step.run()
        outputs.append((made if isinstance(made, torch.Tensor) else made[0]).detach().clone())
    found[f"pass{turn}"] = outputs
found["phase"], found["items"], found["tokens"] = workload.phase, workload.items, workload.tokens
"""


@dataclass
class Recorded:
    """A recording: the folder of the run, its events, and what the program saw of its calls."""

    folder: Path
    work: Path
    status: int
    stderr: str
    events: list[dict[str, Any]]
    seen: list[torch.Tensor] = field(default_factory=list)

    @property
    def bundle(self) -> dict[str, Any]:
        return next(event for event in self.events if event["event"] == "bundle")

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]


def record(source: str, work: Path, **request: Any) -> Recorded:
    """Run a program with the preamble above it, asking for a bundle and compiling nothing in place."""
    script, folder = work / "program.py", work / "run"
    script.write_text(PREAMBLE + source)
    folder.mkdir(mode=0o700)
    asked = {
        "mode": "script", "spec": "program.py", "path": "program.py", "module": None, "name": None, "arguments": [],
        "inputs": [], "compile": {}, "bundle": True, "in_place": False,
        "allow_effects": True,  # The preamble's own file.
        **request,
    }  # fmt: skip
    (folder / "request.json").write_text(json.dumps(asked))
    ended = _python(str(START), "explain", str(folder), work=work)
    lines = [line for path in sorted((folder / "events").glob("*.jsonl")) for line in path.read_text().splitlines()]
    file = work / "seen.pickle"
    seen = pickle.loads(file.read_bytes()) if file.exists() else []
    return Recorded(folder, work, ended.returncode, ended.stderr, [json.loads(line) for line in lines], seen)


def read(recorded: Recorded, code: str = EACH_CALL, **request: Any) -> dict[str, Any]:
    """Read the bundle in another process, run `code` with its `workload` there, and return what it `found`."""
    bundle = recorded.bundle
    assert not bundle["error"], bundle["error"]
    out = recorded.work / "found.pickle"
    Path(f"{out}.py").write_text(code)
    source = {
        "kind": "bundle", "file": str(recorded.folder / bundle["file"]), "digest": bundle["digest"],
        "sys_path": bundle["sys_path"], "arguments": bundle["arguments"], "folder": bundle["folder"],
    }  # fmt: skip
    asked = {"source": source, "out": str(out), **request}
    script = recorded.work / "reader.py"
    script.write_text(READER)
    status, _, stderr = run_script(script, [str(START), json.dumps(asked)], Path("/"), {}, WALL_SECONDS)
    assert status == 0, stderr[-4000:]
    found: dict[str, Any] = pickle.loads(out.read_bytes())
    return found


def assert_same(found: dict[str, Any], seen: list[torch.Tensor]) -> None:
    """Bit for bit what the program saw, in the first pass and in the second."""
    for name in ("pass0", "pass1"):
        assert len(found[name]) == len(seen)
        for mine, theirs in zip(found[name], seen, strict=True):
            assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


def _python(*arguments: str, work: Path) -> subprocess.CompletedProcess[str]:
    python, variables = forking({})
    return subprocess.run(
        [python, *arguments], cwd=work, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=WALL_SECONDS, check=False,
    )  # fmt: skip
