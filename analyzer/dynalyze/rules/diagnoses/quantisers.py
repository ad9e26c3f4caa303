"""Layers of torchao and of other quantisers (GPTQ, AWQ, HQQ, ...): what of their code the compiler could not trace."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dynalyze.files.paths import library_of
from dynalyze.report import GraphBreak, Report, SkippedFrame
from dynalyze.report.models import LayerGroup, ModuleFacts
from dynalyze.rules import report_queries as queries
from dynalyze.rules.rule import Ranked, Rule, severity_of
from dynalyze.text.amounts import count_of


def _parts(breaks: list[GraphBreak], skipped: list[SkippedFrame]) -> str:
    parts = [count_of(len(breaks), "graph break")] if breaks else []
    parts += [f"{count_of(len(skipped), 'function')} left in eager"] if skipped else []
    return ", ".join(parts)


def _untraced(
    rule: Rule,
    title: str,
    breaks: list[GraphBreak],
    skipped: list[SkippedFrame],
    action: str,
    why: str,
    after: str = "",
) -> Ranked:
    return rule.finding(
        title,
        action,
        why=f"{queries.FROM_RUN} {why}",
        severity=severity_of(breaks),
        location=(breaks or skipped)[0].location,
        evidence=[*queries.ids(breaks), *queries.ids(skipped)],
        after=after,
    )


@Rule(
    title="torchao's layers do not compile as they should",
    rank=196,
    link="https://github.com/pytorch/ao/issues/2919",
    description="torchao keeps quantised weights as tensor subclasses and counts on torch.compile to be fast. Each "
    "version is built for some versions of torch: with another one its kernels are not loaded, or its code is not "
    "traced.",
    fix="Install a torchao that is made for your torch.",
    owns_breaks=partial(queries.breaks_in, folder="torchao"),
)
def torchao(report: Report) -> Iterator[Ranked]:
    breaks, skipped = torchao.breaks(report), queries.skipped_in(report, "torchao")
    library = queries.shown_version(queries.version(report, "torchao"))
    torch = queries.shown_version(queries.version(report, "torch"))
    pair = (
        f"torchao {library or '(version not known)'} with torch {torch}: install the pair that torchao's table of "
        "versions names."
    )
    first = next((each for each in report.graph_breaks if not library_of(each.location.file)), None)
    if first is not None:
        pair = (
            f"End the break at {first.location.short} ({first.id}) first, and run this again: behind it torch compiles "
            f"functions of torchao by themselves. Where this stays: {pair}"
        )
    if breaks or skipped:
        yield _untraced(
            torchao,
            f"In torchao's own code: {_parts(breaks, skipped)}",
            breaks,
            skipped,
            pair,
            "torchao's quantised weights are made for torch.compile, which fuses unpacking them into the "
            "multiplication; where its code is not traced, each call pays for it apart.",
            after=first.id if first is not None else "",
        )
    for module, group in queries.layers_of(report, "torchao"):
        if reason := group.facts.get("kernels_skipped"):
            yield torchao.finding(
                f"torchao runs without its own kernels: {count_of(group.count, 'weight')} of {group.kind}",
                f"Install a torchao that is built for torch {torch}, or the torch that it asks for. torchao says: "
                f"{str(reason).strip().rstrip('.')}.",
                why=f"{queries.FROM_LAYERS} Layouts that need its kernels fail or take a slower way; those of "
                "plain PyTorch operations run as they do with them.",
                rank=620,
                severity="info",
                location=queries.compiled_at(module),
                evidence=[module.id],
            )


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


@Rule(
    title="A quantiser's layers are not traced",
    rank=197,
    link="https://huggingface.co/docs/transformers/quantization/overview",
    description="Layers of GPTQ, AWQ, HQQ, quanto, compressed-tensors and others call kernels of their own. Those that "
    "are custom operators stay in the graph; others break it, or are left in eager, in every layer. The finding "
    "quantiser-unknown says that a configuration names a quantiser and the module that ran has none of its layers.",
    fix="Choose a kernel that is a custom operator where the quantiser's configuration offers one, or upgrade it. "
    "Where the layers did not run, run them on the device that they need.",
    owns_breaks=lambda report: [
        found
        for library in dict.fromkeys(group.library for _, group in queries.layers_of(report, *_NAMES))
        for found in _breaks_of(report, library)
    ],
    precedence=1,
    more_ids=("quantiser-unknown",),
)
def other_quantiser(report: Report) -> Iterator[Ranked]:
    own = other_quantiser.breaks(report)
    groups: dict[str, LayerGroup] = {}
    for _, group in queries.layers_of(report, *_NAMES):
        groups.setdefault(group.library, group)
    for library, group in groups.items():
        breaks = [found for found in _breaks_of(report, library) if found in own]
        skipped = queries.skipped_in(report, library)
        if breaks or skipped:
            yield _other(group, breaks, skipped)
    for module in report.modules:
        if module.quantization and not module.layers:
            yield _unknown(report, module)


def _other(group: LayerGroup, breaks: list[GraphBreak], skipped: list[SkippedFrame]) -> Ranked:
    name = _NAMES[group.library]
    generate = ""
    if group.facts.get("compiled_by_generate") is False:
        generate = " transformers' `generate` does not compile a model with this quantiser by itself."
    elif group.facts.get("compiled_by_generate"):
        generate = " transformers counts this quantiser among those that can be compiled."
    return _untraced(
        other_quantiser,
        f"{name}: {_parts(breaks, skipped)} in the code of {count_of(group.count, group.kind + ' layer')}",
        breaks,
        skipped,
        f"Choose a kernel of {name} that is a custom operator, where its configuration offers one (`backend`), or "
        f"upgrade it: a `{group.kind}` that torch cannot trace is cut out of the graph in each layer.",
        f"What is around these layers is compiled; they themselves run as in eager.{generate}",
    )


def _unknown(report: Report, module: ModuleFacts) -> Ranked:
    weights = "with `--weights`" if report.target.kind == "transformers" else "after `from_pretrained`"
    return other_quantiser.finding(
        f"{module.class_name} is configured for {module.quantization}, and ran without its layers",
        f"Run it {weights} where {module.quantization} is installed and has a device that it runs on: what its layers "
        "do to the graph is unknown until then.",
        why=f"{queries.FROM_LAYERS} The module holds no quantised layer: what ran and was measured are plain ones.",
        rank=630,
        rule="quantiser-unknown",
        severity="info",
        location=queries.compiled_at(module),
        evidence=[module.id],
    )


def _breaks_of(report: Report, library: str) -> list[GraphBreak]:
    """The graph breaks in a quantiser's package, or in transformers' file for it."""
    own = queries.breaks_in(report, library)
    file = f"/integrations/{_FILES.get(library, library)}.py"
    return own + [
        found
        for found in report.graph_breaks
        if found.location.file.endswith(file)
        and queries.comes_from(found.location, "transformers")
        and found not in own
    ]
