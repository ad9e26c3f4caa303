"""A written sweep is read back: its document, its folder, and what may be wrong with either."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dynalyze import privacy
from dynalyze.report.document import to_json
from dynalyze.sweep.folder import is_sweep, read_sweep, rows_in
from dynalyze.sweep.shown import shown
from sample_reports import rich_report
from sample_sweeps import broken, failed, row, small_sweep, sweep


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
    assert len(read_sweep(tmp_path / "rows.jsonl").items) == 2


def test_a_last_line_that_was_cut_off_is_left_out_and_any_other_is_an_error() -> None:
    whole = lines(row("hf:A"))
    assert rows_in(whole + lines(row("hf:B"))[:-20]) == [row("hf:A")]
    with pytest.raises(ValueError, match="line 1"):
        rows_in(b'{"target": \n' + whole)


def test_redacted_rows_name_no_home_and_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    found = broken()
    made = sweep(
        row("/home/ada/model.py", "graph_break", found, node="gpu-7 (torch 2.13.0)"),
        failed("hf:A", "crash", "no file /home/ada/x"),
        command=["sweep", "/home/ada/model.py"],
    )
    for each in made.items:
        each.key = "0" * 20  # As it is outside of this test: a hash.
    data = msgspec.json.encode(privacy.redact(made))
    assert b"/home/ada" not in data
    assert b"gpu-7" not in data
    assert b"~/model.py" in data


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
