"""Tokens, with placeholders for the features of images and videos; what a tokenizer returns beside them and a decoder
reads after them, embeddings in their place, and labels where the shape that the loss wants can be known.
"""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.libraries.hf import parts
from dynalyze.capture.libraries.hf.inputs import pixels
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Kind, Placeholder, features_per_sample
from dynalyze.capture.libraries.hf.parts import first, first_number

# What transformers writes into `mm_token_type_ids` for each kind of token.
_KINDS: dict[Kind, int] = {"text": 0, "image": 1, "video": 2, "audio": 3}
# Tokens before the first placeholder, as a prompt's opening has.
_OPENING = 2
_CHOICES = 2
_QUERIES = 32
_PIXELS: dict[Kind, str] = {"image": "pixel_values", "video": "pixel_values_videos"}
# Tokens that processors write around an image or a video, by the names that configurations give them.
_BEGIN = ("vision_start_token_id", "boi_token_id", "boi_token_index", "image_start_token_id", "image_begin_token_id")
_END = ("vision_end_token_id", "eoi_token_id", "eoi_token_index", "image_end_token_id")
# Pages are measured in thousandths.
_PAGE = 1000
_WORD = 100
# Heads that score a sample as a whole, and heads that score each token, by how transformers ends their names.
_OF_SAMPLES = (
    "ForSequenceClassification", "ForImageClassification", "ForAudioClassification", "ForVideoClassification",
    "ForXVector", "ForNextSentencePrediction",
)  # fmt: skip
_OF_TRANSCRIPTS = ("ForRNNT", "ForTDT")
_OF_VOCABULARY = (
    "ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForImageTextToText",
    "ForProteinText2Text",
)  # fmt: skip
_OF_ANSWERS = ("start_positions", "end_positions")
# Whether two sentences belong together, beside the tokens of both.
_OF_PAIRS = ("next_sentence_label", "sentence_order_label")
_TRANSCRIPT = 4
_IGNORED = -100


def add(builder: InputBuilder) -> None:
    """What the model reads of text, for its encoder and for its decoder; text comes after all placeholders."""
    _add_tokens(builder)
    _add_decoder(builder)
    _add_embeddings(builder)


def _add_tokens(builder: InputBuilder) -> None:
    """`input_ids` with the placeholders of the other modalities, their mask and their kinds."""
    if builder.wants("input_ids") and getattr(builder.model, "main_input_name", None) != "inputs_embeds":
        builder.inputs["input_ids"] = _input_ids(builder)
    ids = builder.inputs.get("input_ids")
    if ids is None:
        return
    if builder.wants("attention_mask"):
        builder.inputs["attention_mask"] = builder.ones(ids.shape)
    if builder.wants("mm_token_type_ids"):
        builder.inputs["mm_token_type_ids"] = kinds = builder.full(ids.shape, 0)
        for placeholder in builder.placeholders:
            kinds[ids == placeholder.token_id] = _KINDS[placeholder.kind]
    if builder.needs("token_type_ids"):
        builder.inputs["token_type_ids"] = builder.full(ids.shape, 0)


def _input_ids(builder: InputBuilder) -> torch.Tensor:
    # Multiple choice scores several texts a sample; nothing but the class's name tells.
    choices = (_CHOICES,) if builder.name.endswith(("ForMultipleChoice", "DoubleHeadsModel")) else ()
    ids = builder.tokens((builder.batch, *choices, builder.sequence))
    end = getattr(builder.config, "eos_token_id", None)
    size = builder.vocabulary_size()
    if getattr(builder.config, "is_encoder_decoder", False) and isinstance(end, int) and end < size:
        # Their tokenizers end what the encoder reads, and heads look for that token.
        ids[..., -1] = end
    if not builder.placeholders:
        return ids
    runs: list[torch.Tensor] = []
    for placeholder in builder.placeholders:
        # A small vocabulary may have lost the tokens around the run, which only the model's training gives a meaning.
        around = (placeholder.begin, placeholder.end)
        begin, end = ([token] if token is not None and token < size else [] for token in around)
        run = [*begin, *[placeholder.token_id] * placeholder.count, *end]
        runs.append(torch.tensor(run, dtype=torch.long, device=builder.device).expand(builder.batch, -1))
    return torch.cat([ids[..., :_OPENING], *runs, ids[..., _OPENING:]], dim=-1)


def _add_decoder(builder: InputBuilder) -> None:
    """`decoder_input_ids`: the start token and what was written so far."""
    if builder.wants("decoder_input_ids"):
        config = decoder_part(builder.config)
        ids = builder.tokens((builder.batch, builder.sequence), vocabulary=config.vocab_size)
        starts = [parts.first(each, "decoder_start_token_id", "bos_token_id") for each in (builder.config, config)]
        start = next((each for each in starts if isinstance(each, int)), config.vocab_size)
        if start < config.vocab_size:
            ids[:, 0] = start
        builder.inputs["decoder_input_ids"] = ids
    if builder.needs("decoder_attention_mask") and "decoder_input_ids" in builder.inputs:
        builder.inputs["decoder_attention_mask"] = builder.ones(builder.inputs["decoder_input_ids"].shape)


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


