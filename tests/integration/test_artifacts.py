"""`--artifacts DIR`: every text of every compile, in a folder where nothing else is touched."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from program import TRACEBACK, dynalyze, explain
from shared_runs import made_once

from dynalyze.capture.events import GraphSeen
from dynalyze.events.log import RunLog
from dynalyze.launch.artifacts import MARKER, check_folder, write_artifacts
from dynalyze.text.errors import UsageError
from records import run_of

PROGRAM = """
    import torch

    @torch.compile
    def scaled(x):
        return x.sin() * 3

    scaled(torch.randn(4))
    scaled(torch.randn(5))
    torch._dynamo.reset()
    scaled(torch.randn(4, requires_grad=True)).sum().backward()
"""
INFERENCE = {
    "computation_graph.py", "aot_inference.py", "post_grad.py", "output_code.py", "fx_graph_runnable.py",
    "transformed_code.py",
}  # fmt: skip
TRAINING = (INFERENCE - {"aot_inference.py"}) | {
    "aot_joint.py", "aot_forward.py", "aot_backward.py", "post_grad_backward.py", "output_code_backward.py",
    "fx_graph_runnable_backward.py",
}  # fmt: skip


def files_in(folder: Path) -> dict[str, set[str]]:
    return {each.name: {file.name for file in each.iterdir()} for each in folder.iterdir() if each.is_dir()}


def run_with(compile_id: str = "0/0", process: int = 0, epoch: int = 0, text: str = "x = 1") -> RunLog:
    run = run_of(GraphSeen(id=compile_id, epoch=epoch, text="a text"))
    run.processes[0].process = process
    run.read_text = lambda name: text if name == "a text" else ""
    return run


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of PROGRAM, which replace those of another run."""
    return made_once(tmp_path_factory, "artifacts", artifacts_of_the_program)


def artifacts_of_the_program(folder: Path) -> Path:
    assert write_artifacts(run_with("7/7"), folder / "made") == []
    (folder / "model.py").write_text(textwrap.dedent(PROGRAM))
    ended, report = explain("model.py", "--artifacts", "made", cwd=folder)
    assert ended.status == 0, ended.stderr
    assert report["capture"]["notes"] == []
    assert "Artifacts  made" in ended.stdout
    return folder / "made"


def test_one_folder_a_compile(written: Path) -> None:
    assert files_in(written) == {"0_0": INFERENCE, "0_1": INFERENCE, "reset1_0_0": TRAINING}


def test_every_file_is_what_its_name_says(written: Path) -> None:
    def text(name: str) -> str:
        return (written / "reset1_0_0" / name).read_text()

    assert "x.sin()" in text("computation_graph.py") or "torch.sin" in text("computation_graph.py")
    assert "torch.ops.aten.cos" in text("aot_backward.py")
    assert "torch.ops.aten.cos" not in text("aot_forward.py")
    assert "_forward']" in text("output_code.py")
    assert "_backward']" in text("output_code_backward.py")
    assert "tangents_1" in text("fx_graph_runnable_backward.py")
    assert "tangents_1" not in text("fx_graph_runnable.py")
    assert "__compiled_fn_" in text("transformed_code.py")
    for name in ("output_code.py", "fx_graph_runnable.py", "transformed_code.py"):
        compile(text(name), name, "exec")


@pytest.mark.parametrize("option", ["--no-source", "--redact"])
def test_what_hides_the_program_excludes_artifacts(tmp_path: Path, option: str) -> None:
    (tmp_path / "model.py").write_text("print('ran')\n")
    ended = dynalyze("explain", "model.py", "--artifacts", "made", option, cwd=tmp_path)
    assert ended.status == 2
    assert option in ended.stderr and "exclude each other" in ended.stderr
    assert TRACEBACK not in ended.stderr and "ran" not in ended.stderr
    assert not (tmp_path / "made").exists()


