"""Hooks that compiled code never runs, because they were registered after it was compiled."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Report
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of

_SETTING = "torch._dynamo.config.skip_nnmodule_hook_guards = False"


@Rule(
    title="A hook registered after compiling never runs",
    rank=10,
    link="https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_nn_module.html",
    description="Compiled code holds the hooks that its modules had when it was compiled. torch does not ask whether "
    "there are more since, so that a hook registered later is never run: activations are not collected, gradients not "
    "changed, and nothing says so.",
)
def late_hook(report: Report) -> Iterator[Ranked]:
    for hook in report.late_hooks:
        many = f" ({count_of(hook.count, 'hook')} here)" if hook.count > 1 else ""
        yield late_hook.finding(
            "A hook registered after compiling never runs",
            f"Register it before the first call of the compiled model{many}, or set this before that call: a later "
            "hook then compiles the code again, and runs.",
            why=f"Seen in this run: `{hook.method}` on a module ({hook.class_name}) whose code was compiled already. "
            "Compiled code holds the hooks of then, and no guard asks for more.",
            config=_SETTING,
            config_note="Each call then checks the hooks of all modules.",
            location=hook.location,
        )
