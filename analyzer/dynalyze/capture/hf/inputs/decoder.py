"""What the decoder of an encoder-decoder model reads beside the encoder's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def add(made: Made) -> None:
    """`decoder_input_ids`: the start token and what was written so far."""
    if made.wants("decoder_input_ids"):
        config = decoder_part(made.config)
        ids = values.tokens(made, (made.batch, made.sequence), vocabulary=config.vocab_size)
        start = _start_token(made.config, config)
        if start is not None and start < config.vocab_size:
            ids[:, 0] = start
        made.inputs["decoder_input_ids"] = ids
    if made.needs("decoder_attention_mask") and "decoder_input_ids" in made.inputs:
        made.inputs["decoder_attention_mask"] = values.ones(made, made.inputs["decoder_input_ids"].shape)


def decoder_part(config: Any) -> Any:
    """The sub-configuration of the decoder, the whole one where it has no part of its own."""
    decoder = getattr(config, "decoder", None)
    if hasattr(decoder, "vocab_size"):
        return decoder
    try:
        part = config.get_text_config(decoder=True)
    except (AttributeError, ValueError):
        return config
    return part if hasattr(part, "vocab_size") else config


def _start_token(*configs: Any) -> int | None:
    for config in configs:
        start = values.first(config, "decoder_start_token_id", "bos_token_id")
        if isinstance(start, int):
            return start
    return None
