"""Stacks as the owner of a program knows them."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

import dynalyze
from dynalyze.capture.events import Frame
from dynalyze.facts.stacks import Places, is_file, is_resume, original_name
from records import MAIN, MODEL, TORCH, frame, torch_frame

PLACES = Places(TORCH)
OURS = Path(dynalyze.__file__).parent
DYNAMO = torch_frame(1166, "compile_wrapper", "_dynamo/eval_frame.py")
CALL = torch_frame(1790, "_call_impl", "nn/modules/module.py")
WRAPPED = torch_frame(1779, "_wrapped_call_impl", "nn/modules/module.py")


def shown(frames: list[Frame]) -> list[tuple[int, str]]:
    return [(f.line, f.name) for f in frames]


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        (MODEL, "user"),
        (f"{TORCH}/nn/functional.py", "torch"),
        ("/opt/venv/lib/python3.11/site-packages/torchvision/models/resnet.py", "library"),
        ("/opt/venv/lib/python3.11/site-packages/timm/layers.py", "library"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "library"),
        (sysconfig.get_path("stdlib") + "/random.py", "library"),
        ("/usr/lib/python3.12/contextlib.py", "library"),
        ("/home/ada/torch/models.py", "user"),
        ("/home/ada/site-packages.py", "user"),
    ],
)
def test_whose_a_file_is(file: str, origin: str) -> None:
    assert PLACES.origin(file) == origin


def test_a_neighbour_whose_name_begins_like_torchs_is_not_torch() -> None:
    assert not PLACES.is_torch(TORCH + "vision/ops.py")
    assert PLACES.is_torch(TORCH + "/__init__.py")


def test_without_the_folder_of_torch_it_is_known_by_its_path() -> None:
    unknown = Places("")
    assert unknown.is_torch("/x/lib/python3.10/site-packages/torch/nn/modules/linear.py")
    assert unknown.is_torch("C:\\venv\\Lib\\site-packages\\torch\\nn\\functional.py")
    assert not unknown.is_torch("/x/site-packages/torchaudio/functional.py")


def test_a_torch_from_its_source_tree() -> None:
    assert Places("/home/ada/pytorch/torch").origin("/home/ada/pytorch/torch/nn/functional.py") == "torch"
    assert Places("/home/ada/pytorch/torch/").is_torch("/home/ada/pytorch/torch/nn/functional.py")


def test_plumbing_is_left_out_and_torchs_own_python_stays() -> None:
    launcher = [
        Frame("<frozen runpy>", 88, "_run_code"),
        Frame(str(OURS / "capture" / "program.py"), 97, "_execute"),
        Frame("/usr/lib/python3.11/importlib/_bootstrap.py", 3, "_load"),
        Frame("/usr/lib/python3.11/runpy.py", 3, "run_path"),
    ]
    above = [*launcher, MAIN, DYNAMO, WRAPPED, CALL]
    inside = [frame(10), WRAPPED, CALL, torch_frame(20, "linear")]
    assert shown(PLACES.stack(above, inside)) == [(90, "<module>"), (10, "forward"), (20, "linear")]


def test_polyfills_are_what_dynamo_reads_in_place_of_c_code() -> None:
    polyfill = torch_frame(5, "any", "_dynamo/polyfills/builtins.py")
    assert polyfill in PLACES.stack([], [frame(10), polyfill])


def test_code_without_a_file_is_left_out() -> None:
    assert shown(PLACES.stack([Frame("<string>", 1, "<module>"), MAIN], [Frame("", 0, ""), frame(10)])) == [
        (90, "<module>"),
        (10, "forward"),
    ]


def test_a_resumed_frame_takes_the_place_of_the_half_that_called_it() -> None:
    resumed = frame(14, "torch_dynamo_resume_in_forward_at_12")
    assert shown(PLACES.stack([MAIN, frame(12)], [resumed])) == [(90, "<module>"), (14, "forward")]


def test_a_resumed_frame_that_already_bears_its_own_name() -> None:
    """real_stack names the original function; only the compiled code object tells that it is resumed."""
    assert shown(PLACES.stack([MAIN, frame(12)], [frame(14)], resumed=True)) == [(90, "<module>"), (14, "forward")]


def test_a_function_that_calls_itself_stays_twice() -> None:
    assert shown(PLACES.stack([MAIN], [frame(12), frame(12)])) == [(90, "<module>"), (12, "forward"), (12, "forward")]


def test_a_child_forward_below_a_resumed_one_stays() -> None:
    inside = [frame(14, "torch_dynamo_resume_in_forward_at_12"), frame(30)]
    assert shown(PLACES.stack([MAIN, frame(12)], inside)) == [(90, "<module>"), (14, "forward"), (30, "forward")]


def test_a_resumed_function_does_not_swallow_another_of_its_name() -> None:
    other = frame(12, "forward", "/home/ada/ranker/other.py")
    resumed = frame(14, "torch_dynamo_resume_in_forward_at_12")
    assert shown(PLACES.stack([other], [resumed])) == [(12, "forward"), (14, "forward")]


def test_columns_survive() -> None:
    (found,) = PLACES.stack([], [frame(14, "torch_dynamo_resume_in_f_at_12", columns=(4, 9))])
    assert (found.column, found.end_column, found.name) == (4, 9, "f")


def test_the_innermost_frame_outside_torch() -> None:
    assert PLACES.innermost([MAIN, frame(10), torch_frame(), torch_frame()]) == 1
    assert PLACES.innermost([torch_frame(1), torch_frame(2)]) == 1
    assert PLACES.innermost([]) is None


def test_names_of_resume_functions() -> None:
    assert original_name("torch_dynamo_resume_in_forward_at_123") == "forward"
    assert original_name("torch_dynamo_resume_in_<lambda>_at_3") == "<lambda>"
    assert original_name("torch_dynamo_resume_in_seek_at_end_at_3") == "seek_at_end"
    assert original_name("my_torch_dynamo_resume_in_f_at_3") == "my_torch_dynamo_resume_in_f_at_3"
    assert is_resume("torch_dynamo_resume_in_f_at_3")
    assert not is_resume("forward")


def test_what_a_code_object_calls_a_file() -> None:
    assert is_file("model.py")
    assert not any(map(is_file, ("", "<string>", "<eval_with_key>.3", "<stdin>")))
