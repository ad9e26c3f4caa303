"""CUDA, its devices, and Triton."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Device, Facts, Line

_TRITON_NEEDS, _BF16_NEEDS = (7, 0), (8, 0)


def check(facts: Facts) -> Iterator[Line]:
    """What a GPU could do; a build for the CPU alone lacks nothing."""
    if facts.torch is None or facts.torch_error:
        return
    if not facts.cuda and not facts.hip:
        yield Line("GPU", "ok", "none is used: this torch is built for the CPU")
        return
    if facts.devices is None:
        yield Line("GPU", "unknown", facts.silence or "nothing was found out")
        return
    if not facts.devices:
        yield Line("GPU", "warning", "torch is built for one and finds none: no device, or no driver", "nvidia-smi")
    for device in facts.devices:
        yield _device(device, cuda=bool(facts.cuda))
    yield _triton(facts)


def _device(device: Device, *, cuda: bool) -> Line:
    capability = tuple(device.capability)
    if not cuda or not capability:
        return Line("GPU", "ok", device.name)
    named = f"{device.name}, compute capability {'.'.join(map(str, capability))}"
    if capability < _TRITON_NEEDS:
        return Line("GPU", "problem", f"{named}: Triton needs 7.0", 'torch.compile(model, backend="aot_eager")')
    if capability < _BF16_NEEDS:
        return Line("GPU", "warning", f"{named}: no bfloat16 in Triton below 8.0", "use torch.float16")
    return Line("GPU", "ok", named)


def _triton(facts: Facts) -> Line:
    name = "pytorch-triton-rocm" if facts.hip else "triton"
    wanted = facts.triton_wanted or ""
    mend = f'{facts.interpreter} -m pip install "{name}{wanted}"'
    if facts.triton is None:
        status = Line("Triton", "ok", "not installed; no GPU needs it") if not facts.devices else None
        return status or Line("Triton", "problem", "not installed, and Inductor writes a GPU's kernels in it", mend)
    if wanted.startswith("==") and facts.triton.partition("+")[0] != wanted[2:]:
        return Line("Triton", "warning", f"{facts.triton}; this torch was released with {wanted[2:]}", mend)
    return Line("Triton", "ok", facts.triton)
