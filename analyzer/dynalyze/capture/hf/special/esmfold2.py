"""ESMFold 2 folds proteins: transformers itself makes the features of a sequence of amino acids."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_ATOMS = "atom_inputs"


def shrink(config: Any) -> None:
    """Each token's input is its atoms' encoding, its residue, the profile of that, and one number."""
    config.single_inputs_size = config.atom_encoder.output_dim + 2 * config.num_res_types + 1


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    """One protein repeated over the batch, because proteins of different atoms are padded to different lengths."""
    from transformers.models.esmfold2.modeling_esmfold2 import EsmFold2AtomInputs
    from transformers.models.esmfold2.protein_utils import prepare_protein_features

    made = Made(model, request, given)
    letters = values.integers(made, (made.sequence,), 0, len(_AMINO_ACIDS))
    features = prepare_protein_features("".join(_AMINO_ACIDS[letter] for letter in letters), device=made.device)
    batched = {name: feature.repeat_interleave(made.batch, 0) for name, feature in features.items()}
    atoms = {name: batched.pop(name) for name in EsmFold2AtomInputs.__dataclass_fields__}
    taken = {name: feature for name, feature in batched.items() if name in made.takes}
    return {**taken, _ATOMS: EsmFold2AtomInputs(**atoms)}
