"""What a module given to torch.compile looks like, and how torch is set up: facts for rules, read without a trace."""

from __future__ import annotations

from dynalyze.capture.inspecting.modules import inspected
from dynalyze.capture.inspecting.settings import settings_seen

__all__ = ["inspected", "settings_seen"]
