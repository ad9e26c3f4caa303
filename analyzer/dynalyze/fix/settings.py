"""Settings of Dynamo that end breaks or recompiles: those that the advice names, by name and value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dynalyze.fix.sites import Proposal
from dynalyze.report import GraphBreak, Recompile, Report
from dynalyze.report.fixes import CompileCounts
from dynalyze.rules.recipe import recipe_of
from dynalyze.rules.recompile_advice import advise
from dynalyze.rules.recompile_series import gather, spared_by_dynamic
from dynalyze.rules.rule import recompile_owner
from dynalyze.rules.settings import ALL_SIZES, merged, read
from dynalyze.text.amounts import count_of

READS = ("Unsupported Tensor.item()", "Data dependent operator", "Dynamic shape operator", "Data-dependent",
          "Failed to trace builtin operator")  # fmt: skip
"""The types of breaks at which values of tensors are read, or sizes that they decide: as PyTorch's texts begin."""
READS_SIZES: dict[str, object] = {"capture_dynamic_output_shape_ops": True}
READS_VALUES: dict[str, object] = {"capture_scalar_outputs": True, **READS_SIZES}
"""What one of them alone leads to is often the other's: a size read from a tensor of unknown size."""
_OF_BREAKS: dict[str, tuple[dict[str, object], ...]] = {
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": ({"capture_scalar_outputs": True},),
    "Dynamic shape operator": (READS_SIZES,),
    "Data dependent operator": ({"capture_scalar_outputs": True},),
}
_IGNORED = "ignore_logging_functions"
_METHODS = ("debug", "info", "warning", "error", "exception", "critical", "log")


def settings_for(broken: GraphBreak) -> Iterator[Proposal]:
    """Proposals for a break, the smallest change first."""
    tried: list[dict[str, object]] = []
    wanted: list[dict[str, object]] = [*_OF_BREAKS.get(broken.gb_type, ()), *_of_recipe(broken), *_of_logger(broken)]
    if any(set(each) & set(READS_VALUES) for each in wanted):
        wanted.append(READS_VALUES)
    for each in wanted:
        if each and each not in tried:
            tried.append(each)
            loses = ("logged",) if _IGNORED in each else ()
            yield Proposal(title_of(each), settings=each, loses=loses, rewrite="setting")


def title_of(settings: dict[str, object]) -> str:
    text = "Set " + ", ".join(f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in settings.items())
    return f"{text}, as dynamic=True of every torch.compile" if settings == ALL_SIZES else text


def _of_recipe(broken: GraphBreak) -> Iterator[dict[str, object]]:
    recipe = recipe_of(broken)
    if recipe is not None and recipe.config and (found := read(recipe.config)):
        yield found


def _of_logger(broken: GraphBreak) -> Iterator[dict[str, object]]:
    """Leave every call of this method of loggers out of compiled code."""
    method = broken.expression.partition("(")[0].rpartition(".")[2]
    if broken.gb_type.startswith("logging.Logger method") and method in _METHODS:
        yield {_IGNORED: [f"logging.Logger.{method}"]}


@dataclass
class SettingCandidate:
    """Settings, and the recompiles whose advice names them."""

    settings: dict[str, object] = field(default_factory=dict)
    recompiles: list[Recompile] = field(default_factory=list)


def candidates(report: Report) -> Iterator[SettingCandidate]:
    """All settings that the advice names together, then, if there are several, each alone; then `dynamic=True`."""
    by_name: dict[str, SettingCandidate] = {}
    dynamic = SettingCandidate(ALL_SIZES)
    free, limited = gather(report)
    for series in [*free, *(group.main for group in limited)]:
        if recompile_owner(series, report) is None:
            if spared_by_dynamic(series.lead):
                dynamic.recompiles += series.recompiles
            for name, value in read(advise(series).config).items():
                one = by_name.setdefault(name, SettingCandidate())
                one.settings = merged(one.settings, {name: value})
                one.recompiles += series.recompiles
    if len(by_name) > 1:
        every = SettingCandidate()
        for one in by_name.values():
            every.settings |= one.settings
            every.recompiles += [each for each in one.recompiles if each not in every.recompiles]
        yield every
    yield from by_name.values()
    if dynamic.recompiles:
        yield dynamic


def no_better(before: CompileCounts, after: CompileCounts) -> str:
    """Why settings against recompiles gain nothing; "" if they do."""
    if after.breaks > before.breaks:
        return f"{count_of(after.breaks, 'graph break')} then, {before.breaks} before"
    if after.recompiles >= before.recompiles:
        return f"{count_of(after.recompiles, 'recompile')} then, {before.recompiles} before"
    return ""
