"""What the terminal's summaries share: width and colour, places in the code, texts that cannot forge a line."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dynalyze.report import Location
from dynalyze.text.visible import one_line as one_line
from dynalyze.words.report import short_path

_WIDEST = 100
_CODE = re.compile(r"`[^`\n]+`")
# Stands for a blank inside of code while lines are made. No text of a run holds it: it is shown as an escape.
_KEPT = "\ue000"
_MARGIN = 8


class Summary:
    """A text under construction, with colours where standard output is a terminal and NO_COLOR is unset."""

    def __init__(self, color: bool | None = None, width: int | None = None) -> None:
        if color is None:
            color = sys.stdout.isatty() and _wants_color()
        self._out = io.StringIO()
        self._console = Console(
            file=self._out, width=width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
            force_terminal=color, no_color=not color, color_system="standard" if color else None,
            highlight=False, emoji=False, legacy_windows=False, force_jupyter=False,
        )  # fmt: skip

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self._console.width

    def line(self, text: Text | str = "", style: str = "") -> None:
        """A line of its own; it wraps."""
        self._console.print(self._kept(Text(text, style=style) if isinstance(text, str) else text))

    def indented(self, text: Text, by: int = 3) -> None:
        """A line that belongs to the one above it."""
        self._console.print(Padding(self._kept(text), (0, 0, 0, by), expand=False))

    def beside(self, head: Text, text: Text, by: int = 0) -> None:
        """A text beside its heading, wrapped within a column of its own."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(head, self._kept(text))
        self._console.print(Padding(grid, (0, 0, 0, by), expand=False))

    def action(self, text: str, by: int = 3) -> None:
        """What to do about the lines above."""
        self.beside(Text("→", style="green"), Text(one_line(text)), by)

    def table(self, table: Table, by: int = 3) -> None:
        """Rows in columns; what does not fit wraps within its own."""
        self._console.print(Padding(table, (0, 0, 0, by), expand=False))

    def unwrapped(self, text: Text) -> None:
        """A line that is copied as a whole: a command."""
        self._console.print(text, soft_wrap=True)

    def place(self, location: Location) -> None:
        """File, line and function, and the line of code below."""
        place = Text(f"{one_line(_shown_path(location.file))}:{location.line}", style="cyan")
        if location.function:
            place.append(f" in {one_line(location.function)}", style="dim")
        self.indented(place)
        if location.code:
            self.indented(Text(one_line(location.code), no_wrap=True, overflow="ellipsis"), by=5)

    def files(self, files: Sequence[tuple[str, str]]) -> None:
        """The files that were written, unwrapped, so that they can be copied."""
        for name, path in files:
            self.unwrapped(Text.assemble((f"{name}  ", "dim"), one_line(path)))

    def text(self) -> str:
        """All of it, without blanks at the ends of lines."""
        return re.sub(r"[ \t]+$", "", self._out.getvalue().replace(_KEPT, " "), flags=re.MULTILINE)

    def _kept(self, text: Text) -> Text:
        """The text, so that no line ends inside of code that fits on one: it is there to be copied."""
        room = self.width - _MARGIN
        text.plain = _CODE.sub(lambda code: _on_one_line(code[0], room), text.plain)
        return text


def _on_one_line(code: str, room: int) -> str:
    return code.replace(" ", _KEPT) if cell_len(code) <= room else code


def _wants_color() -> bool:
    """https://no-color.org: an empty NO_COLOR says nothing."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shown_path(file: str) -> str:
    """Relative where that is shorter to read and still below the current directory."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the current directory is gone.
        return short_path(file)
