"""Names in the house: one name for one thing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_two_classes_have_one_name() -> None:
    """But for what users import from `dynalyze.integrations`: there the module says which library it is for."""
    files = (path for path in (ROOT / "analyzer").rglob("*.py") if path.parent.name != "integrations")
    names = Counter(name for path in files for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.M))
    assert [name for name, count in names.items() if count > 1] == []
