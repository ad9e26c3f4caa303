"""Which files the compiler read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dynalyze.events.log import RunLog
from dynalyze.events.types import TracedSeen
from dynalyze.facts.source_files import hash_of_set, traced_files
from dynalyze.facts.stacks import Places
from dynalyze.report import TracedFile, TracedFunction
from records import TORCH, process, run_of, write_source

PLACES = Places(TORCH)


def seen(*functions: tuple[str, str, int]) -> TracedSeen:
    return TracedSeen(id="0/0", functions=list(functions))


def test_every_file_once_in_the_order_in_which_it_was_first_read(tmp_path: Path) -> None:
    a, b = write_source(tmp_path, "a = 1\n", "a.py"), write_source(tmp_path, "b = 2\n", "b.py")
    run = run_of(seen((b, "Net.forward", 3), (a, "helper", 1)), seen((b, "Net.forward", 3), (b, "encode", 9)))
    found = traced_files(run, PLACES)
    assert [(f.path, f.functions, f.origin) for f in found] == [
        (b, [TracedFunction("Net.forward", 3), TracedFunction("encode", 9)], "user"),
        (a, [TracedFunction("helper", 1)], "user"),
    ]
    assert [f.sha256 for f in found] == [hashlib.sha256(text).hexdigest() for text in (b"b = 2\n", b"a = 1\n")]


def test_two_functions_of_one_name_are_two() -> None:
    (file,) = traced_files(run_of(seen(("/m.py", "forward", 3), ("/m.py", "forward", 30))), PLACES)
    assert [f.line for f in file.functions] == [3, 30]


def test_the_hash_is_of_the_bytes_as_they_are(tmp_path: Path) -> None:
    data = b"# -*- coding: latin-1 -*-\r\nx = '\xe9'\r\n"
    (file,) = traced_files(run_of(seen((write_source(tmp_path, data), "f", 1))), PLACES)
    assert file.sha256 == hashlib.sha256(data).hexdigest()


def test_a_file_that_is_gone_has_no_hash() -> None:
    (file,) = traced_files(run_of(seen(("/nowhere/net.py", "f", 1))), PLACES)
    assert file.sha256 == ""


def test_nothing_is_opened_where_paths_are_not_ours_to_open(tmp_path: Path) -> None:
    (file,) = traced_files(run_of(seen((write_source(tmp_path, "x = 1\n"), "f", 1))), PLACES, readable=False)
    assert file.sha256 == ""


def test_origins() -> None:
    found = traced_files(
        run_of(seen((f"{TORCH}/nn/modules/linear.py", "Linear.forward", 120), ("/v/site-packages/timm/a.py", "f", 1))),
        PLACES,
    )
    assert [f.origin for f in found] == ["torch", "library"]


def test_code_that_has_no_file_is_left_out() -> None:
    assert (
        traced_files(run_of(seen(("<string>", "f", 1), ("<eval_with_key>.3", "forward", 2), ("", "g", 1))), PLACES)
        == []
    )


def test_processes_read_one_set() -> None:
    logs = [process(seen(("/m.py", "f", 1)), number=n, pid=4711 + n) for n in range(2)]
    assert len(traced_files(RunLog(logs), PLACES)) == 1


def file(path: str, sha256: str = "00") -> TracedFile:
    return TracedFile(path, sha256, [])


def test_the_hash_of_the_set_knows_paths_and_contents_but_no_order() -> None:
    whole = hash_of_set([file("/a"), file("/b", "11")])
    assert len(whole) == 64
    assert whole == hash_of_set([file("/b", "11"), file("/a")])
    others = [
        [file("/a")],
        [file("/a"), file("/b", "12")],
        [file("/a"), file("/c", "11")],
        [file("/a", "11"), file("/b")],
        [file("/a"), file("/b", "11"), file("/c", "22")],
    ]
    assert len({whole, *map(hash_of_set, others)}) == 1 + len(others)


def test_the_hash_of_no_file_is_empty() -> None:
    assert hash_of_set([]) == ""


def test_a_path_that_is_no_unicode_can_be_hashed() -> None:
    assert len(hash_of_set([file("/caf\udce9.py")])) == 64
