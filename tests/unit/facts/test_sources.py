"""Lines of the program under test, columns in them, and files that a log names, which stay closed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dynalyze.capture.events import Frame
from dynalyze.facts.breaks import looks
from dynalyze.facts.sources import LogSources, Sources
from dynalyze.report import Location
from records import write_source


def spanned(file: str, line: int, expression: str) -> Location:
    """The location of `expression` in a line, from columns as Python gives them: UTF-8 byte offsets."""
    text = Path(file).read_bytes().splitlines()[line - 1]
    start = text.index(expression.encode())
    return Sources().location(file, line, "f", start, start + len(expression.encode()))


@pytest.mark.parametrize(
    ("source", "expression", "column"),
    [
        ("    n = x.item()", "x.item()", 8),
        ("\tn = x.item()", "x.item()", 5),
        ("    größe = x.item()", "x.item()", 12),
        ("    s = 'é🔥日本' + str(x)  # ü", "str(x)", 17),
        ("    变量 = 日本.item()", "日本.item()", 9),
        ("    e\u0301 = x.item()", "x.item()", 9),
    ],
)
def test_columns_are_byte_offsets_and_become_characters(
    tmp_path: Path, source: str, expression: str, column: int
) -> None:
    file = write_source(tmp_path, f"def f(x):\n{source}\n")
    found = spanned(file, 2, expression)
    assert (found.column, found.end_column) == (column, column + len(expression))
    assert source[column : column + len(expression)] == expression
    assert Sources().expression(found) == expression


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("y = net(\n    x,  # tokens\n    mask\n)\nz = 1\n", "y = net(x, mask)"),
        ("  def g(\n    self,\n    x: Tensor,\n    *args\n  ):\n    pass\n", "def g(self, x: Tensor, *args):"),
        ("    if net(\n        x\n    ):\n        pass\n", "if net(x):"),
        ("def f(x): return x\ny = 1\n", "def f(x): return x"),
        ("net(x)  # once\n", "net(x)  # once"),
        ("net(\n", "net("),
    ],
)  # fmt: skip
def test_a_call_and_a_definition_over_several_lines_are_given_whole(tmp_path: Path, source: str, code: str) -> None:
    assert Sources().whole(write_source(tmp_path, source), 1, "f").code == code
    assert Sources().whole("/no/such/file.py", 1, "f").code is None


@pytest.mark.parametrize(
    ("source", "expression"),
    [
        (
            "    logger.warning_once(\n        f'{x} is unknown. '\n        'Taking y.'\n    )\n    z = 1\n",
            "logger.warning_once(f'{x} is unknown. Taking y.')",
        ),
        ("    y = torch.cat(\n        [x, x],  # twice\n    ) + 1\n", "torch.cat([x, x])"),
        ("    if x.sum(\n    ) > 0:\n        pass\n", ""),
        ("    print(\n", ""),
    ],
)
def test_an_expression_over_several_lines_is_given_on_one(tmp_path: Path, source: str, expression: str) -> None:
    file = write_source(tmp_path, source)
    column = re.search(r"logger|torch|x\.sum|print", source).start()  # type: ignore[union-attr]
    found = Sources().location(file, 1, "f", column, None)
    assert Sources().expression(found) == expression


@pytest.mark.parametrize(
    ("line", "expression", "end", "told"),
    [
        ("    logger.warn(", "logger", 5, None),  # the end of the call, four lines below
        ("    logger.warn(", "logger", 10, 10),
        ("    logger.warn(", "logger", 15, 15),
        ("    y = [x.item(), torch.cat(", "x.item", 15, 15),
        ("    if größe(", "größe", 12, 12),
        ("    if größe(", "größe", 13, None),
    ],
)
def test_the_end_of_an_expression_may_be_a_column_of_another_line(
    tmp_path: Path, line: str, expression: str, end: int, told: int | None
) -> None:
    closing = "    ) > 0:" if line.strip().startswith("if") else "    )]" if "[" in line else "    )"
    file = write_source(tmp_path, f"{line}\n        x,\n{closing}\n    z = 1\n")
    begins = len(line[: line.index(expression)].encode())
    ends = len(line[:end].encode()) if told is not None else end
    assert Sources().location(file, 1, "f", begins, ends).end_column == told


@pytest.mark.parametrize(("start", "end"), [(8, 35), (7, 10), (4, 9)])
def test_with_columns_of_another_line_a_branch_is_at_its_condition(tmp_path: Path, start: int, end: int) -> None:
    """Beyond its end, or within a word: torch told those of the line before."""
    file = write_source(tmp_path, "    if größer(x) > 0:  # often\n        pass\n")
    assert Sources().expression(Sources().location(file, 1, "f", start, end if end < 30 else 90)) == "größer(x) > 0"


@pytest.mark.parametrize(("start", "column"), [(4, 4), (8, None), (6, None)])
def test_of_columns_of_another_line_the_begin_of_the_code_is_kept(
    tmp_path: Path, start: int, column: int | None
) -> None:
    file = write_source(tmp_path, "    y = x.item()\n")
    found = Sources().location(file, 1, "f", start, 35)
    assert (found.column, found.end_column) == (column, None)


@pytest.mark.parametrize("line", [0, -1, 3, 10**9])
def test_a_line_that_the_file_does_not_have(tmp_path: Path, line: int) -> None:
    file = write_source(tmp_path, "a = 1\nb = 2\n")
    sources = Sources()
    assert sources.line(file, line) is None
    assert sources.snippet(Location(file, line)) is None
    found = sources.location(file, line, "f", 4, 9)
    assert found.line >= 1
    assert found.code is None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = write_source(tmp_path, b"\xff\xfe\x00x = 1\n", "binary.py")
    wrong = write_source(tmp_path, b"# coding: no-such-codec\nx = 1\n", "codec.py")
    os.mkfifo(tmp_path / "pipe.py")
    strange = ["model.py", "", "/dev/zero", "/dev/stdin", "/proc/self/mem", "/tmp/\x00.py", "/" + "x" * 5000]
    for file in (binary, wrong, str(tmp_path), str(tmp_path / "pipe.py"), str(tmp_path / "none.py"), *strange):
        found = Sources().location(file, 1, "f", 2, 4)
        assert (found.code, found.column, found.end_column) == (None, 2, 4)
        assert Sources().snippet(found) is None


@pytest.mark.parametrize("inside", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_lines_end_as_they_do_for_python(tmp_path: Path, end: str, inside: str) -> None:
    """str.splitlines ends a line at more characters than Python's own tokenizer does."""
    file = write_source(tmp_path, f"s = 'a{inside}b'{end}b = 2{end}c = 3{end}".encode())
    assert Sources().line(file, 2) == "b = 2"


