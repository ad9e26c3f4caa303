"""A recording in a notebook: the page in a frame, its summary where frames are not shown, cells by their names."""

from __future__ import annotations

import linecache
import re
import sys
from functools import cache
from types import SimpleNamespace

import pytest

from dynalyze.recording.build import cell_names, with_cell_names
from dynalyze.recording.recorder import Recording, framed
from dynalyze.render import terminal
from dynalyze.report import Location
from sample_reports import hostile_report, rich_report

FILE = "/tmp/ipykernel_4711/1234567.py"
TAGS = re.compile(r"<(/?\w+)")
SAMPLES = {"rich": rich_report, "hostile": hostile_report}


@cache
def page_of(name: str) -> str:
    return framed(SAMPLES[name]())


def notebook(monkeypatch: pytest.MonkeyPatch, compiler: object) -> None:
    """A process in which IPython ran a cell."""
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(linecache.cache, FILE, (1, None, ["x = 1\n"], FILE))


def knows_cell_3(file: str) -> tuple[str, str] | None:
    return ("Cell", "In[3]") if file == FILE else None


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_adds_only_our_own_elements_to_the_notebook(name: str) -> None:
    page = page_of(name)
    assert TAGS.findall(page) == ["style", "/style", "div", "p", "/p", "pre", "/pre", "/div", "iframe", "/iframe"]
    sandbox = re.search(r'sandbox="([^"]*)"', page)
    assert sandbox is not None and "allow-scripts" in sandbox[1] and "allow-same-origin" not in sandbox[1]


def test_without_frame_and_style_the_summary_is_left() -> None:
    """What Jupyter leaves of an output that it does not trust."""
    left = re.sub(r"<(style|iframe).*?</\1>", "", page_of("rich"), flags=re.DOTALL)
    assert "6 graph breaks" in left
    assert "trust the notebook" in left
    assert "display" not in left


def test_what_shows_text_alone_gets_the_summary() -> None:
    seen = Recording()
    seen._report = rich_report()
    bundle = seen._repr_mimebundle_()
    assert bundle["text/html"] == page_of("rich")
    assert bundle["text/plain"].startswith("6 graph breaks")
    assert max(map(len, bundle["text/plain"].splitlines())) <= 80
    assert "\x1b" not in bundle["text/plain"]


def test_a_summary_is_a_text_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert terminal.render(rich_report(), color=False).startswith("6 graph breaks")


def test_cells_have_the_names_of_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook(monkeypatch, SimpleNamespace(format_code_name=knows_cell_3))
    assert cell_names() == {FILE: "In[3]"}


def test_every_text_of_a_report_names_the_cell() -> None:
    report = rich_report()
    report.graph_breaks[0].location = Location(FILE, 2)
    report.recompiles[0].guard = f"x.size()[0] == 4  # {FILE}:2 in score"
    renamed = with_cell_names(report, {FILE: "In[3]"})
    assert renamed.graph_breaks[0].location.file == "In[3]"
    assert renamed.recompiles[0].guard == "x.size()[0] == 4  # In[3]:2 in score"
    assert renamed.graph_breaks[1].location.file == report.graph_breaks[1].location.file


def test_without_a_notebook_there_are_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert cell_names() == {}
    report = rich_report()
    assert with_cell_names(report, {}) is report


def test_an_old_ipython_keeps_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook(monkeypatch, SimpleNamespace())
    assert cell_names() == {}
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert cell_names() == {}
