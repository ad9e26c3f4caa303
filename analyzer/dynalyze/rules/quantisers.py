"""The quantisers beside bitsandbytes and torchao: their names, and where their code is."""

from __future__ import annotations

from dynalyze.report import GraphBreak, Report
from dynalyze.rules.library_layers import breaks_in, comes_from

NAMES = {
    "gptqmodel": "GPTQ or AWQ (gptqmodel)", "auto_gptq": "GPTQ (auto_gptq)", "awq": "AWQ", "hqq": "HQQ",
    "optimum": "quanto or GPTQ (optimum)", "compressed_tensors": "compressed-tensors", "fbgemm": "FBGEMM",
    "fbgemm_gpu": "FBGEMM", "fp8": "fine-grained FP8", "auto_round": "AutoRound", "auto_round_extension": "AutoRound",
    "aqlm": "AQLM", "vptq": "VPTQ", "spqr_quant": "SpQR", "fp_quant": "FP-Quant", "sinq": "SINQ", "quark": "Quark",
    "eetq": "EETQ", "bitnet": "BitNet", "higgs": "HIGGS", "mxfp4": "MXFP4", "nvfp4": "NVFP4", "metal": "Metal",
    "gemma": "Gemma's quantiser", "fouroversix": "4/6",
}  # fmt: skip
# Where a quantiser's code is, beside the package of its own name.
_FILES = {"fbgemm": "fbgemm_fp8", "fp8": "finegrained_fp8", "gemma": "gemma_quant", "metal": "metal_quantization"}


def breaks_of(report: Report, library: str) -> list[GraphBreak]:
    """The graph breaks in a quantiser's package, or in transformers' file for it."""
    own = breaks_in(report, library)
    file = f"/integrations/{_FILES.get(library, library)}.py"
    return own + [
        found
        for found in report.graph_breaks
        if found.location.file.endswith(file) and comes_from(found.location, "transformers") and found not in own
    ]
