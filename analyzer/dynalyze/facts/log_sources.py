"""Source lines for somebody else's log: those that it quotes. The files that it names stay closed."""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections.abc import Iterable, Mapping
from pathlib import Path

from dynalyze.facts.sources import Sources

_LARGEST_FILE = 16 << 20


class LogSources(Sources):
    """A file is opened only where the log recorded its sha256, and below a folder that the user gave.

    torch's logs record no such hashes today, so for them every file stays closed.
    """

    def __init__(
        self,
        quoted: Mapping[tuple[str, int], str],
        roots: Iterable[Path] = (),
        hashes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(readable=False)
        self._quoted = quoted
        self._roots = [root.resolve() for root in roots]
        self._hashes = hashes or {}

    def line(self, file: str, number: int) -> str | None:
        found = super().line(file, number)
        return found if found is not None else self._quoted.get((file, number))

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            self._files[file] = self._verified(file)
        return self._files[file]

    def _verified(self, file: str) -> list[str]:
        expected = self._hashes.get(file)
        if not expected or not Path(file).is_absolute():
            return []
        try:
            path = Path(file).resolve(strict=True)
            if not any(path.is_relative_to(root) for root in self._roots) or not path.is_file():
                return []
            with path.open("rb") as source:
                content = source.read(_LARGEST_FILE)
            if hashlib.sha256(content).hexdigest() != expected:
                return []
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            text = content.decode(encoding)
        except (OSError, ValueError, RuntimeError, SyntaxError):
            return []
        return io.IncrementalNewlineDecoder(None, translate=True).decode(text).removesuffix("\n").split("\n")
