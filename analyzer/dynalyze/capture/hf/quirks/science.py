"""Quirks of models of time series, proteins, robots, and arrays of any kind."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import tiles, values
from dynalyze.capture.hf.inputs.features import count, extractor, untouched
from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.quirks import changes_inputs, completes, fill, fill_open, makes_pixels, set_small, shrinks

fill_open(
    {
        # How far they foretell, and from how much: a user always chooses.
        "autoformer": {"prediction_length": 8, "context_length": 16},
        "informer": {"prediction_length": 8, "context_length": 16},
        "time_series_transformer": {"prediction_length": 8, "context_length": 16},
    }
)
set_small(
    {
        # Frames of which each pixel is one element of the array.
        "perceiver": {"train_size": [32, 48]},
    }
)


@changes_inputs("decision_transformer")
def decision_transformer(made: Made) -> None:
    """Trajectories: states, actions, rewards, the returns still wanted, and the time steps."""
    if not made.wants("states"):
        return
    shape = (made.batch, made.sequence)
    made.inputs["states"] = values.floats(made, (*shape, made.config.state_dim))
    made.inputs["actions"] = values.floats(made, (*shape, made.config.act_dim))
    made.inputs["rewards"] = values.floats(made, (*shape, 1))
    made.inputs["returns_to_go"] = values.floats(made, (*shape, 1))
    made.inputs["timesteps"] = values.arange(made, made.batch, made.sequence)
    made.inputs["attention_mask"] = values.ones(made, shape)


@makes_pixels("pi0")
def pi0_pixels(made: Made) -> None:
    """One camera for the vision-language part, its mask, and a placeholder for each of its features."""
    import torch

    made.inputs["pixel_values"] = cameras = tiles.images(made, 1)
    made.inputs["pixel_attention_mask"] = values.ones(made, cameras.shape[:2], dtype=torch.bool)
    with untouched(made.model):
        features = count(extractor(made.model, "image")(cameras.flatten(0, 1)))
    made.placeholders.append(Placeholder(made.config.vlm_config.image_token_id, features // made.batch))


@changes_inputs("pi0")
def pi0_inputs(made: Made) -> None:
    """The robot's state and a noisy action for the other part."""
    config = made.config
    if "state" in made.takes:
        made.inputs["state"] = values.floats(made, (made.batch, config.max_state_dim))
        made.inputs["noise"] = values.floats(made, (made.batch, config.chunk_size, config.max_action_dim))
        made.inputs["timestep"] = values.floats(made, (made.batch,)).sigmoid()
    elif "action_embeds" in made.takes:
        shape = (made.batch, config.chunk_size + 1, config.dit_config.hidden_size)
        made.inputs["action_embeds"] = values.floats(made, shape)


@completes("esm")
def esm(config: Any) -> None:
    """The defaults leave the alphabet of residues open (that of ESM-2 has 33 tokens), and the folding model's part."""
    fill(config, {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32})
    if config.esmfold_config is None:
        from transformers.models.esm.configuration_esm import EsmFoldConfig, get_default_vocab_list

        config.esmfold_config = EsmFoldConfig()
        config.vocab_list = get_default_vocab_list()


@changes_inputs("esm")
def esm_inputs(made: Made) -> None:
    """The folding model reads residues as AlphaFold counts them: twenty."""
    if made.name.endswith("ForProteinFolding"):
        made.inputs["input_ids"] = values.integers(made, (made.batch, made.sequence), 0, 20)


@shrinks("esmfold2")
def esmfold2(config: Any) -> None:
    """Each token's input is its atoms' encoding, its residue, the profile of that, and one number."""
    config.single_inputs_size = config.atom_encoder.output_dim + 2 * config.num_res_types + 1


@changes_inputs("esmfold2")
def esmfold2_inputs(made: Made) -> None:
    """Transformers itself makes the features of a sequence of amino acids.

    One protein repeated over the batch, because proteins of different atoms are padded to different lengths.
    """
    from transformers.models.esmfold2.modeling_esmfold2 import EsmFold2AtomInputs
    from transformers.models.esmfold2.protein_utils import prepare_protein_features

    amino_acids = "ACDEFGHIKLMNPQRSTVWY"
    letters = values.integers(made, (made.sequence,), 0, len(amino_acids))
    features = prepare_protein_features("".join(amino_acids[letter] for letter in letters), device=made.device)
    batched = {name: feature.repeat_interleave(made.batch, 0) for name, feature in features.items()}
    atoms = {name: batched.pop(name) for name in EsmFold2AtomInputs.__dataclass_fields__}
    taken = {name: feature for name, feature in batched.items() if name in made.takes}
    made.inputs = {**taken, "atom_inputs": EsmFold2AtomInputs(**atoms)}


@changes_inputs("evolla")
def evolla(made: Made) -> None:
    """It answers questions about a protein, which its own encoder reads as tokens of structure and sequence."""
    shape = (made.batch, made.sequence)
    vocabulary = made.config.protein_encoder_config.vocab_size
    made.inputs["protein_input_ids"] = values.tokens(made, shape, vocabulary=vocabulary)
    made.inputs["protein_attention_mask"] = values.ones(made, shape)


@completes("perceiver")
def perceiver(config: Any) -> None:
    """Fourier features give an image a width that no number of heads but one divides, as in the released model."""
    if "ForImageClassificationFourier" in str(config.architectures):
        config.num_cross_attention_heads = 1


@changes_inputs("perceiver")
def perceiver_inputs(made: Made) -> None:
    """It reads an array of any modality; without a preprocessor, its values as they are. Optical flow has one."""
    if made.name.endswith("ForOpticalFlow"):
        # Two frames, and around each pixel three by three pixels of three colours.
        made.inputs["inputs"] = values.floats(made, (made.batch, 2, 27, *made.config.train_size))
    if made.needs("inputs"):
        made.inputs["inputs"] = values.floats(made, (made.batch, made.sequence, made.config.d_model))
        made.inputs["attention_mask"] = values.ones(made, (made.batch, made.sequence))
