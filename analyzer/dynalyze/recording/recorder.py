"""`dynalyze.record()` and what it returns. Rules and renderers are imported when somebody asks for them."""

from __future__ import annotations

import importlib
import os
import threading
import time
import traceback
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalyze.capture.attach import InProcess
from dynalyze.capture.torch_private import dynamo
from dynalyze.files.temporary import TemporaryFolder

if TYPE_CHECKING:
    from dynalyze.report import Finding, GraphBreak, Outcome, Recompile, Report

_OURS = str(Path(__file__).resolve().parents[1])
_LONGEST = 2000
_COLUMNS = 80
_HEIGHT = 640
# Scripts of the page may run and its links open a tab; it reaches neither the notebook nor the notebook's cookies.
_SANDBOX = "allow-scripts allow-popups allow-downloads"
_WHY_PLAIN = "This is the summary. Run the cell, or trust the notebook, to see the whole page."
_RENDERERS = {".json": "", ".html": "html", ".md": "markdown", ".sarif": "sarif", ".xml": "junit"}


@dataclass(frozen=True)
class RecordingPlace:
    """The line that began a recording; `around` are file and name of the frames outside its function."""

    file: str
    line: int
    function: str
    around: tuple[tuple[str, str], ...] = ()


def here(outside: tuple[str, ...] = ()) -> RecordingPlace:
    """The innermost line outside dynalyze and these folders."""
    frames = dynamo.stack_above()
    while len(frames) > 1 and frames[-1].file.startswith((_OURS, *outside)):
        frames.pop()
    own = frames.pop()
    return RecordingPlace(own.file, own.line, own.name, tuple((frame.file, frame.name) for frame in frames))


def ending(error: BaseException | None, seconds: float) -> Outcome:
    """How a block ended: with what `error` at which line, or by itself."""
    from dynalyze.report import Outcome

    seconds = round(seconds, 3)
    if error is None or isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code):
        return Outcome("complete", seconds=seconds)
    if isinstance(error, KeyboardInterrupt):
        return Outcome("interrupted", "Interrupted from the keyboard.", seconds=seconds)
    said = traceback.format_exception_only(type(error), error)[-1].strip()[:_LONGEST]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    at = f" at {frames[-1].filename}:{frames[-1].lineno or 0}" if frames else ""
    return Outcome("failed", f"The block raised {said}{at}", seconds=seconds)


def record(*, no_source: bool = False, redact: bool = False, show_values: bool = False) -> Recording:
    """Record what torch.compile does in a block: `with dynalyze.record() as seen: model(x)`.

    What was recorded is there after the block, also when the block raised, and what came so far while it runs. The
    options are those of the command line: leave out source lines, leave out names of this machine, show long values.
    """
    return Recording(no_source=no_source, redact=redact, show_values=show_values)


