"""Layers of torchao and of other quantisers (GPTQ, AWQ, HQQ, ...): what of their code the compiler could not trace."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dynalyze.report import Advice, Finding, GraphBreak, Report, SkippedFrame
from dynalyze.report.models import LayerGroup, ModuleFacts
from dynalyze.rules.report_queries import (
    FROM_LAYERS,
    FROM_RUN,
    breaks_in,
    comes_from,
    compiled_at,
    counted,
    layers_of,
    shown_version,
    skipped_in,
    version,
)
from dynalyze.rules.rule import Rule, severity_of

_RANK_TORCHAO, _RANK_OF_KERNELS = 196, 620
_LINK_TORCHAO = "https://github.com/pytorch/ao/issues/2919"


def _judge_torchao(report: Report) -> Iterator[tuple[int, Finding]]:
    found = _in_its_code(report)
    if found is not None:
        yield _RANK_TORCHAO, found
    for module, group in layers_of(report, "torchao"):
        if reason := group.facts.get("kernels_skipped"):
            torch = shown_version(version(report, "torch"))
            action = f"Install a torchao that is built for torch {torch}, or the torch that it asks for."
            yield (
                _RANK_OF_KERNELS,
                TORCHAO.finding(
                    title=f"torchao runs without its own kernels: {counted(group.count, 'weight')} of {group.kind}",
                    severity="info",
                    location=compiled_at(module),
                    evidence=[module.id],
                    advice=Advice(
                        action=f"{action} torchao says: {str(reason).strip().rstrip('.')}.",
                        why=f"{FROM_LAYERS} Layouts that need its kernels fail or take a slower way; those of "
                        "plain PyTorch operations run as they do with them.",
                        link=_LINK_TORCHAO,
                    ),
                ),
            )


def _in_its_code(report: Report) -> Finding | None:
    breaks, skipped = TORCHAO.breaks(report), skipped_in(report, "torchao")
    if not breaks and not skipped:
        return None
    parts = [counted(len(breaks), "graph break")] if breaks else []
    parts += [f"{counted(len(skipped), 'function')} left in eager"] if skipped else []
    library, torch = version(report, "torchao"), version(report, "torch")
    action = (
        f"torchao {shown_version(library) or '(version not known)'} with torch {shown_version(torch)}: install the "
        "pair that torchao's table of versions names."
    )
    return TORCHAO.finding(
        title=f"In torchao's own code: {', '.join(parts)}",
        severity=severity_of(breaks),
        location=(breaks or skipped)[0].location,
        evidence=[fact.id for facts in (breaks, skipped) for fact in facts],
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} torchao's quantised weights are made for torch.compile, which fuses unpacking them into "
            "the multiplication; where its code is not traced, each call pays for it apart.",
            link=_LINK_TORCHAO,
        ),
    )


TORCHAO = Rule(
    id="torchao",
    title="torchao's layers do not compile as they should",
    severity="warning",
    description=(
        "torchao keeps quantised weights as tensor subclasses and counts on torch.compile to be fast. Each version is "
        "built for some versions of torch: with another one its kernels are not loaded, or its code is not traced."
    ),
    fix="Install a torchao that is made for your torch.",
    passed="torchao's code was traced whole.",
    judge=_judge_torchao,
    owns_breaks=partial(breaks_in, folder="torchao"),
)


_RANK_OTHER, _RANK_OF_UNKNOWN = 197, 630
_LINK_OTHER = "https://huggingface.co/docs/transformers/quantization/overview"
_NAMES = {
    "gptqmodel": "GPTQ or AWQ (gptqmodel)", "auto_gptq": "GPTQ (auto_gptq)", "awq": "AWQ", "hqq": "HQQ",
    "optimum": "quanto or GPTQ (optimum)", "compressed_tensors": "compressed-tensors", "fbgemm": "FBGEMM",
    "fbgemm_gpu": "FBGEMM", "fp8": "fine-grained FP8", "auto_round": "AutoRound", "auto_round_extension": "AutoRound",
    "aqlm": "AQLM", "vptq": "VPTQ", "spqr_quant": "SpQR", "fp_quant": "FP-Quant", "sinq": "SINQ", "quark": "Quark",
    "eetq": "EETQ", "bitnet": "BitNet", "higgs": "HIGGS", "mxfp4": "MXFP4", "nvfp4": "NVFP4", "metal": "Metal",
    "gemma": "Gemma's quantiser", "fouroversix": "4/6",
}  # fmt: skip
# Where a quantiser's code is, beside the package of its own name.
_FILES = {"fbgemm": "fbgemm_fp8", "fp8": "finegrained_fp8", "gemma": "gemma_quant", "metal": "metal_quantization"}


def _judge_other(report: Report) -> Iterator[tuple[int, Finding]]:
    seen: set[str] = set()
    own = OTHER.breaks(report)
    for module, group in layers_of(report, *_NAMES):
        if group.library not in seen:
            seen.add(group.library)
            breaks = [found for found in _breaks_of(report, group.library) if found in own]
            skipped = skipped_in(report, group.library)
            if breaks or skipped:
                yield _RANK_OTHER, _finding(module, group, breaks, skipped)
    for module in report.modules:
        if module.quantization and not module.layers:
            yield _RANK_OF_UNKNOWN, _unknown(report, module)


def _finding(module: ModuleFacts, group: LayerGroup, breaks: list[GraphBreak], skipped: list[SkippedFrame]) -> Finding:
    name = _NAMES[group.library]
    parts = [counted(len(breaks), "graph break")] if breaks else []
    parts += [f"{counted(len(skipped), 'function')} left in eager"] if skipped else []
    action = (
        f"Choose a kernel of {name} that is a custom operator, where its configuration offers one (`backend`), or "
        f"upgrade it: a `{group.kind}` that torch cannot trace is cut out of the graph in each layer."
    )
    return OTHER.finding(
        title=f"{name}: {', '.join(parts)} in the code of {counted(group.count, group.kind + ' layer')}",
        severity=severity_of(breaks),
        location=(breaks or skipped)[0].location,
        evidence=[fact.id for facts in (breaks, skipped) for fact in facts],
        advice=Advice(action=action, why=_why(module, group), link=_LINK_OTHER),
    )


def _unknown(report: Report, module: ModuleFacts) -> Finding:
    weights = "with `--weights`" if report.target.kind == "transformers" else "after `from_pretrained`"
    action = (
        f"Run it {weights} where {module.quantization} is installed and has a device that it runs on: what its layers "
        "do to the graph is unknown until then."
    )
    return OTHER.finding(
        title=f"{module.class_name} is configured for {module.quantization}, and ran without its layers",
        rule="quantiser-unknown",
        severity="info",
        location=compiled_at(module),
        evidence=[module.id],
        advice=Advice(
            action=action,
            why=f"{FROM_LAYERS} The module holds no quantised layer: what ran and was measured are plain ones.",
            link=_LINK_OTHER,
        ),
    )


def _why(module: ModuleFacts, group: LayerGroup) -> str:
    told = f"{FROM_RUN} What is around these layers is compiled; they themselves run as in eager."
    if group.facts.get("compiled_by_generate") is False:
        told += " transformers' `generate` does not compile a model with this quantiser by itself."
    elif group.facts.get("compiled_by_generate"):
        told += " transformers counts this quantiser among those that can be compiled."
    return told


def _breaks_of(report: Report, library: str) -> list[GraphBreak]:
    """The graph breaks in a quantiser's package, or in transformers' file for it."""
    own = breaks_in(report, library)
    file = f"/integrations/{_FILES.get(library, library)}.py"
    return own + [
        found
        for found in report.graph_breaks
        if found.location.file.endswith(file) and comes_from(found.location, "transformers") and found not in own
    ]


def _owned_breaks(report: Report) -> Iterator[GraphBreak]:
    for library in dict.fromkeys(group.library for _, group in layers_of(report, *_NAMES)):
        yield from _breaks_of(report, library)


OTHER = Rule(
    id="other-quantiser",
    title="A quantiser's layers are not traced",
    severity="warning",
    description=(
        "Layers of GPTQ, AWQ, HQQ, quanto, compressed-tensors and others call kernels of their own. Those that are "
        "custom operators stay in the graph; others break it, or are left in eager, in every layer. The finding "
        "quantiser-unknown says that a configuration names a quantiser and the module that ran has none of its layers."
    ),
    fix=(
        "Choose a kernel that is a custom operator where the quantiser's configuration offers one, or upgrade it. "
        "Where the layers did not run, run them on the device that they need."
    ),
    passed="No quantiser's layer broke a graph.",
    judge=_judge_other,
    owns_breaks=_owned_breaks,
    precedence=1,
    more_ids=("quantiser-unknown",),
)

RULES = (TORCHAO, OTHER)
