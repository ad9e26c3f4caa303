"""Labels for training, where the shape that the model's loss wants can be known."""

from __future__ import annotations

import torch

from dynalyze.capture.libraries.hf import parts
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder
from dynalyze.capture.libraries.hf.inputs.text import decoder_part

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
