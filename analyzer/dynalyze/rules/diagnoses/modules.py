"""What does not go through the compiled code: methods of the original module, and hooks registered late."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator

from dynalyze.report import Example, Report, UncompiledMethod
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of, duration, how_often, listed

_MOST_PARTS = 4
_INDEX = re.compile(r"\.(\d+)(?=\.|$)")


@Rule(
    title="A method of the compiled model runs in eager",
    rank=5,
    description="`torch.compile(model)` compiles the call of the model alone. Every other method of what it returns is "
    "the original module's: `generate`, `encode` or `training_step` call the original's forward and parts, and none of "
    "it is compiled.",
    fix="Compile the model in place, `model.compile()`: then what its own methods call is compiled too. A method that "
    "calls parts and not the model is compiled by itself: `model.encode = torch.compile(model.encode)`.",
    example=Example("model = torch.compile(model)\nmodel.generate(ids)", "model.compile()\nmodel.generate(ids)"),
)
def uncompiled_method(report: Report) -> Iterator[Ranked]:
    for method in report.uncompiled_methods:
        itself = next((part for part in method.parts if not part.path), None)
        called = itself.calls if itself is not None else sum(part.calls for part in method.parts)
        what = method.class_name if itself is not None else f"parts of {method.class_name}"
        action, example = _in_place(method) if itself is not None and not itself.of_torch else _of_method(method)
        if called > 1:
            action += " Sizes that only its calls have, such as growing lengths, are compiled then too."
        yield uncompiled_method.finding(
            f"`{method.method}()` of the compiled model runs in eager",
            action,
            why=f"Its first call called {what} {how_often(called)}, {duration(method.seconds)} in all, and "
            "nothing of that was compiled. torch.compile compiles the call of a module; every other method of what it "
            "returns is the original module's.",
            example=example,
            location=method.location,
        )


def _in_place(method: UncompiledMethod) -> tuple[str, Example | None]:
    """For a method that calls the module itself."""
    where = f" ({method.compiled.short})" if method.compiled is not None else ""
    name, model, options = _compile_call(method.statement) or ("model", ast.Name("model"), "")
    old = ast.unparse(model)
    new, further = old, [] if old == name else [f"{name} = {old}"]
    if not isinstance(model, ast.Name | ast.Attribute):
        new = name
    compiled = f"{new}.compile({options})"
    action = f"Compile the model in place: `{compiled}` in the place of `torch.compile`{where}."
    lines = [*further, compiled] if new != old else [compiled, *further]
    return action, Example(method.statement, "\n".join(lines)) if method.statement else None


def _compile_call(statement: str) -> tuple[str, ast.expr, str] | None:
    """What `name = torch.compile(model, options)` assigns to, compiles, and how; None for another form."""
    with contextlib.suppress(SyntaxError):
        match ast.parse(statement).body:
            case [ast.Assign([target], ast.Call(ast.Name() | ast.Attribute(), [model, *further], keywords))]:
                return ast.unparse(target), model, ", ".join(map(ast.unparse, [*further, *keywords]))
    return None


def _of_method(method: UncompiledMethod) -> tuple[str, Example | None]:
    """For a method that calls parts of the module: compile it, or the parts that it calls in a loop."""
    model, found = _called_on(method.call), _compile_call(method.statement)
    options = found[2] if found is not None else ""
    own = f", {options}" if options else ""
    lines = [f"{model}.{method.method} = torch.compile({model}.{method.method}{own})"]
    if any(part.calls > 1 for part in method.parts) and len(method.parts) <= _MOST_PARTS:
        parts = [(_INDEX.sub(r"[\1]", f"{model}.{part.path}"), part.of_torch) for part in method.parts]
        lines = [f"{p} = torch.compile({p}{own})" if of_torch else f"{p}.compile({options})" for p, of_torch in parts]
    action = f"Once, before the first call: {listed([f'`{line}`' for line in lines])}."
    return action, Example(method.call, "\n".join([*lines, method.call])) if method.call else None


def _called_on(call: str) -> str:
    """`self.model` of `self.model.encode(x)`."""
    with contextlib.suppress(SyntaxError):
        match ast.parse(call, mode="eval").body:
            case ast.Call(ast.Attribute(ast.Name() | ast.Attribute() as model)):
                return ast.unparse(model)
    return "model"


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
            late_hook.title,
            f"Register it before the first call of the compiled model{many}, or set this before that call: a later "
            "hook then compiles the code again, and runs.",
            why=f"Seen in this run: `{hook.method}` on a module ({hook.class_name}) whose code was compiled already. "
            "Compiled code holds the hooks of then, and no guard asks for more.",
            config=_SETTING,
            config_note="Each call then checks the hooks of all modules.",
            location=hook.location,
        )