def _add_embeddings(builder: InputBuilder) -> None:
    """Embeddings that forward cannot do without, and what a query transformer attends to."""
    width = parts.first(builder.text_config, "hidden_size", "d_model")
    if width is None:
        return
    for name in ("inputs_embeds", "hidden_states"):
        if builder.needs(name) and "grid_thw" not in builder.takes:
            builder.inputs[name] = builder.floats((builder.batch, builder.sequence, width))
    if builder.needs("latents"):
        builder.inputs["latents"] = builder.floats((builder.batch, width, builder.sequence))
    if builder.wants("query_embeds"):
        queries = parts.first(builder.config, "num_query_tokens", default=_QUERIES)
        builder.inputs["query_embeds"] = builder.floats((builder.batch, queries, width))
        if builder.wants("encoder_hidden_states"):
            attended = parts.first(builder.config, "encoder_hidden_size", default=width)
            builder.inputs["encoder_hidden_states"] = builder.floats((builder.batch, builder.sequence, attended))
        if builder.inputs.keys() >= {"input_ids", "attention_mask"}:  # The queries stand before the text.
            length = queries + builder.inputs["input_ids"].shape[-1]
            builder.inputs["attention_mask"] = builder.ones((builder.batch, length))


def add_placeholders(builder: InputBuilder) -> None:
    """Boxes, and placeholders for the images and videos made so far in models that read them among a text's tokens."""
    if builder.wants("bbox"):
        builder.inputs["bbox"] = _boxes(builder)
    if "input_ids" not in builder.takes:
        return
    placed = {placeholder.kind for placeholder in builder.placeholders}
    for kind, name in _PIXELS.items():
        # The token that stands for one feature; the model needs none where it names none.
        token = first_number(pixels.parts_that_see(builder.config), f"{kind}_token_id", f"{kind}_token_index")
        if token is None or name not in builder.inputs or kind in placed:
            continue
        if count := features_per_sample(builder, kind):
            begin, end = first(builder.config, *_BEGIN), first(builder.config, *_END)
            builder.placeholders.append(Placeholder(token, count, kind, begin, end))


def _boxes(builder: InputBuilder) -> torch.Tensor:
    """For each token its word's box, the corners as the model counts them: two in thousandths, or four as fractions."""
    places = first(builder.config, "max_2d_position_embeddings", "max_xpath_depth", default=_PAGE + 1)
    shape = (builder.batch, builder.sequence, 2)
    start = builder.integers(shape, 0, min(_PAGE, places - 1) - _WORD)
    extent = builder.integers(shape, 1, _WORD)
    box = torch.cat([start, start + extent], dim=-1)
    if first(builder.config, "dim_bbox") == 8:
        corners = box[..., [0, 1, 2, 1, 2, 3, 0, 3]]
        return corners.to(builder.dtype) / _PAGE
    return box


def add_labels(builder: InputBuilder) -> None:
    """`labels` for the usual heads, the positions of answers, and the wish for a contrastive loss."""
    if not builder.train:
        return
    if builder.wants("labels") and (label := _labels(builder)) is not None:
        builder.inputs["labels"] = label
    ends = dict.fromkeys(_OF_PAIRS, 2)
    if all(builder.wants(name) for name in _OF_ANSWERS) and "input_ids" in builder.inputs:
        ends |= dict.fromkeys(_OF_ANSWERS, builder.inputs["input_ids"].shape[-1])
    for name, end in ends.items():
        if builder.wants(name):
            builder.inputs[name] = builder.integers((builder.batch,), 0, end)
    if builder.wants("return_loss"):
        builder.inputs["return_loss"] = True


def _labels(builder: InputBuilder) -> torch.Tensor | None:
    ids = builder.inputs.get("input_ids")
    if builder.name.endswith(_OF_SAMPLES):
        classes = int(parts.first(builder.config, "num_labels", default=2))
        return builder.integers((builder.batch,), 0, max(2, classes))
    if builder.name.endswith("ForCTC"):
        return builder.tokens((builder.batch, _TRANSCRIPT))
    if builder.name.endswith(_OF_TRANSCRIPTS):
        # The decoder reads a start token before them.
        return builder.tokens((builder.batch, builder.inputs["decoder_input_ids"].shape[-1] - 1))
    if "decoder_input_ids" in builder.inputs:  # What the decoder of an encoder-decoder is trained to write.
        shape = builder.inputs["decoder_input_ids"].shape
        return builder.tokens(shape, decoder_part(builder.config).vocab_size) if len(shape) == 2 else None
    if ids is None:
        return None
    if builder.name.endswith("ForMultipleChoice"):
        return builder.integers((builder.batch,), 0, ids.shape[1])
    if builder.name.endswith("ForTokenClassification"):
        return builder.integers(ids.shape, 0, builder.config.num_labels)
    if builder.name.endswith("ForPreTraining") and not any(name in builder.takes for name in _OF_PAIRS):
        # Whether each token was replaced.
        return builder.integers(ids.shape, 0, 2)
    if not builder.name.endswith((*_OF_VOCABULARY, "ForPreTraining")):
        return None
    # What a language model is trained on: its own tokens, but for those that stand for other modalities.
    labels = ids.clone()
    for placeholder in builder.placeholders:
        labels[labels == placeholder.token_id] = _IGNORED
    return labels
