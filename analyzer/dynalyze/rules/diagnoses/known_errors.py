"""Errors that end a program because it is compiled, or on the GPU: known by their message, and how to do without."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Report
from dynalyze.rules.report_queries import FROM_RUN
from dynalyze.rules.rule import Ranked, Rule

# What torch says, the title, what to do, why, the setting.
_FAILURES = (
    (
        "compiled with non-empty donated buffers",
        "A compiled backward cannot run twice: it reuses its memory",
        "Set this before the first call of the compiled model.",
        "`retain_graph=True` (or `create_graph=True`) asks for the graph again, and the compiled backward has written "
        "over what it saved.",
        "import torch._functorch.config\ntorch._functorch.config.donated_buffer = False",
    ),
    (
        "does not currently support double backward",
        "No gradient of a gradient goes through compiled code",
        "Where a gradient is differentiated (`create_graph=True`), call the module that was given to torch.compile, "
        "not what torch.compile returned. Other calls may stay compiled. Or, for all of them, compile it with "
        '`backend="eager"`.',
        "AOTAutograd compiles a forward and a backward, and no backward of that.",
        "",
    ),
)
_SECOND = "Trying to backward through the graph a second time"


@Rule(
    title="A compiled backward was asked for more than it can do",
    severity="error",
    rank=3,
    of_failure=True,
    link="https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_faq.html",
    description="A compiled backward is one function for a whole graph. It does not run twice where it gives its "
    "memory away, is not differentiated, and frees all that its graph saved at once. Known by the message that the "
    "program ended with.",
)
def compiled_backward(report: Report) -> Iterator[Ranked]:
    message = report.outcome.message
    compiled = any(each.status in ("compiled", "broken") for each in report.compilations)
    for said, title, advice, why, setting in _FAILURES:
        if said in message:
            yield compiled_backward.finding(
                title, advice, why=f"{FROM_RUN} {why}", config=setting, location=report.outcome.raised_at
            )
    backward = next((found for found in report.graph_breaks if ".backward(" in (found.location.code or "")), None)
    if _SECOND in message and compiled and backward is not None:
        yield compiled_backward.finding(
            "Two backward passes share one compiled graph",
            "Compile the modules, each by itself, and not the function that calls `backward()`: "
            "`net = torch.compile(net)`. Each then has a backward of its own. If eager raises here too, the program "
            "needs `retain_graph=True`.",
            why=f"{FROM_RUN} All before the first `backward()` is one graph with one backward, which frees what it "
            "saved when it first runs, also that of parts which the first pass does not need (`detach()`).",
            location=report.outcome.raised_at or backward.location,
            evidence=[backward.id],
        )


@Rule(
    title="A state dict of a compiled model has other names",
    severity="error",
    rank=3,
    of_failure=True,
    link="https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    description="`torch.compile(model)` returns a module that holds the model under `_orig_mod`: all names in its "
    "state dict begin with that. Known by the message that the program ended with.",
)
def compiled_state_dict(report: Report) -> Iterator[Ranked]:
    if "_orig_mod." in report.outcome.message and "state_dict" in report.outcome.message:
        yield compiled_state_dict.finding(
            "A state dict of a compiled model has other names: `_orig_mod.`",
            "Compile in place, `model.compile()` in the place of `model = torch.compile(model)`: the names stay. Or "
            "save and load the state dict of the module that was given to torch.compile. A file that has the prefix "
            'already: `{name.removeprefix("_orig_mod."): value for name, value in state.items()}`.',
            why=f"{FROM_RUN} What `torch.compile(model)` returns holds the model under `_orig_mod`.",
            location=report.outcome.raised_at,
        )


_BLOCKING = "Run it with `CUDA_LAUNCH_BLOCKING=1`: the line that raises is then the one at fault."
# What torch says, what it means, and what finds the cause.
_KERNEL_FAILURES = (
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
    of_failure=True,
    link="https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    description="Kernels run after the call that started them has returned. Where one fails, the first line that waits "
    "for the GPU raises, and nothing on that GPU works any more in this process. Known by the message that the program "
    "ended with.",
    fix=_BLOCKING,
)
def gpu_kernel_failed(report: Report) -> Iterator[Ranked]:
    for said, title, advice in _KERNEL_FAILURES:
        if said in report.outcome.message:
            yield gpu_kernel_failed.finding(
                title,
                advice,
                why=f"{FROM_RUN} The line that raised is the first that waited for the GPU, not always the one that "
                "started the kernel.",
                location=report.outcome.raised_at,
            )