class HasReport(ABC):
    """What has a report, and the parts of it that are asked for most."""

    @property
    @abstractmethod
    def report(self) -> Report:
        """The typed report, judged by every rule."""

    @property
    def graph_breaks(self) -> list[GraphBreak]:
        """Every graph break once, with its line and cause."""
        return self.report.graph_breaks

    @property
    def recompiles(self) -> list[Recompile]:
        """Every recompile, with the guard that failed and its values."""
        return self.report.recompiles

    @property
    def findings(self) -> list[Finding]:
        """What the rules say, the most urgent first."""
        return self.report.findings

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report: `.html` is the page, `.json` the report JSON; `.md`, `.sarif` and `.xml` (JUnit) too.

        Raises ValueError for another suffix, and OSError where the file cannot be written: what was there is untouched.
        """
        from dynalyze.files.read_write import write_whole_file
        from dynalyze.report.document import to_json

        renderer = _RENDERERS.get(Path(path).suffix)
        if renderer is None:
            raise ValueError(f"{path}: name a file that ends in one of {', '.join(_RENDERERS)}")
        render = importlib.import_module(f"dynalyze.render.{renderer}").render if renderer else to_json
        write_whole_file(Path(path), render(self.report))


class Recording(HasReport):
    """A recorded block, and its report.

    All threads of the process are recorded: autograd compiles backward graphs in one of its own. Blocks may be nested.
    What was compiled before is seen only where it recompiles. `outside` are folders of libraries that begin a recording
    for their users, whose line is its place then.
    """

    def __init__(
        self, *, no_source: bool = False, redact: bool = False, show_values: bool = False, outside: tuple[str, ...] = ()
    ) -> None:
        self._outside = outside
        self._shown = {"no_source": no_source, "redact": redact, "show_values": show_values}
        self._lock = threading.RLock()
        self._listening: InProcess | None = None
        self._folder: Path | None = None
        self._remove_folder: weakref.finalize[[], Recording] | None = None
        self._place: RecordingPlace | None = None
        self._compiled_before = 0
        self._began = 0.0
        self._ended: Outcome | None = None
        self._report: Report | None = None

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop(error)

    def start(self) -> Recording:
        """Begin to listen. Raises RuntimeError the second time."""
        with self._lock:
            if self._folder is not None:
                raise RuntimeError("this recording was used already: call dynalyze.record() for each block")
            self._place = here(self._outside)
            folder = TemporaryFolder()
            self._folder, self._remove_folder = folder.path, weakref.finalize(self, folder.remove)
            self._compiled_before = dynamo.compiled_functions()
            self._listening = InProcess(self._folder)
            self._listening.start()
            self._began = time.monotonic()
        return self

    def stop(self, error: BaseException | None = None) -> None:
        """Stop listening, and leave torch as it was; `error` ended the block. A second call does nothing."""
        with self._lock:
            if self._listening is None:
                return
            listening, self._listening = self._listening, None
            listening.stop()
            self._ended = ending(error, time.monotonic() - self._began)

    def given(self, module: object, file: str = "", line: int = 0) -> None:
        """Note a module that was given to torch.compile before the block, and where."""
        if self._listening is not None:
            self._listening.given(module, file, line)

    @property
    def report(self) -> Report:
        """The report, judged by every rule; of an open block what there is so far. Raises RuntimeError where the
        recording has not begun.
        """
        from dynalyze.privacy import showable
        from dynalyze.recording.build import block_report

        with self._lock:
            if self._report is not None:
                return self._report
            if self._folder is None or self._place is None:
                raise RuntimeError("nothing was recorded yet: use it as `with dynalyze.record() as seen:`")
            ended = self._ended or ending(None, time.monotonic() - self._began)
            block = block_report(self._folder, self._place, ended, self._compiled_before)
            report = showable(block, **self._shown)
            if self._ended is not None:
                self._report = report
                if self._remove_folder is not None:
                    self._remove_folder()
            return report

    def __repr__(self) -> str:
        if self._folder is None:
            return "<dynalyze.Recording, not begun>"
        from dynalyze.text.amounts import count_of

        report = self.report
        facts = ((report.graph_breaks, "graph break"), (report.recompiles, "recompile"), (report.findings, "finding"))
        counts = ", ".join(count_of(len(found), noun) for found, noun in facts)
        return f"<dynalyze.Recording of {report.target.spec}: {counts}>"

    def __str__(self) -> str:
        """The summary, as the command line prints it."""
        from dynalyze.render import terminal

        return terminal.render(self.report).rstrip("\n")

    def _repr_html_(self) -> str:
        return framed(self.report)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The page for a notebook, and the summary for what shows text alone."""
        return {"text/html": self._repr_html_(), "text/plain": _summary(self.report)}


def framed(report: Report) -> str:
    """The page for a notebook, in a frame of its own: nothing in it reaches the notebook around it. Its summary stands
    beside it, for where a notebook is not trusted: Jupyter takes frames and styles away there.
    """
    from markupsafe import escape

    from dynalyze.render import html

    return (
        "<style>.dynalyze-plain { display: none }</style>"
        f'<div class="dynalyze-plain"><p>{_WHY_PLAIN}</p><pre>{escape(_summary(report))}</pre></div>'
        f'<iframe sandbox="{_SANDBOX}" srcdoc="{escape(html.render(report))}" title="dynalyze report" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0; resize: vertical"></iframe>'
    )


def _summary(report: Report) -> str:
    from dynalyze.render import terminal

    return terminal.render(report, color=False, width=_COLUMNS).rstrip("\n")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext dynalyze` in a notebook: `%%dynalyze` above a cell records what torch.compile does in it."""

    def dynalyze(line: str, cell: str) -> Recording:
        """%%dynalyze [NAME]: record this cell and show the page; NAME is given the recording."""
        with record() as seen:
            shell.run_cell(f"\n{cell}")  # Its lines as one sees them, below the magic. It prints its own traceback.
        if line.strip():
            shell.user_ns[line.strip()] = seen
        return seen

    shell.register_magic_function(dynalyze, "cell")
