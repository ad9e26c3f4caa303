"""TORCH_LOGS and TORCH_TRACE are the user's: a run under dynalyze leaves what torch prints and writes for them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from program import explain, in_process

# One product of matrices: no C++ kernel has to be built for it.
PROGRAM = """
import torch
import torch._inductor.codecache  # It imports Dynamo midway: artifacts have to wait until all of it is there.

@torch.compile(backend="eager")
def f(x):
    print("in f")
    return x * 2

f(torch.ones(3))

with torch.no_grad():
    torch.compile(lambda x: torch.mm(x, x))(torch.ones(8, 8))
"""


@pytest.mark.slow
def test_torchs_own_lines_and_logs_are_there_beside_the_report_and_tell_the_same(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    logs = tmp_path / "logs"
    logs.mkdir()
    env = {"TORCH_LOGS": "graph_breaks", "TORCH_TRACE": str(logs)}
    ended, live = explain("model.py", cwd=tmp_path, env=env, real=True)

    assert len(re.findall(r"\[__graph_breaks\] Graph break in user code at .*model\.py:7", ended.stderr)) == 1
    (written,) = logs.iterdir()
    assert written.name.startswith("dedicated_log_torch_trace") and '"dynamo_graph_break_reason"' in written.read_text()
    assert [found["gb_id"] for found in live["graph_breaks"]] == ["GB0059"]
    assert {name: live["environment"]["variables"][name] for name in env} == env

    # What is recorded of the keys of caches in the process is what the log of the same process says of them.
    assert in_process("report", "logs", "--json", "log.json", cwd=tmp_path).status == 0
    recorded, logged = (
        [key for key in report["caches"]["keys"] if key["cache"] == "fx_graph"]
        for report in (live, json.loads((tmp_path / "log.json").read_text()))
    )
    assert recorded and [each["key"] for each in logged] == [each["key"] for each in recorded]
    assert all(part in recorded[0]["components"] for part in logged[0]["components"])
    assert {"gm", "example_inputs[0]"} <= {part["name"] for part in logged[0]["components"]}
    same = in_process("cache", "logs", "logs", "--json", "-", "--fail-on", "cold", cwd=tmp_path)
    assert [each["kind"] for each in json.loads(same.stdout)["differences"]] == []
