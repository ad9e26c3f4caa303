"""What the terminal's summaries share: width and colour, places in the code, texts that cannot forge a line."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dynalyze.render.text.report import short_path
from dynalyze.report import Location
from dynalyze.text.amounts import count_of
from dynalyze.text.escape import one_line as one_line

_WIDEST = 100
_CODE = re.compile(r"`[^`\n]+`")
# Stands for a blank inside of code while lines are made. No text of a run holds it: it is shown as an escape.
_KEPT = "\ue000"
_MARGIN = 8


class Summary:
    """A text under construction, with colours where standard output is a terminal and NO_COLOR is unset."""

    def __init__(self, color: bool | None = None, width: int | None = None) -> None:
        if color is None:
            # https://no-color.org: an empty NO_COLOR says nothing.
            wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            color = sys.stdout.isatty() and wanted
        self._out = io.StringIO()
        self._console = Console(
            file=self._out, width=width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
            force_terminal=color, no_color=not color, color_system="standard" if color else None,
            highlight=False, emoji=False, legacy_windows=False, force_jupyter=False,
        )  # fmt: skip

    @property
    def width(self) -> int:
        return self._console.width

    def line(self, text: Text | str = "", style: str = "") -> None:
        """A line of its own; it wraps."""
        self._console.print(self._kept(text, style))

    def indented(self, text: Text | str, style: str = "", by: int = 3) -> None:
        self._console.print(Padding(self._kept(text, style), (0, 0, 0, by), expand=False))

    def setting(self, line: str) -> None:
        """A setting to paste, however long: never wrapped."""
        text = Text.assemble("   ", ("setting  ", "dim"), one_line(line))
        self._console.print(self._kept(text, ""), soft_wrap=True)

    def code(self, code: str, by: int = 5) -> None:
        """A line of code, cut where it does not fit."""
        self.indented(Text(one_line(code), no_wrap=True, overflow="ellipsis"), by=by)

    def cut(self, text: Text) -> None:
        """A line that ends with an ellipsis where it does not fit."""
        self._console.print(text, no_wrap=True, overflow="ellipsis")

    def beside(self, head: Text, text: Text | str, by: int = 0) -> None:
        """A text beside its heading, wrapped within a column of its own."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(head, self._kept(text))
        self._console.print(Padding(grid, (0, 0, 0, by), expand=False))

    def action(self, text: str, by: int = 3) -> None:
        self.beside(Text("→", style="green"), text, by)

    def left_out(self, number: int, what: str = "", by: int = 0, where: str = "the page") -> None:
        """How many entries of a list are not shown; nothing where all are."""
        if number > 0:
            counted = count_of(number, f"more {what}") if what else f"{number:,} more"
            self.indented(f"{counted}: see {where} or --json.", "dim", by)

    def rows(
        self, heads: Sequence[str], rows: Iterable[Sequence[Text | str]], *, right: Container[int] = (), by: int = 3
    ) -> None:
        """A table, without heads where there are none; what does not fit wraps within its column. `right`: the columns
        of numbers.
        """
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=bool(heads))
        for at, head in enumerate(heads):
            table.add_column(Text(one_line(head)), justify="right" if at in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(one_line(cell)) if isinstance(cell, str) else cell for cell in row))
        self._console.print(Padding(table, (0, 0, 0, by), expand=False))

    def unwrapped(self, text: Text) -> None:
        """A line that is copied as a whole: a command."""
        self._console.print(text, soft_wrap=True)

    def place(self, location: Location) -> None:
        try:  # Relative where that is shorter to read and still below the current directory.
            path = str(Path(location.file).relative_to(Path.cwd()))
        except (ValueError, OSError):  # OSError: the current directory is gone.
            path = short_path(location.file)
        place = Text(f"{one_line(path)}:{location.line}", style="cyan")
        if location.function:
            place.append(f" in {one_line(location.function)}", style="dim")
        self.indented(place)
        if location.code:
            self.code(location.code)

    def files(self, files: Sequence[tuple[str, str]]) -> None:
        """The files that were written, unwrapped, so that they can be copied."""
        for name, path in files:
            self.unwrapped(Text.assemble((f"{name}  ", "dim"), one_line(path)))

    def text(self) -> str:
        """All of it, without blanks at the ends of lines."""
        return re.sub(r"[ \t]+$", "", self._out.getvalue().replace(_KEPT, " "), flags=re.MULTILINE)

    def _kept(self, text: Text | str, style: str = "") -> Text:
        """The text, so that no line ends inside of code that fits on one: it is there to be copied.

        A plain one can forge no line of ours.
        """
        shown = Text(one_line(text), style=style) if isinstance(text, str) else text
        room = self.width - _MARGIN
        shown.plain = _CODE.sub(
            lambda code: code[0].replace(" ", _KEPT) if cell_len(code[0]) <= room else code[0], shown.plain
        )
        return shown
