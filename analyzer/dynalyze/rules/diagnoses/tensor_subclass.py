"""Graph breaks in what a tensor subclass runs at each operation."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.files.paths import library_of
from dynalyze.report import Example, GraphBreak, Location, Report
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule, severity_of

_FIX = (
    "Pass `x.as_subclass(torch.Tensor)` to what is compiled, and give the result its class again where that is needed"
)


def _hook_of(found: GraphBreak) -> Location | None:
    """The `__torch_function__` outside of torch that the break is in."""
    frames = [each for each in found.stack if each.function == "__torch_function__"]
    return next((each for each in frames if library_of(each.file) != "torch"), None)


@Rule(
    title="Pass a plain tensor in place of a tensor subclass",
    rank=100,
    link="https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-with-a-tensor-like-type",
    description="The graph breaks in the `__torch_function__` of a class of tensors, such as MONAI's, that runs at "
    "each operation.",
    fix=f"{_FIX}.",
    example=Example("compiled(image)", "compiled(image.as_subclass(torch.Tensor))"),
    owns_breaks=lambda report: (each for each in report.graph_breaks if _hook_of(each) is not None),
    precedence=1,  # Classes of quantised weights have findings of their own.
)
def tensor_subclass(report: Report) -> Iterator[Ranked]:
    hooks: dict[str, list[GraphBreak]] = {}
    for found in tensor_subclass.breaks(report):
        hook = _hook_of(found)
        if hook is not None:
            hooks.setdefault(hook.file, []).append(found)
    for breaks in hooks.values():
        first = breaks[0]
        yield tensor_subclass.finding(
            tensor_subclass.title,
            f"{_FIX}: the graph breaks in the `__torch_function__` of the class of an input, "
            f"{first.location.short}, at each operation that it comes to.",
            why="Dynamo traces `__torch_function__` of a subclass as Python code, and what it cannot trace there "
            "breaks the graph wherever the tensor goes. A plain tensor has none. Where it is a weight that has the "
            "class, its package has to mend the line.",
            example=tensor_subclass.example,
            severity=severity_of(breaks),
            location=next((each for each in first.stack if not library_of(each.file)), first.location),
            evidence=ids(breaks),
        )
