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
    return explain(*words, "--backend", "eager", cwd=cwd, env=OFFLINE)


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


@pytest.mark.slow
@pytest.mark.parametrize("cold", [False, True])
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


def checkpoint(folder: Path, **config: Any) -> Path:
    made = folder / "checkpoint"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(config))
    return made
