"""Stacks as the owner of a program knows them."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

import dynalyze
from dynalyze.capture.events import Frame
from dynalyze.facts.stacks import Places
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


RESUMED = frame(14, "torch_dynamo_resume_in_forward_at_12")
OTHER = frame(12, "forward", "/home/ada/ranker/other.py")


@pytest.mark.parametrize(
    ("above", "inside", "told"),
    [
        ([Frame("<string>", 1, "<module>"), MAIN], [Frame("", 0, ""), frame(10)], [90, 10]),
        ([MAIN, frame(12)], [RESUMED], [90, 14]),
        ([MAIN], [frame(12), frame(12)], [90, 12, 12]),
        ([MAIN, frame(12)], [RESUMED, frame(30)], [90, 14, 30]),
        ([OTHER], [RESUMED], [12, 14]),
    ],
    ids=["code without a file", "the half that called it", "a recursion", "a child's forward", "another of its name"],
)
def test_a_resumed_frame_takes_the_place_of_its_own_other_half_alone(
    above: list[Frame], inside: list[Frame], told: list[int]
) -> None:
    assert [line for line, _ in shown(PLACES.stack(above, inside))] == told
