"""ShieldGemma 2 is a Gemma 3 that answers with one of two tokens, which its configuration does not always name."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.special import gemma3
from dynalyze.capture.hf.special.gemma3 import complete as complete


def shrink(config: Any) -> None:
    gemma3.shrink(config)
    last = config.text_config.vocab_size - 1
    config.yes_token_index, config.no_token_index = last // 2, last // 2 - 1
