"""What a program calls its modules."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dynalyze.capture.compile_candidates import expression_of, names_of


def test_a_name_is_a_variable_then_a_path_then_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's own paths below a module have it, and innermost caller first for guards."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2)]))
    monkeypatch.setattr(sys.modules["__main__"], "trainer", SimpleNamespace(model=net), raising=False)
    assert expression_of(net, []) == "trainer.model"
    monkeypatch.setattr(sys.modules["__main__"], "net_of_main", net, raising=False)
    assert expression_of(net, []) == "net_of_main"
    assert expression_of(net[1][0], []) == "net_of_main[1][0]"
    assert expression_of(nn.Linear(2, 2), []) == ""
    frame = sys._getframe()
    assert expression_of(net[0], [frame]) == "net_of_main[0]"
    assert names_of(net, [frame])[0] == "net"
    assert "net[1][0]" in names_of(net[1][0], [frame])


def test_the_module_behind_a_compiled_one_has_its_name() -> None:
    inner = nn.Linear(2, 2)
    compiled = torch.compile(nn.Sequential(inner), backend="eager")
    del inner
    assert names_of(compiled._orig_mod[0], [sys._getframe()]) == ["compiled[0]"]
