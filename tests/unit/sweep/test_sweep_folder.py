"""The folder of a sweep: rows that survive anything, one sweep at a time, resumed and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import msgspec
import pytest

from dynalyze import privacy
from dynalyze.capture.settings import CompileOptions
from dynalyze.launch.spec import TargetSpec
from dynalyze.report.document import to_json
from dynalyze.sweep.drive import SweepProgress, drive
from dynalyze.sweep.folder import About, SweepFolder, is_sweep, read_sweep, rows_in
from dynalyze.sweep.pool import Done
from dynalyze.sweep.records import Item, Row, Sweep
from dynalyze.sweep.rows import bare_row
from dynalyze.sweep.shown import shown
from dynalyze.sweep.work import Finished, RunSettings
from dynalyze.text.errors import UsageError
from sample_reports import rich_report
from sample_sweeps import broken, failed, row, small_sweep, sweep


def item(name: str) -> Item:
    spec = TargetSpec("library", f"hf:{name}", name=name, library="hf")
    return Item(spec.spec, spec, CompileOptions(), key=f"key-{name}")


ITEMS = [item(name) for name in ("A", "B", "C", "D")]


class FakePool:
    """Ends items in reverse order, in pairs, as workers would out of order; `stop_after` as Ctrl-C would."""

    workers = 2

    def __init__(self, stop_after: int = 99) -> None:
        self.notes: list[str] = []
        self.ran: list[str] = []
        self._left = stop_after

    def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
        for each in reversed(list(items)):
            if not self._left or not keep_on():
                return
            self._left -= 1
            self.ran.append(each.target)
            row = bare_row(each, "eager_error", f"ValueError: {each.target}")
            done(each, Finished(row, b'{"report": 1}', b"<html>", "printed\n"))

    def __enter__(self) -> FakePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def driven(path: Path, pool: FakePool, *, resume: bool = False, settings: RunSettings | None = None) -> Sweep:
    with SweepFolder(path, resume=resume) as folder:
        describing = About(
            "1",
            "2026-11-21T00:00:00Z",
            ["sweep"],
            {"torch": "2.13.0"},
            [item.key for item in ITEMS],
            len(ITEMS),
            pool.workers,
        )
        progress = SweepProgress(len(ITEMS), len(folder.rows), quiet=True)
        return drive(ITEMS, pool, folder, settings or RunSettings(), describing, progress, lambda: True)


def table(found: Sweep) -> list[tuple[str, str]]:
    return [(row.target, row.status) for row in found.items]


def test_rows_come_as_they_end_and_the_table_is_in_the_order_asked_for(tmp_path: Path) -> None:
    found = driven(tmp_path / "out", FakePool())
    assert [row.target for row in found.items] == ["hf:A", "hf:B", "hf:C", "hf:D"]
    lines = (tmp_path / "out" / "rows.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Row).target for line in lines] == ["hf:D", "hf:C", "hf:B", "hf:A"]
    assert (found.planned, found.workers, found.environment) == (4, 2, {"torch": "2.13.0"})


@pytest.mark.parametrize("done_first", [1, 2, 3])
def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path, done_first: int) -> None:
    driven(tmp_path, FakePool(stop_after=done_first))
    rest = FakePool()
    found = driven(tmp_path, rest, resume=True)
    assert len(rest.ran) == 4 - done_first
    assert table(found) == table(driven(tmp_path / "whole", FakePool()))


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_last_line_is_cut_off_and_done_again(tmp_path: Path, cut: int) -> None:
    driven(tmp_path, FakePool())
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(rows.read_bytes()[:-cut])
    rest = FakePool()
    found = driven(tmp_path, rest, resume=True)
    assert rest.ran == ["hf:A"]
    assert len(found.items) == 4
    assert len(rows.read_bytes().splitlines()) == 4


def test_a_folder_with_rows_is_refused_without_resume(tmp_path: Path) -> None:
    driven(tmp_path, FakePool())
    with pytest.raises(UsageError, match="holds 4 rows of an earlier sweep: continue it with --resume"):
        driven(tmp_path, FakePool())


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    with SweepFolder(tmp_path, resume=False), pytest.raises(UsageError, match="another sweep is running"):
        SweepFolder(tmp_path, resume=True).__enter__()
    with SweepFolder(tmp_path, resume=True):
        pass


def test_redacted_rows_are_redacted_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    pool = FakePool()
    monkeypatch.setattr(ITEMS[0].__class__, "settings", property(lambda self: {"device": "/home/ada/x"}))
    driven(tmp_path, pool, settings=RunSettings(redact=True))
    assert b"/home/ada" not in (tmp_path / "rows.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (RunSettings(), "OSError: no file /home/ada/secret.bin"),
        (RunSettings(redact=True), "OSError: no file ~/secret.bin"),
        (RunSettings(no_source=True), "OSError"),
    ],
    ids=["as it is", "redact", "no source"],
)
def test_what_is_said_of_a_failed_item_is_what_its_row_may_show(
    settings: RunSettings,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Failing(FakePool):
        def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
            done(ITEMS[0], Finished(bare_row(ITEMS[0], "crash", "OSError: no file /home/ada/secret.bin")))

    monkeypatch.setenv("HOME", "/home/ada")
    driven(tmp_path, Failing(), settings=settings)
    assert capsys.readouterr().err == f"dynalyze: hf:A: crash: {message}\n"


def lines(*rows: object) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in rows)


def test_the_document_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    file.write_bytes(msgspec.json.encode(small_sweep()))
    assert is_sweep(file)
    assert read_sweep(file) == small_sweep()


def test_a_report_is_no_sweep(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(to_json(rich_report()))
    assert not is_sweep(file)
    assert not is_sweep(tmp_path / "none.json")
    assert not is_sweep(tmp_path)


def test_a_folder_is_read_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    one, two, other = row("hf:A"), row("hf:B"), row("hf:C")
    (tmp_path / "rows.jsonl").write_bytes(lines(two, other, one))
    assert [each.target for each in read_sweep(tmp_path).items] == ["hf:B", "hf:C", "hf:A"], "rows alone are enough"
    about = {"dynalyze": "0.1.0", "created": "now", "command": ["sweep", "hf:*"], "environment": {"torch": "2.13.0"},
             "planned": 3, "workers": 2, "notes": [], "order": [one.key, two.key, "later"], "seconds": 9.5,
             "schema_version": 1}  # fmt: skip
    (tmp_path / "sweep.json").write_bytes(msgspec.json.encode(about))
    assert is_sweep(tmp_path)
    found = read_sweep(tmp_path)
    assert [each.target for each in found.items] == ["hf:A", "hf:B"]
    assert (found.planned, found.environment, found.seconds) == (3, {"torch": "2.13.0"}, 9.5)


def test_a_last_line_that_was_cut_off_is_left_out_and_any_other_is_an_error() -> None:
    whole = lines(row("hf:A"))
    assert rows_in(whole + lines(row("hf:B"))[:-20]) == [row("hf:A")]
    with pytest.raises(ValueError, match="line 1"):
        rows_in(b'{"target": \n' + whole)


def test_secrets_in_the_command_are_masked_wherever_they_are_quoted() -> None:
    made = sweep(failed("hf:A", "crash", "bad token abcdef123"), command=["sweep", "hf:A", "--hf-token", "abcdef123"])
    assert b"abcdef123" not in msgspec.json.encode(privacy.mask_secrets(made))


def test_without_source_nothing_quotes_the_program() -> None:
    found = broken(reason="call to canary()", code="canary()", gb_type="canary said so", gb_id="GB0170")
    made = sweep(row("hf:A", "graph_break", found, notes=["canary"]), failed("hf:B", "crash", "ValueError: canary"))
    cleaned = shown(made, no_source=True, redact=False)
    assert b"canary" not in msgspec.json.encode(cleaned)
    assert cleaned.items[1].error == "ValueError"
    assert cleaned.items[0].breaks[0].gb_type == "Data-dependent branching"
