"""torch: there, importable, of a version that dynalyze knows, and not switched off."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dynalyze.doctor.records import SWITCHES, Facts, Line
from dynalyze.doctor.requirements import meets

GROUP = "torch"

_TRIED = "2.8 to 2.15"
_NOTHING = ("", "0", "1")


def check(facts: Facts) -> Iterator[Line]:
    """Whether there is a torch that may compile."""
    yield Line("Python", "ok", f"{facts.python or 'unknown'}, {facts.interpreter}")
    pip = f"{shlex.quote(facts.interpreter)} -m pip install"
    if facts.torch is None:
        yield Line("torch", "problem", facts.silence or "not installed there", f'{pip} "torch>=2.8"', fatal=True)
        return
    if facts.torch_error:
        mend = f"{pip} --force-reinstall torch=={facts.torch.partition('+')[0]}"
        yield Line("torch", "problem", f"{facts.torch} does not import: {facts.torch_error}", mend, fatal=True)
        return
    if not meets(facts.torch, "torch>=2.8"):
        found = f"{facts.torch}; dynalyze needs 2.8 or later (tried on {_TRIED})"
        yield Line("torch", "warning", found, f'{pip} --upgrade "torch>=2.8"')
    else:
        yield Line("torch", "ok", f"{facts.torch}, {_build(facts)}")
    yield from _switched_off(facts)


def _build(facts: Facts) -> str:
    if facts.cuda:
        return f"built for CUDA {facts.cuda}"
    return f"built for ROCm {facts.hip}" if facts.hip else "a build for the CPU"


def _switched_off(facts: Facts) -> Iterator[Line]:
    if facts.switch is not None:
        found = f"{facts.switch}=1 switches torch.compile off: everything runs in eager"
        yield Line("Dynamo", "problem", found, f"unset {facts.switch}", fatal=True)
    elif facts.disabled:
        found = "torch._dynamo.config.disable is on: everything runs in eager"
        yield Line("Dynamo", "problem", found, "torch._dynamo.config.disable = False", fatal=True)
    for name in SWITCHES:
        if (value := facts.variables.get(name, "")) not in _NOTHING:
            found = f"{value} does nothing: only 1 switches torch.compile off"
            yield Line(name, "warning", found, f"export {name}=1, or unset {name}")