def test_a_folder_with_other_files_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("print('ran')\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "thesis.tex").write_text("mine")
    ended = dynalyze("explain", "model.py", "--artifacts", "made", cwd=tmp_path)
    assert ended.status == 2
    assert "did not write" in ended.stderr and "ran" not in ended.stderr
    assert [file.name for file in (tmp_path / "made").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("where", ["file", "missing/made"])
def test_a_place_that_is_no_folder(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--artifacts"):
        check_folder(tmp_path / where)


@pytest.mark.parametrize(
    ("compile_id", "process", "epoch", "name"),
    [
        ("0/0", 0, 0, "0_0"),
        ("12/3", 0, 0, "12_3"),
        ("0/0", 2, 1, "process2_reset1_0_0"),
        ("!1/0/2", 0, 0, "autograd1_0_2"),
    ],
)
def test_the_name_of_a_folder(tmp_path: Path, compile_id: str, process: int, epoch: int, name: str) -> None:
    assert write_artifacts(run_with(compile_id, process, epoch), tmp_path) == []
    assert files_in(tmp_path) == {name: {"computation_graph.py"}}


@pytest.mark.parametrize("compile_id", ["../../etc", "0/0/../..", "/etc", "0/0\n", "", "0", "-1/0", "٣/٤/٥", "0/0/1"])
def test_an_id_that_is_none_makes_no_folder(tmp_path: Path, compile_id: str) -> None:
    (note,) = write_artifacts(run_with(compile_id), tmp_path / "made")
    assert "unusual id" in note
    assert [file.name for file in (tmp_path / "made").iterdir()] == [MARKER]
    assert [file.name for file in tmp_path.iterdir()] == ["made"]


def test_no_link_is_followed(tmp_path: Path) -> None:
    made, elsewhere = tmp_path / "made", tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_artifacts(run_with(), made)
    (made / "0_0" / "computation_graph.py").unlink()
    (made / "0_0").rmdir()
    (made / "0_0").symlink_to(elsewhere)
    (elsewhere / "computation_graph.py").write_text("mine")
    (note,) = write_artifacts(run_with(text="x = 2"), made)
    assert "left alone" in note
    assert (elsewhere / "computation_graph.py").read_text() == "mine"


def test_a_link_in_place_of_our_file_is_replaced_not_followed(tmp_path: Path) -> None:
    made, mine = tmp_path / "made", tmp_path / "mine.py"
    mine.write_text("mine")
    write_artifacts(run_with(), made)
    ours = made / "0_0" / "computation_graph.py"
    ours.unlink()
    ours.symlink_to(mine)
    assert write_artifacts(run_with(text="x = 2"), made) == []
    assert (mine.read_text(), ours.read_text(), ours.is_symlink()) == ("mine", "x = 2\n", False)


def test_a_file_of_the_users_in_our_folder_stays(tmp_path: Path) -> None:
    write_artifacts(run_with("0/0"), tmp_path)
    (tmp_path / "0_0" / "notes.md").write_text("mine")
    (tmp_path / "1_0").mkdir()
    (tmp_path / "1_0" / "computation_graph.py").write_text("mine too")
    (note,) = write_artifacts(run_with("1/0"), tmp_path)
    assert "computation_graph.py" in note
    assert files_in(tmp_path) == {"0_0": {"notes.md"}, "1_0": {"computation_graph.py"}}
    assert (tmp_path / "1_0" / "computation_graph.py").read_text() == "mine too"


def test_a_marker_that_names_other_files_removes_none(tmp_path: Path) -> None:
    made, precious = tmp_path / "made", tmp_path / "precious.py"
    precious.write_text("mine")
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "own.py").write_text("mine")
    (made / MARKER).write_text(f"../precious.py\n{precious}\nsub/own.py\n0_0/../../precious.py\n")
    write_artifacts(run_with(), made)
    assert precious.exists()
    assert (made / "sub" / "own.py").exists()


def test_a_link_is_no_marker(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "real").write_text("")
    (tmp_path / "made" / MARKER).symlink_to(tmp_path / "real")
    with pytest.raises(UsageError, match="did not write"):
        check_folder(tmp_path / "made")
