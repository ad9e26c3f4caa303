"""TORCH_LOGS and TORCH_TRACE are the user's: a run under dynalyze leaves what torch prints and writes for them."""

from __future__ import annotations

import re
from pathlib import Path

from program import explain

PROGRAM = """
import torch

@torch.compile(backend="eager")
def f(x):
    print("in f")
    return x * 2

f(torch.ones(3))
"""


def test_torchs_own_lines_and_logs_are_there_beside_the_report(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    logs = tmp_path / "logs"
    logs.mkdir()
    env = {"TORCH_LOGS": "graph_breaks", "TORCH_TRACE": str(logs)}
    ended, report = explain("model.py", cwd=tmp_path, env=env, real=True)

    assert len(re.findall(r"\[__graph_breaks\] Graph break in user code at .*model\.py:6", ended.stderr)) == 1
    (written,) = logs.iterdir()
    assert written.name.startswith("dedicated_log_torch_trace") and '"dynamo_graph_break_reason"' in written.read_text()
    assert [found["gb_id"] for found in report["graph_breaks"]] == ["GB0059"]
    assert {name: report["environment"]["variables"][name] for name in env} == env
