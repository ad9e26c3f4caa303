"""What `dynalyze audit` writes for CI about real models: the line in SARIF, the tests in JUnit, the comment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ci_files import OPTIONS, comment_of, fingerprint_of, junit_outcomes, place_of, sarif_results
from program import Outcome, dynalyze

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


class Noisy(LlamaForCausalLM):
    def forward(self, input_ids=None, **kwargs):
        found = super().forward(input_ids=input_ids, **kwargs)
        print("logits", found.logits.shape)
        return found


def build():
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=64, max_position_embeddings=32,
    )
    return Noisy(config).eval(), (torch.randint(0, 64, (2, 8)),)
"""
BREAK = 'print("logits", found.logits.shape)'
BROKEN = """
import torch


class Broken(torch.nn.Module):
    def forward(self, x):
        x = x * 2
        print("here")
        return x + 1
"""
QUICK = ("--no-bench", "--backend", "eager")
INPUT = ("--input", "torch.randn(3, 4)")
CHECK = "dynalyze.policy.max-graph-breaks"
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python brings no reader of TOML before 3.11")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "llama.py").write_text(LLAMA, encoding="utf-8")
    (tmp_path / "net.py").write_text(BROKEN, encoding="utf-8")
    return tmp_path


def audit(folder: Path, *arguments: str) -> tuple[Outcome, dict[str, Any]]:
    env = {"HF_HUB_OFFLINE": "1"}
    ended = dynalyze("audit", *arguments, *QUICK, "--json", "audit.json", *OPTIONS, cwd=folder, env=env)
    assert (folder / "audit.json").exists(), ended.stderr[-2000:]
    return ended, json.loads((folder / "audit.json").read_text(encoding="utf-8"))


def line_with(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def test_a_clean_llama_passes(folder: Path) -> None:
    pytest.importorskip("transformers")
    (folder / "models" / "llama.py").write_text(LLAMA.replace(BREAK, "pass"), encoding="utf-8")
    ended, report = audit(folder, "models/llama.py:build")
    assert ended.status == 0, ended.stderr[-2000:]
    assert ended.stdout.startswith("PASS ")
    assert report["policy"]["passed"] is True
    assert [result for result in sarif_results(folder) if result["level"] == "error"] == []
    assert not {"failure", "error"} & set(junit_outcomes(folder).values())
    assert comment_of(folder).startswith("### ✅ dynalyze: passed")


def test_a_planted_break_fails_and_its_line_is_named(folder: Path) -> None:
    pytest.importorskip("transformers")
    ended, report = audit(folder, "models/llama.py:build")
    assert ended.status == 1, ended.stderr[-2000:]
    line = line_with(LLAMA, BREAK)
    assert ended.stdout.startswith(f"FAIL  1 graph break: forward (llama.py:{line}).")
    assert report["policy"]["summary"] == f"FAIL: 1 graph break: forward (llama.py:{line})"
    assert report["policy"]["advice"].startswith(f"llama.py:{line}: ")
    (check,) = (each for each in report["policy"]["checks"] if each["status"] == "failed")
    assert check["evidence"] == [report["graph_breaks"][0]["id"]]
    (result,) = sarif_results(folder)
    assert (result["ruleId"], result["level"], place_of(result)) == ("graph-break", "error", ("models/llama.py", line))
    assert fingerprint_of(result) == report["findings"][0]["fingerprint"]
    assert junit_outcomes(folder)[CHECK] == "failure"
    assert comment_of(folder).startswith("### ❌ dynalyze: failed")
    written = {name: (folder / name).read_bytes() for name in OPTIONS[1::2]}
    again = dynalyze("report", "audit.json", "--html", "page.html", *OPTIONS, cwd=folder)
    assert again.status == 0
    assert again.stdout.startswith(f"FAIL  1 graph break: forward (llama.py:{line}).")
    assert "Audit: Failed" in (folder / "page.html").read_text(encoding="utf-8")
    assert {name: (folder / name).read_bytes() for name in OPTIONS[1::2]} == written


@needs_toml
def test_a_waiver_suppresses_its_finding(folder: Path) -> None:
    """Until it expires: test_audit_command.py has one that did."""
    waiver = '[[ignore]]\nrule = "graph-break"\nfile = "net.py"\nreason = "goes with 2.1"\nexpires = 2999-01-31\n'
    (folder / "policy.toml").write_text(waiver, encoding="utf-8")
    ended, report = audit(folder, "net.py:Broken", *INPUT, "--policy", "policy.toml")
    assert ended.status == 0, ended.stderr[-2000:]
    (held,) = sarif_results(folder)
    assert held["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "goes with 2.1"}]
    assert (held["level"], fingerprint_of(held)) == ("warning", report["findings"][0]["fingerprint"])
    assert junit_outcomes(folder)[CHECK] == ""
    assert "goes with 2.1" in comment_of(folder)


@pytest.mark.slow
def test_a_baseline_tells_old_from_new_though_lines_moved(folder: Path) -> None:
    command = ("net.py:Broken", *INPUT, "--baseline", "known.json")
    ended, _ = audit(folder, *command, "--update-baseline")
    assert ended.status == 0, ended.stderr[-2000:]
    (known,) = sarif_results(folder)
    more = BROKEN.replace("return x + 1", "torch._dynamo.graph_break()\n        return x + 1")
    (folder / "net.py").write_text("import os\n\n\n" + more, encoding="utf-8")
    ended, _ = audit(folder, *command)
    assert ended.status == 1, ended.stderr[-2000:]
    results = {fingerprint_of(result): result for result in sarif_results(folder)}
    old = results.pop(fingerprint_of(known))
    assert (old["ruleId"], old["baselineState"], old["level"]) == (known["ruleId"], "unchanged", "warning")
    assert place_of(old)[1] == place_of(known)[1] + 3
    (new,) = results.values()
    assert (new["baselineState"], new["level"]) == ("new", "error")
    assert junit_outcomes(folder)[CHECK] == "failure"
