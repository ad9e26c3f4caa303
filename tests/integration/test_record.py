"""`dynalyze.record()` in a process of its user; what is true comes from torch's own counters and from the programs."""

from __future__ import annotations

import inspect
import linecache
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
import torch._dynamo.convert_frame
from in_your_code import DOC, run_example
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

import dynalyze
from dynalyze.report.document import from_json
from limits import WALL_SECONDS


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def broken(x: torch.Tensor, n: int = 1) -> torch.Tensor:
    y = torch.sin(x) * n
    print("between")
    return y + 1


def whole(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend="eager")
    return made


def line_of(function: Callable[..., Any], code: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if code in line)


def state_of_torch() -> list[object]:
    """All that a recording touches, by identity or as it compares."""
    return [
        torch.compile,
        torch._dynamo.convert_frame.add_skip_reason,
        list(logging.getLogger("torch.__trace").handlers),
        type(counters["unimplemented"]),
        list(sys.meta_path),
    ]


def test_breaks_and_recompiles_as_torch_counts_them() -> None:
    counters.clear()
    with dynalyze.record() as seen:
        function = compiled(broken)
        for n in (1, 2):
            function(torch.ones(3), n)
    assert sum(counters["graph_break"].values()) == 2  # Once for each version of the function.
    (found,) = seen.graph_breaks
    assert found.location.line == line_of(broken, 'print("between")') and found.location.file == __file__
    assert found.location.code == 'print("between")' and found.occurrences == 2
    (again,) = seen.recompiles
    assert (again.source, again.expected, again.actual) == ("n", "1", "2")
    assert {finding.rule for finding in seen.findings} == {"graph-break", "recompile"}
    assert len(seen.report.graphs) == counters["stats"]["unique_graphs"]
    assert seen.report.capture.mode == "block" and seen.report.target.spec.startswith(f"{Path(__file__).name}:")


def test_stacks_begin_in_the_function_of_the_block() -> None:
    with dynalyze.record() as seen:
        compiled(broken)(torch.ones(3))
    assert [place.function for place in seen.graph_breaks[0].stack] == [
        test_stacks_begin_in_the_function_of_the_block.__name__, "broken",
    ]  # fmt: skip


def test_torch_is_left_as_it_was_found() -> None:
    compiled(whole)(torch.ones(2))
    before = state_of_torch()
    with dynalyze.record():
        assert state_of_torch() != before
        compiled(broken)(torch.ones(3))
    assert state_of_torch() == before
    with pytest.raises(ZeroDivisionError), dynalyze.record():
        raise ZeroDivisionError
    assert state_of_torch() == before


def test_blocks_that_overlap_end_in_any_order() -> None:
    compiled(whole)(torch.ones(2))
    before = state_of_torch()
    first, second = dynalyze.record().start(), dynalyze.record().start()
    compiled(broken)(torch.ones(3))
    first.stop()
    compiled(lambda x: x * 2)(torch.ones(3))
    second.stop()
    assert state_of_torch() == before
    assert len(first.graph_breaks) == len(second.graph_breaks) == 1
    assert len(second.report.compilations) == len(first.report.compilations) + 1


def test_a_block_inside_of_a_block_is_heard_by_both() -> None:
    with dynalyze.record() as outer:
        with dynalyze.record() as inner:
            compiled(broken)(torch.ones(3))
        compiled(whole)(torch.ones(3))
    assert [len(seen.graph_breaks) for seen in (outer, inner)] == [1, 1]
    assert {each.function for each in outer.report.compilations} == {"broken", "whole"}
    assert {each.function for each in inner.report.compilations} == {"broken"}


def test_an_exception_goes_on_and_what_was_recorded_is_there() -> None:
    seen = dynalyze.record()
    with pytest.raises(ValueError, match="the third batch"), seen:
        compiled(broken)(torch.ones(3))
        raise ValueError("the third batch")
    outcome = seen.report.outcome
    line = line_of(test_an_exception_goes_on_and_what_was_recorded_is_there, "raise ValueError")
    assert outcome.status == "failed"
    assert outcome.message == f"The block raised ValueError: the third batch at {__file__}:{line}"
    assert len(seen.graph_breaks) == 1
    assert "The recorded block failed" in str(seen)


def test_what_was_compiled_before_is_said_to_be_unseen() -> None:
    function = compiled(broken)
    function(torch.ones(3))
    with dynalyze.record() as served:
        function(torch.ones(3))
    assert served.report.outcome.status == "nothing_compiled" and not served.graph_breaks
    assert "torch.compiler.reset()" in served.report.outcome.message
    # The function and the part of it after the break.
    assert any(note.startswith("2 functions had been compiled before") for note in served.report.capture.notes)
    with dynalyze.record() as again:
        function(torch.ones(3), 2)
    assert again.recompiles[0].actual == "2" and len(again.graph_breaks) == 1


def test_every_thread_is_heard() -> None:
    with dynalyze.record() as seen:
        thread = threading.Thread(target=lambda: compiled(broken)(torch.ones(3)))
        thread.start()
        thread.join()
    assert len(seen.graph_breaks) == 1


def test_an_open_block_shows_what_it_has_so_far() -> None:
    with dynalyze.record() as seen:
        assert not seen.report.compilations
        compiled(broken)(torch.ones(3))
        assert len(seen.graph_breaks) == 1 and not seen.recompiles
        compiled(broken)(torch.ones(3), 2)
    assert len(seen.recompiles) == 1


