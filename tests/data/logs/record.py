"""Records the programs beside it again: `python tests/data/logs/record.py`. Needs torch.

Each folder gets the logs that torch writes under TORCH_TRACE, one a process. So that they are small and hold nothing of
this machine, four things are changed: paths become those of no machine, /opt/venv and /job; texts of records that
dynalyze does not read keep their first lines only; of the records about events for a trace viewer the first 20 stay;
and the settings of compilers inside the metrics, 40 KB in each, become null.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = sysconfig.get_path("purelib")
STANDARD = sysconfig.get_path("stdlib")
UNREAD = re.compile(
    r'\] \{"(?:chromium_event|dynamo_cpp_guards_str|artifact": \{"name": "(?!recompile|dynamo_|torch_v|inductor_post))'
)
CONFIG = re.compile(r'("(?:inductor|dynamo|functorch)_config(?:_\w+)?": )"(?:[^"\\]|\\.)*"')
KEPT_LINES = 3
KEPT_CHARACTERS = 300
KEPT_VIEWER_EVENTS = 20


def main() -> None:
    record(HERE / "serve", [[]])
    record(HERE / "ranks", [["0"], ["1"]])


def record(folder: Path, processes: list[list[str]]) -> None:
    """Run the program of a folder, one process for each list of arguments, and keep their logs there."""
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "TORCH_TRACE": f"{name}/trace", "STORE": f"{name}/store"}
        environment.update(TORCHINDUCTOR_CACHE_DIR=f"{name}/inductor", TORCHINDUCTOR_COMPILE_THREADS="1")
        program = [sys.executable, str(folder / "program.py")]
        running = [
            subprocess.Popen([*program, *arguments], env=environment, stdout=subprocess.DEVNULL)
            for arguments in processes
        ]
        assert all(process.wait() == 0 for process in running)
        for old in folder.glob("*.log"):
            old.unlink()
        for log in sorted(Path(name, "trace").glob("*.log")):
            rank = re.search(r"rank_\d+_", log.name)
            name_kept = f"dedicated_log_torch_trace_{rank[0] if rank else ''}recorded.log"
            (folder / name_kept).write_text(neutral(log.read_text(), folder, name))


def neutral(text: str, folder: Path, scratch: str) -> str:
    for path, mark in ((str(folder), "/job"), (LIBRARIES, "/opt/venv/site-packages"), (STANDARD, "/opt/python"),
                       (sys.prefix, "/opt/venv"), (scratch, "/scratch"), (str(Path.cwd()), "/job")):  # fmt: skip
        text = text.replace(path, mark)
    return "".join(shortened(text))


def shortened(text: str) -> list[str]:
    kept: list[str] = []
    viewer_events = 0
    room = 0
    unread = False
    for line in text.splitlines(keepends=True):
        if not line.startswith("\t"):
            unread = UNREAD.search(line) is not None
            viewer_events += '] {"chromium_event"' in line
            dropped = '] {"chromium_event"' in line and viewer_events > KEPT_VIEWER_EVENTS
            room = 0 if dropped else KEPT_LINES if unread else len(text)
            line = CONFIG.sub(r"\1null", line)
        elif unread and len(line) > KEPT_CHARACTERS:
            line = line[:KEPT_CHARACTERS] + "\n"
        room -= 1
        if room >= 0:
            kept.append(line)
    return kept


if __name__ == "__main__":
    main()
