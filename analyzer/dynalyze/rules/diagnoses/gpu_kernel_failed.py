"""A kernel that failed on the GPU, which a later line of the program is told."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Report
from dynalyze.rules.report_queries import FROM_RUN
from dynalyze.rules.rule import Ranked, Rule

_BLOCKING = "Run it with `CUDA_LAUNCH_BLOCKING=1`: the line that raises is then the one at fault."
# What torch says, what it means, and what finds the cause.
_FAILURES = (
    (
        "device-side assert triggered",
        "A check inside a kernel failed on the GPU",
        "Read what the program printed: `Assertion ... failed` says which check, and for an index the bound. "
        f"{_BLOCKING} Or run it on the CPU, where an index beyond its tensor raises at its line.",
    ),
    (
        "an illegal memory access was encountered",
        "A kernel reached for memory that is not its own",
        f'{_BLOCKING} Then compile with `backend="aot_eager"`: where it is gone, the kernel is Inductor\'s, and '
        "worth an issue; where it stays, look at custom operators and at inputs that a kernel takes unchecked.",
    ),
)


@Rule(
    title="A kernel failed on the GPU",
    severity="error",
    rank=3,
    link="https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    description="Kernels run after the call that started them has returned. Where one fails, the first line that waits "
    "for the GPU raises, and nothing on that GPU works any more in this process. Known by the message that the program "
    "ended with.",
    fix=_BLOCKING,
)
def gpu_kernel_failed(report: Report) -> Iterator[Ranked]:
    for said, title, advice in _FAILURES:
        if said in report.outcome.message:
            yield gpu_kernel_failed.finding(
                title,
                advice,
                why=f"{FROM_RUN} The line that raised is the first that waited for the GPU, not always the one that "
                "started the kernel.",
                location=report.outcome.raised_at,
            )
