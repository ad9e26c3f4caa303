"""What single classes need beside the rules: arguments of constructors, and expressions for inputs as in `rules`."""

from __future__ import annotations

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {}
INPUTS: dict[str, dict[str, Any]] = {}
