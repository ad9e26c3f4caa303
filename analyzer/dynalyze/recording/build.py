"""From the events of a recorded block to its report, on the road of every other report."""

from __future__ import annotations

import linecache
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from dynalyze.capture.environment import torch_facts
from dynalyze.events.log import RunLog
from dynalyze.events.reading import read_run
from dynalyze.events.types import Silence, TorchLoaded
from dynalyze.facts.build import assemble
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.facts.why_not_compiled import reason_for_block
from dynalyze.files.paths import working_folder
from dynalyze.recording.around import leave_out_around
from dynalyze.recording.cells import cell_names, with_cell_names
from dynalyze.recording.ending import BlockEnding
from dynalyze.recording.place import Place
from dynalyze.report import Outcome, Report, Target, printable
from dynalyze.text.amounts import count_of


class LiveSources(Sources):
    """Reads the cells of a notebook too: they are in no file, and Python keeps their lines."""

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            lines = super()._lines(file)
            if not lines and file not in self.changed:
                lines = [line.rstrip("\n") for line in linecache.getlines(file)]
            self._files[file] = lines
        return self._files[file]


def block_report(folder: Path, place: Place, ended: BlockEnding, compiled_before: int) -> Report:
    """All facts of a block, without findings; the events lie in `folder`."""
    run = read_run(folder)
    leave_out_around(run, place)
    torch_folder, cells = _add_torch(run), cell_names()
    spec = replace(place, file=cells.get(place.file, place.file)).spec
    report = assemble(
        run, Target("script", printable(spec)), [], Places(torch_folder), LiveSources(run), registry(torch_folder)
    )
    report.outcome = Outcome(ended.status, ended.message, None, ended.seconds)
    if ended.status == "complete" and report.capture.listener_errors:
        report.outcome.status = "incomplete"
        report.outcome.message = f"Not recorded: {report.capture.listener_errors[0]}."
    elif ended.status == "complete" and not (report.compilations or report.graph_breaks):
        report.outcome.status = "nothing_compiled"
        report.outcome.message = reason_for_block(_silence(run), report.skipped_frames, compiled_before)
    report.capture.mode = "block"
    report.folder = printable(working_folder())
    if compiled_before:
        report.capture.notes.append(_unheard(compiled_before))
    return with_cell_names(report, cells)


def _add_torch(run: RunLog) -> str:
    """Tell of the torch of this process; its versions take a moment to read, so not before they are asked for."""
    torch = sys.modules.get("torch")
    if torch is None or not run.processes:
        return ""
    told = msgspec.convert(torch_facts(torch), TorchLoaded, strict=False)
    run.processes[0].events.insert(0, told)
    return told.folder


def _silence(run: RunLog) -> Silence | None:
    return next((event for _, event in run.all() if isinstance(event, Silence)), None)


def _unheard(count: int) -> str:
    return (
        f"{count_of(count, 'function')} had been compiled before the recorded block. What broke in them then is not in "
        "this report; where they were compiled again in the block, that is."
    )
