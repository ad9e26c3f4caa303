"""Tokens, what a tokenizer returns beside them and a decoder reads after them, and embeddings in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Kind, Made, Placeholder

# What transformers writes into `mm_token_type_ids` for each kind of token.
_KINDS: dict[Kind, int] = {"text": 0, "image": 1, "video": 2, "audio": 3}
# Tokens before the first placeholder, as a prompt's opening has.
_OPENING = 2
_CHOICES = 2
_QUERIES = 32


def add(made: Made) -> None:
    """What the model reads of text, for its encoder and for its decoder; text comes after all placeholders."""
    _add_tokens(made)
    _add_decoder(made)
    _add_embeddings(made)


def _add_tokens(made: Made) -> None:
    """`input_ids` with the placeholders of the other modalities, their mask and their kinds."""
    if made.wants("input_ids") and not _reads_embeddings(made):
        made.inputs["input_ids"] = _input_ids(made)
    ids = made.inputs.get("input_ids")
    if ids is None:
        return
    if made.wants("attention_mask"):
        made.inputs["attention_mask"] = values.ones(made, ids.shape)
    if made.wants("mm_token_type_ids"):
        made.inputs["mm_token_type_ids"] = token_kinds(made, ids)
    if made.needs("token_type_ids"):
        made.inputs["token_type_ids"] = values.zeros(made, ids.shape)


def token_kinds(made: Made, ids: torch.Tensor) -> torch.Tensor:
    """For each token the modality that it stands for, in transformers' numbers."""
    kinds = values.zeros(made, ids.shape)
    for placeholder in made.placeholders:
        kinds[ids == placeholder.token_id] = _KINDS[placeholder.kind]
    return kinds


def _input_ids(made: Made) -> torch.Tensor:
    import torch

    shape = (made.batch, _CHOICES, made.sequence) if _of_choices(made) else (made.batch, made.sequence)
    ids = values.tokens(made, shape)
    end = getattr(made.config, "eos_token_id", None)
    if (
        getattr(made.config, "is_encoder_decoder", False)
        and isinstance(end, int)
        and end < values.vocabulary_size(made)
    ):
        # Their tokenizers end what the encoder reads, and heads look for that token.
        ids[..., -1] = end
    if not made.placeholders:
        return ids
    runs = [run for placeholder in made.placeholders for run in _runs(made, placeholder)]
    return torch.cat([ids[..., :_OPENING], *runs, ids[..., _OPENING:]], dim=-1)


def _runs(made: Made, placeholder: Placeholder) -> list[torch.Tensor]:
    size = values.vocabulary_size(made)
    # A small vocabulary may have lost the tokens around the run, which only the model's training gives a meaning.
    around = [token if token is not None and token < size else None for token in (placeholder.begin, placeholder.end)]
    lengths = ((around[0], 1), (placeholder.token_id, placeholder.count), (around[1], 1))
    return [values.full(made, (made.batch, length), token) for token, length in lengths if token is not None]


def _reads_embeddings(made: Made) -> bool:
    return getattr(made.model, "main_input_name", None) == "inputs_embeds"


def _of_choices(made: Made) -> bool:
    """Multiple choice scores several texts a sample; nothing but the class's name tells."""
    return made.name.endswith(("ForMultipleChoice", "DoubleHeadsModel"))


def _add_decoder(made: Made) -> None:
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


def _add_embeddings(made: Made) -> None:
    """Embeddings that forward cannot do without, and what a query transformer attends to."""
    width = values.first(made.text_config, "hidden_size", "d_model")
    if width is None:
        return
    for name in ("inputs_embeds", "hidden_states"):
        if made.needs(name) and "grid_thw" not in made.takes:
            made.inputs[name] = values.floats(made, (made.batch, made.sequence, width))
    if made.needs("latents"):
        made.inputs["latents"] = values.floats(made, (made.batch, width, made.sequence))
    if made.wants("query_embeds"):
        _add_queries(made, width)


def _add_queries(made: Made, width: int) -> None:
    queries = values.first(made.config, "num_query_tokens", default=_QUERIES)
    made.inputs["query_embeds"] = values.floats(made, (made.batch, queries, width))
    if made.wants("encoder_hidden_states"):
        attended = values.first(made.config, "encoder_hidden_size", default=width)
        made.inputs["encoder_hidden_states"] = values.floats(made, (made.batch, made.sequence, attended))
    ids = made.inputs.get("input_ids")
    if ids is not None and "attention_mask" in made.inputs:
        # The queries stand before the text.
        made.inputs["attention_mask"] = values.ones(made, (made.batch, queries + ids.shape[-1]))
