"""Keeps the first of several scripts that shows a fault when it runs by itself."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalyze.bench.workers import Workshop

_SHOWN = 1
_MOST_SECONDS = 120.0
_MOST_SECONDS_OF_ALL = 600.0


@dataclass(frozen=True)
class Repros:
    """Where scripts are tried, and where the one that shows the fault is kept."""

    shop: Workshop
    keep_in: Path

    def first_that_shows(self, scripts: Sequence[dict[str, str]], made_in: Path, name: str) -> Path | None:
        """The kept script; None where none of them ends with the exit status that says: it is wrong."""
        until = time.monotonic() + _MOST_SECONDS_OF_ALL
        for script in scripts:
            seconds = min(_MOST_SECONDS, until - time.monotonic())
            if script.get("script") and seconds > 0 and self._shows(made_in / script["script"], seconds):
                return self._kept(script, made_in, name)
        return None

    def _shows(self, script: Path, seconds: float) -> bool:
        """With empty caches: what a fault left in them must not speak for it."""
        return self.shop.exit_status(script, self.shop.empty_caches(), seconds) == _SHOWN

    def _kept(self, script: dict[str, str], made_in: Path, name: str) -> Path:
        self.keep_in.mkdir(parents=True, exist_ok=True)
        path = self._free(name)
        text = (made_in / script["script"]).read_text(encoding="utf-8")
        if data := script.get("data"):
            shutil.copyfile(made_in / data, path.with_suffix(".pt"))
            text = text.replace(f'"{data}"', f'"{path.stem}.pt"')
        path.write_text(text, encoding="utf-8")
        return path

    def _free(self, name: str) -> Path:
        """A name that no earlier script has: somebody may be at work with that."""
        stem = re.sub(r"[^\w.-]+", "_", name).strip("._") or "fault"
        names = [stem, *(f"{stem}_{number}" for number in range(2, 1000))]
        return next(path for each in names if not (path := self.keep_in / f"{each}.py").exists())
