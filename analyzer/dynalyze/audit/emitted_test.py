"""Writes a pytest file that fails as long as the wrong answers of an audit are there."""

from __future__ import annotations

import os
import pprint
import re
import shutil
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from dynalyze.bench.bisect import cases
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
from dynalyze.facts.wrong_numbers import right_without, search_of, wrong_answers
from dynalyze.report import Report
from dynalyze.report.measurements import Accuracy

_REBUILT = ("object", "transformers")
_HEAD = '''"""Fails as long as torch.compile answers otherwise than eager. Written by `dynalyze audit`, torch {torch}.

Eager and compiled are set against fp64: docs/accuracy.md of dynalyze has the rules. The tolerance is 1e-3, for training
1e-2, of each value and of the size of its tensor.
"""

{imports}

HERE = Path(__file__).parent
'''
_OF_SCRIPTS = "import subprocess\nimport sys\nfrom pathlib import Path"
_OF_TARGETS = "from pathlib import Path"
_ASKS = "\n\nfrom dynalyze.testing.answers import wrong_answers"
_OF_TARGET = '''

def test_{name}():
    """{what}"""
    wrong = wrong_answers(
{request}
    )
    assert not wrong, wrong
'''
_OF_SCRIPT = '''

def test_{name}():
    """{what}"""
    ran = subprocess.run([sys.executable, HERE / {script!r}], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
'''


def emit_test(report: Report, plan: Plan, file: Path) -> str:
    """Write the file, with the scripts that show operations alone beside it; returns a note on it for the report.

    Without wrong answers there is no file, and one that is there stays.
    """
    tests, without = [], 0
    for test, work, configuration in cases(report, plan, thorough=True):
        wrong = [""] * (test.verdict == "suspicious")
        for variant in [*wrong, *(each.name for each in test.variants if each.verdict == "suspicious")]:
            request = worker_request(plan, work, configuration)
            if text := _test(report, test, request, variant, file):
                tests.append(text)
            else:
                without += 1
    if not tests:
        why = "calls of a program cannot be made again by a test; name FILE:NAME or hf:NAME" if without else ""
        return f"No test was written: {why or 'no answers were found wrong'}."
    file.parent.mkdir(parents=True, exist_ok=True)
    torch = str(report.environment.get("torch") or "")
    body = "".join(tests)
    imports = _OF_SCRIPTS if "subprocess.run(" in body else _OF_TARGETS
    imports += _ASKS if "wrong_answers(" in body else ""
    file.write_text(_HEAD.format(torch=torch, imports=imports) + body, encoding="utf-8")
    return f"{file} fails as long as the wrong answers are there."


def _test(report: Report, test: Accuracy, request: WorkerRequest, variant: str, file: Path) -> str:
    """The test of one wrong answer; "" where it cannot be made."""
    found = None if variant else search_of(test, report.bisections)
    words = f"{test.configuration}, {test.phase}"
    what = f"{words}: {f'inputs varied, {variant}' if variant else wrong_answers(test, found)}."
    what = what.replace("\\", "/").replace('"', "'")
    name = re.sub(r"\W+", "_", f"{words} {variant}").strip("_").lower()
    script = Path(report.folder, found.repro) if found is not None and found.repro else None
    without = right_without(found).strip("`") if found is not None else ""
    round_it = f"    # Works round it: {without}\n" if without else ""
    if script is not None and script.is_file():
        kept = file.with_name(f"{file.stem}_{script.name}")
        for one, other in ((script, kept), (script.with_suffix(".pt"), kept.with_suffix(".pt"))):
            if one.is_file():
                shutil.copyfile(one, other)
        text = kept.read_text(encoding="utf-8").replace(f'"{script.stem}.pt"', f'"{kept.stem}.pt"')
        kept.write_text(text, encoding="utf-8")
        return _with_comment(_OF_SCRIPT.format(name=name, what=what, script=kept.name), round_it)
    if request.source["kind"] not in _REBUILT:
        return ""
    given = _given(request) | ({"variant": variant} if variant else {})
    return _with_comment(_OF_TARGET.format(name=name, what=what, request=_arguments(given, file.parent)), round_it)


def _with_comment(text: str, comment: str) -> str:
    """The test with a comment as the first line of its body, behind what it says of itself."""
    head, body = text.split('"""\n', 1)
    return f'{head}"""\n{comment}{body}'


def _given(request: WorkerRequest) -> dict[str, Any]:
    """What of a request is not as it is without being asked for."""
    defaults = {each.name: each.default for each in fields(WorkerRequest) if each.default is not MISSING}
    plain = {name: value for name, value in asdict(request).items() if value != defaults.get(name, MISSING) and value}
    configuration = {each.name: each.default for each in fields(Configuration)}
    own = {name: value for name, value in plain["configuration"].items() if value and value != configuration[name]}
    plain.pop("cloudpickle", None)
    return {**plain, "configuration": own}


def _arguments(given: dict[str, Any], folder: Path) -> str:
    """The arguments of `wrong_answers`, one a line, with the path of the program from where the test lies."""
    lines = []
    for name, value in given.items():
        text = pprint.pformat(value, width=100, sort_dicts=False)
        if name == "source" and (path := value.get("path")):
            beside = os.path.relpath(path, folder)
            text = text.replace(f"'path': {path!r}", f"'path': str(HERE / {beside!r})")
        lines.append(f"        {name}={text},".replace("\n", "\n" + " " * (9 + len(name))))
    return "\n".join(lines)
