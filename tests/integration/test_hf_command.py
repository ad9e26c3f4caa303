"""`dynalyze explain hf:NAME`: the real command on small architectures, nothing downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import Outcome, dynalyze, explain

pytest.importorskip("transformers")

OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def explained(*words: str, cwd: Path) -> tuple[Outcome, dict[str, Any]]:
    """With a home of its own for what transformers copies of a checkpoint's code."""
    return explain(*words, "--backend", "eager", cwd=cwd, env={**OFFLINE, "HF_HOME": str(cwd / "hf")})


def one_line(ended: Outcome) -> str:
    """What a refused command says: one line, and nothing else."""
    assert ended.status == 2
    assert ended.stdout == ""
    lines = [line for line in ended.stderr.splitlines() if line.startswith("dynalyze: ")]
    assert len(lines) == 1
    assert "Traceback" not in ended.stderr
    return lines[0]


def test_a_clean_architecture(tmp_path: Path) -> None:
    ended, report = explained("hf:LlamaModel", "--batch", "3", "--sequence", "24", cwd=tmp_path)
    assert ended.status == 0
    assert report["outcome"]["status"] == "complete"
    assert report["target"]["kind"] == "transformers"
    model = report["target"]["model"]
    assert (model["class_name"], model["family"], model["warm"]) == ("LlamaModel", "llama", True)
    assert model["inputs"]["input_ids"] == "int64[3, 24]"
    assert model["parameters"] > 0
    assert report["capture"]["mode"] == "transformers"
    assert report["graph_breaks"] == []
    assert [graph["ops"] > 10 for graph in report["graphs"]] == [True]
    assert "LlamaModel (llama) with" in " ".join(ended.stdout.split())


@pytest.mark.parametrize("cold", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_breaks_in_the_librarys_code(tmp_path: Path, cold: bool) -> None:
    """Where they are is established by reading Reformer: the first of them asks a tensor for a number."""
    ended, report = explained("hf:ReformerModel", *(["--cold"] if cold else []), cwd=tmp_path)
    assert ended.status == 0
    assert report["target"]["model"]["warm"] is not cold
    breaks = report["graph_breaks"]
    assert breaks
    assert {Path(found["location"]["file"]).name for found in breaks} == {"modeling_reformer.py"}
    reads = [found for found in breaks if found["gb_id"] == "GB0124"]
    assert "position_ids.max().item()" in {found["expression"] for found in reads}
    assert [each["process"] for each in report["processes"]] == [0]  # Heard by us, not by torch's own log.
    assert "modeling_reformer.py" in {Path(each["path"]).name for each in report["traced_files"]}
    for found in breaks:
        assert found["location"]["column"] is not None
        if found["location"]["code"].startswith("if must_pad"):  # torch tells the columns of a line before it.
            assert found["expression"] == "must_pad_to_match_chunk_length"
        assert found["explanation"]
        files = [Path(each["file"]).name for each in found["stack"]]
        assert files[-1] == "modeling_reformer.py"


def test_a_name_that_is_none(tmp_path: Path) -> None:
    said = one_line(dynalyze("explain", "hf:LlamaModle", cwd=tmp_path, env=OFFLINE))
    assert "LlamaModle" in said
    assert "LlamaModel" in said.replace("LlamaModle", "")


def test_an_option_of_another_kind_of_target(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("")
    assert "--cold is for" in one_line(dynalyze("explain", "model.py", "--cold", cwd=tmp_path))


@pytest.mark.slow
def test_a_model_that_fails_in_eager(tmp_path: Path) -> None:
    """The checkpoint's own code raises in its forward: nothing of it is compiled, and its line is told."""
    folder = checkpoint(
        tmp_path, model_type="odd", architectures=["OddModel"],
        auto_map={"AutoConfig": "odd.OddConfig", "AutoModel": "odd.OddModel"},
    )  # fmt: skip
    (folder / "odd.py").write_text(ODD)
    ended, report = explained(f"hf:{folder.name}", "--trust-remote-code", cwd=tmp_path)
    assert ended.status == 3, ended.stderr
    failed = report["outcome"]["failed_stage"]
    assert (failed["stage"], failed["exception"]) == ("eager", "RuntimeError")
    assert Path(failed["file"]).name == "odd.py"
    assert ODD.splitlines()[failed["line"] - 1].strip() == 'raise RuntimeError("an odd number of tokens")'
    assert "OddModel fails in eager already: RuntimeError: an odd number of tokens" in report["outcome"]["message"]
    assert report["compilations"] == []
    assert report["target"]["model"]["class_name"] == "OddModel"


def checkpoint(folder: Path, **config: Any) -> Path:
    made = folder / "checkpoint"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(config))
    return made


ODD = """\
import torch
from transformers import PretrainedConfig, PreTrainedModel


class OddConfig(PretrainedConfig):
    model_type = "odd"

    def __init__(self, vocab_size=100, hidden_size=16, **rest):
        super().__init__(**rest)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size


class OddModel(PreTrainedModel):
    config_class = OddConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        raise RuntimeError("an odd number of tokens")
"""
