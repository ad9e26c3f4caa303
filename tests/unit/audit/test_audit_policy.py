"""Reading a policy: every key, mistakes told with file and key, and whatever a file may hold."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dynalyze.audit.policy import Policy, WaiverRule, read_policy, targets_of_project, with_options
from dynalyze.report import Finding, Location
from dynalyze.text.errors import UsageError

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python brings no reader of TOML before 3.11")

WHOLE = """
max-graph-breaks = 1
max-recompiles = 2
max-recompiles-after-warmup = 3
max-eager-frames = 4
min-speedup = 1.2
max-compile-seconds = 60
max-memory-growth = 1.5
max-break-ms = 0.5
accuracy = ["equal", "benign"]
fail-on = ["warning", "recompile-limit"]

[[ignore]]
rule = "graph-break"
file = "models/net.py"
function = "forward"
code = "print("
reason = "a debugging aid"
expires = 2027-01-31
"""


def written(folder: Path, text: str, name: str = "policy.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def refused(folder: Path, text: str, name: str = "policy.toml") -> str:
    with pytest.raises(UsageError) as error:
        read_policy(written(folder, text, name))
    message = str(error.value)
    assert name in message
    assert "\n" not in message
    return message


def test_a_project_names_its_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = "[tool.dynalyze.audit]\n"
    written(tmp_path, f'{table}targets = ["model.py:Net --train", "serve.py"]\nmax-graph-breaks = 2', "pyproject.toml")
    assert targets_of_project() == [["model.py:Net", "--train"], ["serve.py"]]
    assert read_policy(None).max_graph_breaks == 2
    for text in (table, f"{table}targets = []", f'{table}targets = "model.py"', f"{table}targets = [3]", "",
                 f"""{table}targets = ["model.py 'x"]"""):  # fmt: skip
        written(tmp_path, text, "pyproject.toml")
        with pytest.raises(UsageError, match="targets = "):
            targets_of_project()


def test_every_key_is_understood(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    policy = read_policy(file)
    day = datetime.date(2027, 1, 31)
    waiver = WaiverRule("graph-break", "a debugging aid", day, "models/net.py", "forward", "print(")
    assert policy == Policy(
        str(file),
        1,
        2,
        3,
        4,
        1.2,
        60.0,
        1.5,
        0.5,
        ("equal", "benign"),
        ("warning", "recompile-limit"),
        (waiver,),
        policy.asked,
    )
    assert policy.asked == {line.partition(" =")[0] for line in WHOLE.strip().splitlines()[:10]}


def test_a_table_that_is_not_known_is_told_wherever_it_stands(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    written(tmp_path, "[tool.dynalyze.audits]\nmax-graph-breaks = 5\n", "pyproject.toml")
    with pytest.raises(UsageError, match="'audits' is not known; did you mean audit"):
        read_policy(None, inner)


def test_somebody_elses_broken_project_is_no_business_of_ours(tmp_path: Path) -> None:
    written(tmp_path, "[[[ not TOML", "pyproject.toml")
    assert read_policy(None, tmp_path) == Policy()


def test_a_project_file_can_be_named(tmp_path: Path) -> None:
    file = written(tmp_path, "[tool.dynalyze.audit]\nmin-speedup = 2\n", "pyproject.toml")
    assert read_policy(file).min_speedup == 2.0
    assert "has no table [tool.dynalyze.audit]" in refused(tmp_path, '[project]\nname = "x"\n', "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max-graph-break = 0", "'max-graph-break' is not known; did you mean max-graph-breaks?"),
        ("min-speed-up = 1.1", "did you mean min-speedup?"),
        ("max-graph-breaks = -1", "max-graph-breaks is a whole number, 0 or more"),
        ("max-graph-breaks = true", "max-graph-breaks is a whole number"),
        ("max-graph-breaks = 1.5", "max-graph-breaks is a whole number"),
        ('min-speedup = "fast"', "min-speedup is a number above zero"),
        ("min-speedup = nan", "min-speedup is a number above zero"),
        ("max-memory-growth = inf", "max-memory-growth is a number above zero"),
        ("max-compile-seconds = 0", "max-compile-seconds is a number above zero"),
        ('accuracy = ["benin"]', "no verdict is called 'benin'; did you mean benign?"),
        ("accuracy = []", "no verdict would pass"),
        ("accuracy = 3", "accuracy is a list of verdicts"),
        ('fail-on = ["eror"]', "no rule is called 'eror'; did you mean error?"),
        ('fail-on = "graph-brake"', "did you mean graph-break?"),
        ("max-graph-breaks = 1\nmax_graph_breaks = 2", "max-graph-breaks is given twice"),
        ("ignore = 3", "ignore is a list of tables"),
        ('[[ignore]]\nrule = "graph-break"\nexpires = 2027-01-31', "ignore 1: reason is missing"),
        ('[[ignore]]\nrule = "graph-break"\nreason = "so"', "expires is missing, e.g. expires = 2027-01-31"),
        ('[[ignore]]\nrule = "graph-brek"\nreason = "so"\nexpires = 2027-01-31', "did you mean graph-break?"),
        ('[[ignore]]\nrule = "graph-break"\nreason = " "\nexpires = 2027-01-31', "reason is a text"),
        ('[[ignore]]\nrule = "graph-break"\nreason = "so"\nexpires = "soon"', "expires is a day"),
        ('[[ignore]]\nrule = "graph-break"\nreason = "so"\nexpires = 2027-01-31T10:00:00', "expires is a day"),
        ('[[ignore]]\nrule = "graph-break"\nreason = "so"\nexpires = 2027-01-31\nfil = "a"', "did you mean file?"),
        ('[[ignore]]\nrule = "graph-break"\nreason = "so"\nexpires = 2027-01-31\nfile = "."', "file is a file's name"),
        ("[tool.dynalyze]\nadit = {}", "'adit' is not known; did you mean audit?"),
        ("[tool.dynalyze]\naudit = 3", "tool.dynalyze.audit is a table"),
        ("max-graph-breaks = ", "policy.toml: "),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, text)


VALUES = some.recursive(
    some.booleans() | some.integers() | some.floats() | some.text(max_size=8) | some.dates() | some.datetimes(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = some.sampled_from([line.partition(" =")[0] for line in WHOLE.strip().splitlines()[:9]] + ["ignore", "tool", "x"])
TABLES = some.dictionaries(some.sampled_from(["rule", "file", "function", "code", "reason", "expires"]), VALUES)


@given(some.dictionaries(KEYS, VALUES | some.lists(TABLES, max_size=2), max_size=4))
def test_no_document_is_more_than_a_mistake(document: dict[str, object]) -> None:
    try:
        with patch("dynalyze.audit.policy.parsed", return_value=document):
            found = read_policy(Path("policy.toml"))
    except UsageError as error:
        assert "policy.toml" in str(error)
    else:
        assert found.source == "policy.toml"


@given(some.text(max_size=60) | some.sampled_from(["a=" + "[" * 5000, "a." * 3000 + "b=1", "\x00", "a=\ud800"]))
def test_no_text_is_more_than_a_mistake(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("policy") / "policy.toml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    try:
        read_policy(file)
    except UsageError as error:
        assert "policy.toml" in str(error)


def found_at(file: str, function: str = "Net.forward", code: str | None = "print( x )") -> Finding:
    return Finding("graph-break", "warning", "A break", Location(file, 12, function=function, code=code))


@pytest.mark.parametrize(
    ("place", "covers"),
    [
        ({}, True),
        ({"file": "net.py"}, True),
        ({"file": "models/net.py"}, True),
        ({"file": "*/n*.py"}, True),
        ({"file": "other/net.py"}, False),
        ({"file": "et.py"}, False),
        ({"function": "forward"}, True),
        ({"function": "Net.forward"}, True),
        ({"function": "ward"}, False),
        ({"code": "print(x)"}, True),
        ({"code": "print(y)"}, False),
        ({"file": "net.py", "function": "helper"}, False),
    ],
)
def test_a_waiver_covers_its_place_alone(place: dict[str, str], covers: bool) -> None:
    waiver = WaiverRule("graph-break", "so", datetime.date(2027, 1, 31), **place)
    assert waiver.covers(found_at("/home/me/models/net.py")) is covers
    assert not waiver.covers(Finding("recompile", "warning", "Again", found_at("/home/me/models/net.py").location))
    assert waiver.covers(Finding("graph-break", "warning", "Nowhere")) is (not place)


def test_a_waiver_holds_to_the_end_of_its_day() -> None:
    waiver = WaiverRule("graph-break", "so", datetime.date(2027, 1, 31))
    assert not waiver.waiver(0, datetime.date(2027, 1, 31)).expired
    assert waiver.waiver(0, datetime.date(2027, 2, 1)).expired


def test_what_options_change() -> None:
    plain = Policy()
    assert with_options(plain, fail_on=None, baseline=False, warmup=False) == plain
    assert with_options(plain, fail_on="none", baseline=True, warmup=False).fail_on == ()
    assert with_options(plain, fail_on="recompile", baseline=False, warmup=False).fail_on == ("recompile",)
    assert with_options(plain, fail_on=None, baseline=True, warmup=False).fail_on == ("warning",)
    limited = with_options(plain, fail_on="max-break-ms=0.5", baseline=True, warmup=False)
    assert (limited.max_break_ms, limited.fail_on, "max-break-ms" in limited.asked) == (0.5, ("warning",), True)
    own = Policy(fail_on=("error",), asked=frozenset({"fail-on"}))
    assert with_options(own, fail_on=None, baseline=True, warmup=False).fail_on == ("error",)
    assert "max-recompiles-after-warmup" in with_options(plain, fail_on=None, baseline=False, warmup=True).asked
