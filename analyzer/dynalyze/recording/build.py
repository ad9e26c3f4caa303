"""From the events of a recorded block to its report."""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynalyze.capture.environment import torch_facts
from dynalyze.capture.events import BreakSeen, CompileStarted, ErrorSeen, Frame, NothingCompiled
from dynalyze.events.log import RunLog
from dynalyze.events.reading import read_run
from dynalyze.facts.build import assemble
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.facts.why_not_compiled import reason_for_block
from dynalyze.files.paths import working_folder
from dynalyze.recording.recorder import RecordingPlace
from dynalyze.report import Outcome, Report, Target, printable
from dynalyze.report.sensitivity import Holds, changed
from dynalyze.text.amounts import count_of


def cell_names() -> dict[str, str]:
    """The names of the notebook's cells, by the file names that IPython gave them."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell: Any = get_ipython() if get_ipython is not None else None
    # IPython 8 and later has this name of a cell in its own tracebacks: "cell", "In[3]"; None for any other file.
    names = {}
    with contextlib.suppress(AttributeError):
        for file in list(linecache.cache):  # IPython keeps the lines of every cell there.
            if name := shell.compile.format_code_name(file):
                names[file] = str(name[1])
    return names


def with_cell_names(report: Report, names: Mapping[str, str]) -> Report:
    """The report with these names in place of files in every text, guards and messages included."""
    if not names:
        return report
    files = re.compile("|".join(re.escape(file) for file in sorted(names, key=len, reverse=True)))

    def renamed(_: Holds, text: str) -> str:
        return files.sub(lambda found: names[found[0]], text)

    return changed(report, renamed)


class LiveSources(Sources):
    """Also reads the cells of a notebook, which are in no file: Python keeps their lines."""

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            lines = super()._lines(file)
            if not lines and file not in self.changed:
                lines = [line.rstrip("\n") for line in linecache.getlines(file)]
            self._files[file] = lines
        return self._files[file]


def block_report(folder: Path, place: RecordingPlace, ended: Outcome, compiled_before: int) -> Report:
    """The facts of a block, without findings, from its events in `folder`."""
    run = read_run(folder)
    _leave_out_around(run, place)
    torch_folder, cells = "", cell_names()
    torch = sys.modules.get("torch")
    if torch is not None and run.processes:
        # The torch of this process; reading its versions takes a moment, so it is done here and not at the start.
        loaded = torch_facts(torch)
        run.processes[0].events.insert(0, loaded)
        torch_folder = loaded.folder
    spec = f"{Path(cells.get(place.file, place.file)).name or 'block'}:{place.line}"  # As `train.py:31`.
    report = assemble(
        run, Target("script", printable(spec)), [], Places(torch_folder), LiveSources(run), registry(torch_folder)
    )
    report.outcome = ended
    if ended.status == "complete" and report.capture.listener_errors:
        report.outcome.status = "incomplete"
        report.outcome.message = f"Not recorded: {report.capture.listener_errors[0]}."
    elif ended.status == "complete" and not (report.compilations or report.graph_breaks):
        silence = next((event for _, event in run.all() if isinstance(event, NothingCompiled)), None)
        report.outcome.status = "nothing_compiled"
        report.outcome.message = reason_for_block(silence, report.skipped_frames, compiled_before)
    report.capture.mode = "block"
    report.folder = printable(working_folder())
    if compiled_before:
        report.capture.notes.append(
            f"{count_of(compiled_before, 'function')} had been compiled before the recorded block. What broke in them "
            "then is not in this report; where they were compiled again in the block, that is."
        )
    return with_cell_names(report, cells)


def _leave_out_around(run: RunLog, place: RecordingPlace) -> None:
    """Remove the frames around the block from every stack that begins with them."""

    def inside(stack: list[Frame]) -> list[Frame]:
        count = len(place.around)
        begins = tuple((frame.file, frame.name) for frame in stack[:count])
        return stack[count:] if begins == place.around else stack

    for _, event in run.all():
        if isinstance(event, CompileStarted):
            event.stack = inside(event.stack)
        elif isinstance(event, BreakSeen | ErrorSeen):
            event.above = inside(event.above)
