"""PP-OCRv6's larger detector: the convolutions of PP-OCRv5's, the backbone of the small one."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.special import pp_ocrv5_server_det, pp_ocrv6_small_det


def complete(config: Any) -> None:
    pp_ocrv5_server_det.complete(config)
    pp_ocrv6_small_det.complete(config)
