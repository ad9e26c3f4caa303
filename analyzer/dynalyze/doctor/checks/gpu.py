"""CUDA, its driver and devices, and Triton."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from dynalyze.doctor.records import Device, Facts, Line
from dynalyze.doctor.requirements import exactly, meets, named, release

GROUP = "GPU"

_TRITON_NEEDS, _BF16_NEEDS = (7, 0), (8, 0)
# The first driver for Linux that runs what was built for a CUDA of this major version.
_DRIVERS = {11: "450.80", 12: "525.60", 13: "580.65"}
_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d+)\)")
_ARCH = re.compile(r"(sm|compute)_(\d+)(\d)")


def check(facts: Facts) -> Iterator[Line]:
    """What a GPU could do; a build for the CPU alone lacks nothing."""
    if not facts.imports:
        return
    if not facts.cuda and not facts.hip:
        yield Line("GPU", "ok", "none is used: this torch is built for the CPU")
        return
    if facts.devices is None:
        yield Line("GPU", "unknown", facts.silence or "nothing was found out")
        return
    if not facts.devices:
        yield _no_device(facts)
    for device in facts.devices:
        yield _device(device, facts)
    yield _triton(facts)


def _no_device(facts: Facts) -> Line:
    if found := _TOO_OLD.search(facts.device_warning):
        version = int(found[1])
        least = _DRIVERS.get((release(facts.cuda or "") or (0,))[0])
        need = f" (CUDA {facts.cuda} needs {least} or later)" if least else ""
        text = f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}, too old for this torch{need}"
        return Line("GPU", "problem", text, "a newer driver: https://www.nvidia.com/drivers")
    said = f": {facts.device_warning}" if facts.device_warning else ": no device, or no driver"
    tool = "nvidia-smi" if facts.cuda else "rocm-smi"
    return Line("GPU", "warning", f"torch is built for one and finds none{said}", tool)


def _device(device: Device, facts: Facts) -> Line:
    capability = tuple(device.capability)
    if not facts.cuda or len(capability) != 2:
        return Line("GPU", "ok", device.name)
    told = f"{device.name}, compute capability {capability[0]}.{capability[1]}"
    if not _has_code(capability, facts.arches):
        found = f"{told}: this torch has no code for it, only for {', '.join(facts.arches)}"
        return Line("GPU", "problem", found, "a torch built for it: https://pytorch.org/get-started/previous-versions")
    if capability < _TRITON_NEEDS:
        return Line("GPU", "problem", f"{told}: Triton needs 7.0", 'torch.compile(model, backend="aot_eager")')
    if capability < _BF16_NEEDS:
        return Line("GPU", "warning", f"{told}: no bfloat16 in Triton below 8.0", "use torch.float16")
    return Line("GPU", "ok", told)


def _has_code(capability: tuple[int, ...], arches: list[str]) -> bool:
    """Machine code runs on later devices of its generation, PTX (compute_) on every later one."""
    known = [(found[1], (int(found[2]), int(found[3]))) for found in map(_ARCH.match, arches) if found]
    return not known or any(
        built <= capability and (kind == "compute" or built[0] == capability[0]) for kind, built in known
    )


def _triton(facts: Facts) -> Line:
    wanted = facts.triton_wanted or ("pytorch-triton-rocm" if facts.hip else "triton")
    mend = f'{shlex.quote(facts.interpreter)} -m pip install "{wanted}"'
    if named(wanted).startswith("pytorch-triton"):
        mend += " --index-url https://download.pytorch.org/whl"
    if facts.triton is None:
        if not facts.devices:
            return Line("Triton", "ok", "not installed; no GPU needs it")
        return Line("Triton", "problem", "not installed, and Inductor writes a GPU's kernels in it", mend)
    if not meets(facts.triton, wanted):
        found = f"{facts.triton}; this torch was released with {exactly(wanted) or wanted}"
        return Line("Triton", "warning", found, mend)
    return Line("Triton", "ok", facts.triton)
