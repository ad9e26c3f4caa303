"""Tokens and what a tokenizer returns beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Kind, Made, Placeholder

# What transformers writes into `mm_token_type_ids` for each kind of token.
_KINDS: dict[Kind, int] = {"text": 0, "image": 1, "video": 2, "audio": 3}
# Tokens before the first placeholder, as a prompt's opening has.
_OPENING = 2
_CHOICES = 2


def add(made: Made) -> None:
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
