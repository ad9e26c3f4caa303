"""X-MOD runs the adapter of one language, which a user chooses."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if config.default_language is None:
        config.default_language = config.languages[0]
