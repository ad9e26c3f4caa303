"""Labels for training, where the shape that the model's loss wants can be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.text import decoder_part

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made

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


def add(made: Made) -> None:
    """`labels` for the usual heads, the positions of answers, and the wish for a contrastive loss."""
    if not made.train:
        return
    if made.wants("labels"):
        label = _labels(made)
        if label is not None:
            made.inputs["labels"] = label
    for name in _OF_PAIRS:
        if made.wants(name):
            made.inputs[name] = values.integers(made, (made.batch,), 0, 2)
    if all(made.wants(name) for name in _OF_ANSWERS) and "input_ids" in made.inputs:
        length = made.inputs["input_ids"].shape[-1]
        for name in _OF_ANSWERS:
            made.inputs[name] = values.integers(made, (made.batch,), 0, length)
    if made.wants("return_loss"):
        made.inputs["return_loss"] = True


def _labels(made: Made) -> torch.Tensor | None:
    ids = made.inputs.get("input_ids")
    if made.name.endswith(_OF_SAMPLES):
        return values.integers(made, (made.batch,), 0, max(2, int(values.first(made.config, "num_labels", default=2))))
    if made.name.endswith("ForCTC"):
        return values.tokens(made, (made.batch, _TRANSCRIPT))
    if made.name.endswith(_OF_TRANSCRIPTS):
        # The decoder reads a start token before them.
        return values.tokens(made, (made.batch, made.inputs["decoder_input_ids"].shape[-1] - 1))
    if "decoder_input_ids" in made.inputs:
        return _decoded(made)
    return None if ids is None else _of_text(made, ids)


def _of_text(made: Made, ids: torch.Tensor) -> torch.Tensor | None:
    if made.name.endswith("ForMultipleChoice"):
        return values.integers(made, (made.batch,), 0, ids.shape[1])
    if made.name.endswith("ForTokenClassification"):
        return values.integers(made, ids.shape, 0, made.config.num_labels)
    if made.name.endswith("ForPreTraining") and not any(name in made.takes for name in _OF_PAIRS):
        # Whether each token was replaced.
        return values.integers(made, ids.shape, 0, 2)
    if made.name.endswith((*_OF_VOCABULARY, "ForPreTraining")):
        return _same_tokens(made, ids)
    return None


def _same_tokens(made: Made, ids: torch.Tensor) -> torch.Tensor:
    """What a language model is trained on: its own tokens, but for those that stand for other modalities."""
    labels = ids.clone()
    for placeholder in made.placeholders:
        labels[labels == placeholder.token_id] = _IGNORED
    return labels


def _decoded(made: Made) -> torch.Tensor | None:
    """What the decoder of an encoder-decoder is trained to write."""
    decoded = made.inputs["decoder_input_ids"]
    if decoded.dim() != 2:
        return None
    return values.tokens(made, decoded.shape, vocabulary=decoder_part(made.config).vocab_size)
