"""Whether the machine shows a GPU, without asking torch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynalyze.capture import environment

CUDA = SimpleNamespace(version=SimpleNamespace(cuda="12.8", hip=None))
ROCM = SimpleNamespace(version=SimpleNamespace(cuda=None, hip="6.4"))
CPU = SimpleNamespace(version=SimpleNamespace(cuda=None, hip=None))


@pytest.mark.parametrize(
    ("torch", "there", "variables", "found"),
    [
        (CUDA, ["/dev/nvidiactl"], {}, True),
        (CUDA, [], {}, False),
        (CUDA, ["/dev/kfd"], {}, False),
        (CUDA, ["/dev/nvidiactl"], {"CUDA_VISIBLE_DEVICES": ""}, False),
        (CUDA, ["/dev/nvidiactl"], {"CUDA_VISIBLE_DEVICES": "1"}, True),
        (ROCM, ["/dev/kfd"], {}, True),
        (ROCM, ["/dev/kfd"], {"HIP_VISIBLE_DEVICES": "-1"}, False),
        (CPU, ["/dev/nvidiactl"], {}, None),
    ],
)
def test_a_gpu_is_there_where_linux_shows_one_that_the_build_is_for(
    monkeypatch: pytest.MonkeyPatch, torch: Any, there: list[str], variables: dict[str, str], found: bool | None
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(environment.os.path, "exists", lambda path: str(Path(path)) in there)
    assert environment._gpu(torch) is found
