"""Caches of the compilers in folders of our own: a start is cold, or as warm as an earlier one left it."""

from __future__ import annotations

from pathlib import Path

# Whatever could make a cold start warm, beside the cache folders, which are new.
NOTHING_REMEMBERED = {
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_BUNDLED_AUTOTUNE_REMOTE_CACHE": "0",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": "0",
}


def cache_variables(caches: Path) -> dict[str, str]:
    """Where the compilers keep what they made; CUDA's driver has a cache of its own."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }
