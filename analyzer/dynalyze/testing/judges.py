"""What each assertion demands of a recorded report: "" where it holds, else what the failure says."""

from __future__ import annotations

from dynalyze.capture.environment import compile_disabled
from dynalyze.report import Report
from dynalyze.testing.failures import compile_failure, graph_break_failure, recompile_failure, silence_failure


def whole_graphs(report: Report, error: BaseException | None) -> str:
    """Something compiled, each function as one graph."""
    return graph_break_failure(report) or compiles(report, error)


def compiles(report: Report, error: BaseException | None) -> str:
    """Something compiled, and nothing failed to."""
    return compile_failure(report, error) or silence_failure(report)


def compiled_once(report: Report, error: BaseException | None) -> str:
    """Something compiled, and nothing twice."""
    return recompile_failure(report) or silence_failure(report)


def no_recompiles(report: Report, error: BaseException | None) -> str:
    """Nothing compiled again. Where torch.compile is switched off that proves nothing."""
    return recompile_failure(report) or (silence_failure(report) if compile_disabled() else "")