def test_a_recording_is_for_one_block() -> None:
    seen = dynalyze.record()
    with pytest.raises(RuntimeError, match="nothing was recorded yet"):
        seen.report
    with seen:
        pass
    with pytest.raises(RuntimeError, match="for each block"), seen:
        pass
    assert repr(dynalyze.record()) == "<dynalyze.Recording, not begun>"
    assert repr(seen).endswith("0 graph breaks, 0 recompiles, 1 finding>")


def test_files_that_torch_numbered_before_have_names() -> None:
    """torch tells the number of a file once in a process, to whoever listens then."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 7 else x

    def sizes() -> None:
        function = torch.compile(doubled, backend="eager", dynamic=True)
        for size in (7, 8):
            function(torch.ones(size))

    with dynalyze.record() as first:
        sizes()
    torch.compiler.reset()
    with dynalyze.record() as second:
        sizes()
    for seen in (first, second):
        assert [each.forced_by.file for each in seen.recompiles if each.forced_by] == [__file__]


def test_a_cell_of_a_notebook_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    name, text = "<ipython-input-7-0123456789ab>", "def cell(x):\n    print(x.shape)\n    return x + 1\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)
    try:
        with dynalyze.record() as seen:
            compiled(names["cell"])(torch.ones(2))
        (found,) = seen.graph_breaks
        assert (found.location.file, found.location.line) == (name, 2)
        assert found.location.code == "print(x.shape)" and found.snippet is not None
        torch.compiler.reset()
        told = SimpleNamespace(format_code_name=lambda file: ("Cell", "In[7]") if file == name else None)
        shell = SimpleNamespace(compile=told)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        with dynalyze.record() as seen:
            compiled(names["cell"])(torch.ones(2))
        assert seen.report.sources[0].path == "In[7]"
        assert seen.graph_breaks[0].location == msgspec.structs.replace(found.location, file="In[7]")
    finally:
        del linecache.cache[name]


def test_saved_in_the_form_of_the_suffix(tmp_path: Path) -> None:
    with dynalyze.record() as seen:
        compiled(broken)(torch.ones(3))
    for suffix, part in (
        (".html", "<!doctype html>"),
        (".md", "graph break"),
        (".sarif", '"2.1.0"'),
        (".xml", "<?xml"),
    ):
        seen.save(tmp_path / f"report{suffix}")
        assert part.lower() in (tmp_path / f"report{suffix}").read_text().lower()
    seen.save(str(tmp_path / "report.json"))
    assert from_json((tmp_path / "report.json").read_bytes()).graph_breaks == seen.graph_breaks
    with pytest.raises(ValueError, match=r"ends in one of \.json, \.html"):
        seen.save(tmp_path / "report.pdf")
    with pytest.raises(OSError):
        seen.save(tmp_path / "missing" / "report.json")


def test_the_page_in_a_notebook_is_one_inert_frame() -> None:
    def hostile(x: torch.Tensor) -> torch.Tensor:
        print('"></iframe><script>steal()</script>')
        return x + 1

    with dynalyze.record() as seen:
        compiled(hostile)(torch.ones(3))
    html = seen._repr_html_()
    assert html.startswith("<style>") and html.endswith("></iframe>")
    assert html.count("<") == 10  # Our own five elements: the page and the summary inside are all escaped.
    assert "<script" not in html and html.count("<iframe") == html.count("</iframe") == 1
    assert 'sandbox="allow-scripts' in html and "allow-same-origin" not in html


def test_options_of_the_command_line(tmp_path: Path) -> None:
    with dynalyze.record(no_source=True, redact=True) as seen:
        compiled(broken)(torch.ones(3))
    seen.save(tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text()
    assert "between" not in text and str(Path.home()) not in text


def test_the_folder_goes_with_the_recording() -> None:
    with dynalyze.record() as seen:
        compiled(broken)(torch.ones(3))
    folder = seen._folder
    assert folder is not None and folder.stat().st_mode & 0o777 == 0o700
    seen.report
    assert not folder.exists()
    unread = dynalyze.record().start()
    folder = unread._folder
    unread.stop()
    del unread
    assert folder is not None and not folder.exists()


def test_recording_changes_no_answer_and_no_graph() -> None:
    counter = CompileCounter()
    plain = torch.compile(broken, backend=counter)(torch.ones(3))
    frames, ops = counter.frame_count, counter.op_count
    torch.compiler.reset()
    counter.clear()
    with dynalyze.record():
        recorded = torch.compile(broken, backend=counter)(torch.ones(3))
    torch.testing.assert_close(recorded, plain)
    assert (counter.frame_count, counter.op_count) == (frames, ops)


def test_importing_dynalyze_imports_next_to_nothing() -> None:
    code = (
        "import sys, dynalyze; heavy = {'torch', 'msgspec', 'jinja2', 'rich', 'click'}; "
        "assert not heavy & set(sys.modules); seen = dynalyze.record(); assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WALL_SECONDS)


def test_every_example_of_the_documentation_is_run_somewhere() -> None:
    parts = re.split(r"^## ", DOC.read_text(), flags=re.MULTILINE)
    sections = [part.partition("\n")[0] for part in parts if "```python" in part]
    here, test_pytest_plugin = ["A notebook, or any block of code"], ["pytest"]
    test_trainer_callback = ["The Trainer of transformers", "Accelerate"]
    assert sections == [*here, *test_pytest_plugin, *test_trainer_callback]


def test_the_documented_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = run_example("A notebook, or any block of code", tmp_path)["seen"]
    assert [found.location.code for found in seen.graph_breaks] == ['print("mean", y.mean())']
    assert (tmp_path / "report.html").is_file()
    assert "1 graph break" in capsys.readouterr().out
