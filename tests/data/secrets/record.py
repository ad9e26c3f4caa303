"""Takes from gitleaks' rules the patterns that tell a token by its own shape: `python record.py gitleaks.toml VERSION`.

The file is config/gitleaks.toml of https://github.com/gitleaks/gitleaks (MIT, see LICENSE beside this). Patterns that
need a word near the token, and Go's notation, are left out; what remains is what `secret_shapes` has to know.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import tomllib

_NEAR_A_WORD = ("[\\w.-]{0,50}?", "curl", "<add key", "secret_key")
_END = re.compile(r"\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)$")
# By a word near it after all, or the header of a key alone, which is no secret.
_LEFT_OUT = {"facebook-access-token", "sourcegraph-access-token", "sidekiq-sensitive-url", "kubernetes-secret-yaml"}


def patterns(file: Path) -> dict[str, str]:
    """The patterns by the id of their rule, as Python writes them."""
    found = {}
    for rule in tomllib.loads(file.read_text(encoding="utf-8"))["rules"]:
        pattern = rule.get("regex", "")
        if not pattern or rule["id"] in _LEFT_OUT or any(part in pattern for part in _NEAR_A_WORD):
            continue
        pattern = _END.sub("", pattern).replace("(?i)", "").replace("(?-i:", "(?:").replace("(?i:", "(?:")
        pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace("\\z", "\\Z").replace("\\b", "")
        pattern = pattern.replace("hooks.slack.com", r"hooks\.slack\.com")
        found[rule["id"]] = pattern
    return found


if __name__ == "__main__":
    told = {"origin": "gitleaks", "version": sys.argv[2], "patterns": patterns(Path(sys.argv[1]))}
    target = Path(__file__).with_name("gitleaks.json")
    target.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
