"""Quirks of models of time series, proteins, robots, and arrays of any kind."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from dynalyze.capture.libraries.hf import quirks
from dynalyze.capture.libraries.hf.inputs import pixels
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Placeholder, count, extractor, untouched

_ESM = "transformers.models.esm.configuration_esm"

OPEN: quirks.Table = {
    # How far they foretell, and from how much: a user always chooses.
    "autoformer informer time_series_transformer": {"prediction_length": 8, "context_length": 16},
    # The alphabet of residues (that of ESM-2 has 33 tokens), and the folding model's part.
    "esm": {
        "vocab_size": 33,
        "pad_token_id": 1,
        "mask_token_id": 32,
        "esmfold_config": lambda c: importlib.import_module(_ESM).EsmFoldConfig(),
        "vocab_list": lambda c: importlib.import_module(_ESM).get_default_vocab_list(),
    },
}
COMPLETE: quirks.Table = {
    # Fourier features give an image a width that no number of heads but one divides, as in the released model.
    "perceiver": {
        "num_cross_attention_heads": lambda c: (
            1 if "ForImageClassificationFourier" in str(c.architectures) else c.num_cross_attention_heads
        )
    }
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
        "states": lambda b, c: b.floats((b.batch, b.sequence, c.state_dim)),
        "actions": lambda b, c: b.floats((b.batch, b.sequence, c.act_dim)),
        "rewards": lambda b, c: b.floats((b.batch, b.sequence, 1)),
        "returns_to_go": lambda b, c: b.floats((b.batch, b.sequence, 1)),
        "timesteps": lambda b, c: torch.arange(b.sequence, device=b.device).repeat(b.batch, 1),
        "attention_mask": lambda b, c: b.ones((b.batch, b.sequence)),
    },
    # It answers questions about a protein, which its own encoder reads as tokens of structure and sequence.
    "evolla": {
        "protein_input_ids": lambda b, c: b.tokens((b.batch, b.sequence), c.protein_encoder_config.vocab_size),
        "protein_attention_mask": lambda b, c: b.ones((b.batch, b.sequence)),
    },
    # The folding model reads residues as AlphaFold counts them: twenty.
    "esm": {
        "input_ids": lambda b, c: (
            b.integers((b.batch, b.sequence), 0, 20) if b.name.endswith("ForProteinFolding") else b.inputs["input_ids"]
        )
    },
    # The robot's state and a noisy action for the other part.
    "pi0": {
        "state": lambda b, c: b.floats((b.batch, c.max_state_dim)),
        "noise": lambda b, c: b.floats((b.batch, c.chunk_size, c.max_action_dim)),
        "timestep": lambda b, c: b.floats((b.batch,)).sigmoid(),
        "action_embeds": lambda b, c: b.floats((b.batch, c.chunk_size + 1, c.dit_config.hidden_size)),
    },
}


@quirks.makes_pixels("pi0")
def pi0_pixels(b: InputBuilder, c: Any) -> None:
    """One camera for the vision-language part, its mask, and a placeholder for each of its features."""
    b.inputs["pixel_values"] = cameras = pixels.images(b, 1)
    b.inputs["pixel_attention_mask"] = b.ones(cameras.shape[:2], dtype=torch.bool)
    with untouched(b.model):
        features = count(extractor(b.model, "image")(cameras.flatten(0, 1)))
    b.placeholders.append(Placeholder(c.vlm_config.image_token_id, features // b.batch))


@quirks.changes_inputs("esmfold2")
def esmfold2_inputs(b: InputBuilder, c: Any) -> None:
    """Transformers itself makes the features of a sequence of amino acids.

    One protein repeated over the batch, because proteins of different atoms are padded to different lengths.
    """
    from transformers.models.esmfold2.modeling_esmfold2 import EsmFold2AtomInputs
    from transformers.models.esmfold2.protein_utils import prepare_protein_features

    amino_acids = "ACDEFGHIKLMNPQRSTVWY"
    letters = b.integers((b.sequence,), 0, len(amino_acids))
    features = prepare_protein_features("".join(amino_acids[letter] for letter in letters), device=b.device)
    batched = {name: feature.repeat_interleave(b.batch, 0) for name, feature in features.items()}
    atoms = {name: batched.pop(name) for name in EsmFold2AtomInputs.__dataclass_fields__}
    taken = {name: feature for name, feature in batched.items() if name in b.takes}
    b.inputs = {**taken, "atom_inputs": EsmFold2AtomInputs(**atoms)}


@quirks.changes_inputs("perceiver")
def perceiver_inputs(b: InputBuilder, c: Any) -> None:
    """It reads an array of any modality; without a preprocessor, its values as they are. Optical flow has one."""
    if b.name.endswith("ForOpticalFlow"):
        # Two frames, and around each pixel three by three pixels of three colours.
        b.inputs["inputs"] = b.floats((b.batch, 2, 27, *c.train_size))
    if b.needs("inputs"):
        b.inputs["inputs"] = b.floats((b.batch, b.sequence, c.d_model))
        b.inputs["attention_mask"] = b.ones((b.batch, b.sequence))