def test_a_declared_encoding_and_a_byte_order_mark_are_heeded(tmp_path: Path) -> None:
    """Python's columns count UTF-8 bytes whatever the file is written in."""
    file = write_source(tmp_path, "# -*- coding: latin-1 -*-\né = x.item()\n".encode("latin-1"))
    found = Sources().location(file, 2, "f", len("é = ".encode()), len("é = x.item()".encode()))
    assert (found.code, Sources().expression(found)) == ("é = x.item()", "x.item()")
    marked = write_source(tmp_path, b"\xef\xbb\xbfprint(x)\n", "marked.py")
    assert Sources().location(marked, 1, "f", 0, 8).code == "print(x)"


def test_where_paths_are_not_ours_to_open_nothing_is_opened(tmp_path: Path) -> None:
    file = write_source(tmp_path, "a = 1\n")
    found = Sources(readable=False).location(file, 1, "f", 0, 1)
    assert (found.code, found.column) == (None, 0)
    assert Sources(readable=False).snippet(found) is None
    quoted = LogSources({(file, 2): "b = 2"})
    assert (quoted.line(file, 1), quoted.location(file, 2).code) == (None, "b = 2")


def test_lines_behind_a_line_that_read_values_decide_by_them_or_print(tmp_path: Path) -> None:
    text = """
def two(x):
    return x.item()

def four(self, xs):
    n = xs[0].item()
    for x in xs:
        n = n + two(x)
        if x.isnan().any(): raise ValueError
    assert any(xs) and x.numel() > 2
    if x.shape[0] > 2: y = x.all()
    def later(x):
        print(x)
    return [z for z in x.tolist()], y.max() if (y > 0).all() else print(y)

def five(x):
    print(x)
"""
    file = write_source(tmp_path, text)
    assert looks(Sources(), Frame(file, 8, "four")) == [9, 14]
    assert looks(Sources(), Frame(file, 3, "two")) == []
    assert looks(Sources(readable=False), Frame(file, 8, "four")) == []
