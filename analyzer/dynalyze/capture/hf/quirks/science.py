"""Quirks of models of time series, proteins, robots, and arrays of any kind."""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs import pixels
from dynalyze.capture.hf.inputs.features import count, extractor, untouched
from dynalyze.capture.hf.inputs.input_builder import InputBuilder, Placeholder

OPEN: quirks.Table = {
    # How far they foretell, and from how much: a user always chooses.
    "autoformer informer time_series_transformer": {"prediction_length": 8, "context_length": 16},
}
SMALL: quirks.Table = {
    # Each token's input is its atoms' encoding, its residue, the profile of that, and one number.
    "esmfold2": {"single_inputs_size": lambda c: c.atom_encoder.output_dim + 2 * c.num_res_types + 1},
    # Frames of which each pixel is one element of the array.
    "perceiver": {"train_size": [32, 48]},
}
INPUTS: quirks.Table = {
    # Trajectories: states, actions, rewards, the returns still wanted, and the time steps.
    "decision_transformer": {
        "states": lambda b: b.floats((b.batch, b.sequence, b.config.state_dim)),
        "actions": lambda b: b.floats((b.batch, b.sequence, b.config.act_dim)),
        "rewards": lambda b: b.floats((b.batch, b.sequence, 1)),
        "returns_to_go": lambda b: b.floats((b.batch, b.sequence, 1)),
        "timesteps": lambda b: torch.arange(b.sequence, device=b.device).repeat(b.batch, 1),
        "attention_mask": lambda b: b.ones((b.batch, b.sequence)),
    },
    # It answers questions about a protein, which its own encoder reads as tokens of structure and sequence.
    "evolla": {
        "protein_input_ids": lambda b: b.tokens((b.batch, b.sequence), b.config.protein_encoder_config.vocab_size),
        "protein_attention_mask": lambda b: b.ones((b.batch, b.sequence)),
    },
}


@quirks.makes_pixels("pi0")
def pi0_pixels(builder: InputBuilder) -> None:
    """One camera for the vision-language part, its mask, and a placeholder for each of its features."""
    builder.inputs["pixel_values"] = cameras = pixels.images(builder, 1)
    builder.inputs["pixel_attention_mask"] = builder.ones(cameras.shape[:2], dtype=torch.bool)
    with untouched(builder.model):
        features = count(extractor(builder.model, "image")(cameras.flatten(0, 1)))
    builder.placeholders.append(Placeholder(builder.config.vlm_config.image_token_id, features // builder.batch))


@quirks.changes_inputs("pi0")
def pi0_inputs(builder: InputBuilder) -> None:
    """The robot's state and a noisy action for the other part."""
    config = builder.config
    if "state" in builder.takes:
        builder.inputs["state"] = builder.floats((builder.batch, config.max_state_dim))
        builder.inputs["noise"] = builder.floats((builder.batch, config.chunk_size, config.max_action_dim))
        builder.inputs["timestep"] = builder.floats((builder.batch,)).sigmoid()
    elif "action_embeds" in builder.takes:
        shape = (builder.batch, config.chunk_size + 1, config.dit_config.hidden_size)
        builder.inputs["action_embeds"] = builder.floats(shape)


@quirks.completes("esm")
def esm(config: Any) -> None:
    """The defaults leave the alphabet of residues open (that of ESM-2 has 33 tokens), and the folding model's part."""
    quirks.fill(config, {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32})
    if config.esmfold_config is None:
        from transformers.models.esm.configuration_esm import EsmFoldConfig, get_default_vocab_list

        config.esmfold_config = EsmFoldConfig()
        config.vocab_list = get_default_vocab_list()


@quirks.changes_inputs("esm")
def esm_inputs(builder: InputBuilder) -> None:
    """The folding model reads residues as AlphaFold counts them: twenty."""
    if builder.name.endswith("ForProteinFolding"):
        builder.inputs["input_ids"] = builder.integers((builder.batch, builder.sequence), 0, 20)


@quirks.changes_inputs("esmfold2")
def esmfold2_inputs(builder: InputBuilder) -> None:
    """Transformers itself makes the features of a sequence of amino acids.

    One protein repeated over the batch, because proteins of different atoms are padded to different lengths.
    """
    from transformers.models.esmfold2.modeling_esmfold2 import EsmFold2AtomInputs
    from transformers.models.esmfold2.protein_utils import prepare_protein_features

    amino_acids = "ACDEFGHIKLMNPQRSTVWY"
    letters = builder.integers((builder.sequence,), 0, len(amino_acids))
    features = prepare_protein_features("".join(amino_acids[letter] for letter in letters), device=builder.device)
    batched = {name: feature.repeat_interleave(builder.batch, 0) for name, feature in features.items()}
    atoms = {name: batched.pop(name) for name in EsmFold2AtomInputs.__dataclass_fields__}
    taken = {name: feature for name, feature in batched.items() if name in builder.takes}
    builder.inputs = {**taken, "atom_inputs": EsmFold2AtomInputs(**atoms)}


@quirks.completes("perceiver")
def perceiver(config: Any) -> None:
    """Fourier features give an image a width that no number of heads but one divides, as in the released model."""
    if "ForImageClassificationFourier" in str(config.architectures):
        config.num_cross_attention_heads = 1


@quirks.changes_inputs("perceiver")
def perceiver_inputs(builder: InputBuilder) -> None:
    """It reads an array of any modality; without a preprocessor, its values as they are. Optical flow has one."""
    if builder.name.endswith("ForOpticalFlow"):
        # Two frames, and around each pixel three by three pixels of three colours.
        builder.inputs["inputs"] = builder.floats((builder.batch, 2, 27, *builder.config.train_size))
    if builder.needs("inputs"):
        builder.inputs["inputs"] = builder.floats((builder.batch, builder.sequence, builder.config.d_model))
        builder.inputs["attention_mask"] = builder.ones((builder.batch, builder.sequence))
