"""`dynalyze audit` on real models: what passes, what fails and where, waivers, a baseline, shapes, mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ci_files import OPTIONS, comment_of, fingerprint_of, junit_outcomes, place_of, sarif_results
from program import Outcome, dynalyze, in_process

SMALL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


class Broken(Net):
    def forward(self, x):
        x = super().forward(x)
        print("here")
        return x + 1
"""
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
CHECK = "dynalyze.policy.max-graph-breaks"
INPUT = ("--input", "torch.randn(3, 4)")
QUICK = ("--no-bench", "--backend", "eager")
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python brings no reader of TOML before 3.11")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(SMALL, encoding="utf-8")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "llama.py").write_text(LLAMA, encoding="utf-8")
    return tmp_path


def audit(folder: Path, *arguments: str) -> tuple[Outcome, dict[str, Any]]:
    ended = dynalyze("audit", *arguments, "--json", "audit.json", cwd=folder, env={"HF_HUB_OFFLINE": "1"})
    file = folder / "audit.json"
    return ended, json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def line_with(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


@pytest.mark.slow
def test_speed_memory_and_answers_are_measured(folder: Path) -> None:
    ended = dynalyze(
        "audit", "net.py:Net", *INPUT, "--backend", "eager", "--bench-seconds", "240", "--json", "audit.json",
        cwd=folder, bench=True, seconds=600,
    )  # fmt: skip
    assert ended.status == 0, ended.stderr[-2000:]
    report = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    (answers,) = (each for each in report["policy"]["checks"] if each["name"] == "accuracy")
    assert (answers["status"], answers["found"]) == ("passed", "same answers")
    (measured,) = (each for each in report["measurements"] if each["configuration"] == "default")
    assert measured["memory"]["ratio"] > 0
    assert "audit, step 2 of 2: the measurement of speed, memory and answers" in ended.stderr


def test_a_baseline_is_written_and_tells_old_from_new_over_moved_lines(folder: Path) -> None:
    command = ("net.py:Broken", *INPUT, *QUICK, "--baseline", "known.json")
    ended, _ = audit(folder, *command, "--update-baseline")
    assert ended.status == 0, ended.stderr[-2000:]
    more = SMALL.replace("return x + 1", "torch._dynamo.graph_break()\n        return x + 1")
    (folder / "net.py").write_text("import os\n\n\n" + more, encoding="utf-8")
    ended, report = audit(folder, *command, "--no-source")
    assert ended.status == 1, ended.stderr[-2000:]
    assert (report["policy"]["known"], len(report["policy"]["new"])) == (1, 1)
    assert report["policy"]["summary"].startswith("FAIL: 1 graph break: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--baseline", "none.json"), "--baseline none.json: no such file; --update-baseline writes it"),
        (("--update-baseline",), "--update-baseline writes --baseline FILE; name it"),
        (("--update-baseline", "--baseline", "nowhere/known.json"), "no such directory"),
        (("--shapes", "batch"), "--shapes batch: give names with their sizes"),
        (("--dim", "n=0:0"), "--shapes gives no sizes for n"),
        pytest.param(("--policy", "bad.toml"), "bad.toml: 'max-breaks' is not known; did you mean", marks=needs_toml),
    ],
)
def test_a_mistake_ends_before_anything_runs(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    (folder / "bad.toml").write_text("max-breaks = 1\n", encoding="utf-8")
    (folder / "net.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n{SMALL}", encoding="utf-8")
    ended = in_process("audit", "net.py:Net", *INPUT, *QUICK, *arguments, "--json", "audit.json", cwd=folder)
    assert (ended.status, ended.stdout) == (2, "")
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (folder / "ran").exists() and not (folder / "audit.json").exists()


def test_a_model_that_is_none_of_transformers_has_no_attention_matrix(folder: Path) -> None:
    ended, report = audit(folder, "net.py:Net", *INPUT, *QUICK, "--attention-matrix")
    assert (ended.status, ended.stdout, report) == (2, "", {})
    assert "Net is none. Name an architecture (hf:NAME)" in ended.stderr
    assert "step 1" not in ended.stderr


def test_a_target_that_fails_keeps_its_own_exit_status(folder: Path) -> None:
    (folder / "fails.py").write_text("raise RuntimeError('no')\n", encoding="utf-8")
    ended, report = audit(folder, "fails.py", *QUICK[:1])
    assert ended.status == 3
    assert report["policy"]["passed"] is False
    assert "the program failed" in report["policy"]["summary"]


# What it writes for CI: the line in SARIF, the tests in JUnit, the comment.


def test_a_clean_llama_passes(folder: Path) -> None:
    pytest.importorskip("transformers")
    (folder / "models" / "llama.py").write_text(LLAMA.replace(BREAK, "pass"), encoding="utf-8")
    ended, report = audit(folder, "models/llama.py:build", *QUICK, *OPTIONS)
    assert ended.status == 0, ended.stderr[-2000:]
    assert ended.stdout.startswith("PASS ")
    assert report["policy"]["passed"] is True
    assert [result for result in sarif_results(folder) if result["level"] == "error"] == []
    assert not {"failure", "error"} & set(junit_outcomes(folder).values())
    assert comment_of(folder).startswith("### ✅ dynalyze: passed")


def test_a_planted_break_fails_and_its_line_is_named(folder: Path) -> None:
    pytest.importorskip("transformers")
    ended, report = audit(folder, "models/llama.py:build", *QUICK, *OPTIONS)
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
    waiver = '[[ignore]]\nrule = "graph-break"\nfile = "net.py"\nreason = "goes with 2.1"\nexpires = 2999-01-31\n'
    (folder / "policy.toml").write_text(waiver, encoding="utf-8")
    ended, report = audit(folder, "net.py:Broken", *INPUT, *QUICK, *OPTIONS, "--policy", "policy.toml")
    assert ended.status == 0, ended.stderr[-2000:]
    (held,) = sarif_results(folder)
    assert held["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "goes with 2.1"}]
    assert (held["level"], fingerprint_of(held)) == ("warning", report["findings"][0]["fingerprint"])
    assert junit_outcomes(folder)[CHECK] == ""
    assert "goes with 2.1" in comment_of(folder)
