"""Inputs for architectures with pixels: every part that sees or reads runs, and what is seen reaches the output."""

from __future__ import annotations

import pytest
from forward_counters import run

from dynalyze.capture.hf.build import build
from dynalyze.capture.hf.inputs import make_inputs
from dynalyze.capture.hf.request import ModelRequest
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore::Warning")

# The parts that read each modality, and those that join them.
PARTS = {
    "ViTModel": ("embeddings", "layers.1"),
    "CLIPModel": ("vision_model", "text_model", "visual_projection", "text_projection"),
    "LlavaForConditionalGeneration": ("model.vision_tower", "model.multi_modal_projector", "model.language_model"),
    "LlavaNextModel": ("vision_tower", "multi_modal_projector", "language_model"),
    "Qwen2_5_VLModel": ("visual.patch_embed", "visual.merger", "language_model"),
    "Qwen3VLForConditionalGeneration": ("model.visual", "model.language_model"),
    "Kimi_K25Model": ("vision_tower", "language_model"),
    "Idefics3Model": ("vision_model", "connector", "text_model"),
    # Its gates to the image are closed until it is trained: the image is read and has no effect.
    "IdeficsModel": ("vision_model", "gated_cross_attn_layers.0.cross_attn"),
    "MllamaModel": ("vision_model", "multi_modal_projector", "language_model"),
    "Siglip2Model": ("vision_model", "text_model"),
    "Gemma4ForConditionalGeneration": ("model.vision_tower", "model.audio_tower", "model.language_model"),
    "Qwen2_5OmniThinkerModel": ("visual", "audio_tower", "language_model"),
    "VideoLlavaModel": ("video_tower", "image_tower", "language_model"),
    "VideoMAEForVideoClassification": ("videomae.encoder", "classifier"),
    "DetrForObjectDetection": ("model.backbone", "model.encoder", "model.decoder", "bbox_predictor"),
    "GroundingDinoModel": ("backbone", "text_backbone", "encoder", "decoder"),
    "SamModel": ("vision_encoder", "prompt_encoder", "mask_decoder"),
    "LayoutLMv3Model": ("patch_embed", "embeddings.word_embeddings", "embeddings.h_position_embeddings"),
    "SuperGlueForKeypointMatching": ("keypoint_detector", "gnn"),
}
# The pixels of models that mix them with a text: dropped ones would leave the output as it was.
SEEN = {
    "LlavaModel": "pixel_values",
    "MiniCPMV4_6Model": "pixel_values",
    "Phi4MultimodalModel": "image_pixel_values",
    "VideoLlama3Model": "pixel_values_videos",
    "Florence2Model": "pixel_values",
}


@pytest.mark.parametrize("name", mostly_slow(PARTS, every=3))
def test_every_part_that_sees_or_reads_runs(name: str) -> None:
    _, counts = run(build(ModelRequest(name)), *PARTS[name])
    assert {path for path in PARTS[name] if not counts[path]} == set()


@pytest.mark.parametrize("name", mostly_slow(SEEN, every=3))
def test_what_is_seen_changes_what_comes_out(name: str) -> None:
    built = build(ModelRequest(name))
    first, _ = run(built)
    built.inputs.kwargs[SEEN[name]] = -built.inputs.kwargs[SEEN[name]]
    second, _ = run(built)
    assert not torch.equal(first[0], second[0])


def test_one_placeholder_for_each_feature() -> None:
    """Against Qwen2.5-VL's own rule: a token for each square of patches that the merger folds."""
    built = build(ModelRequest("Qwen2_5_VLModel", batch=3))
    inputs, config = built.inputs.kwargs, built.model.config
    tokens = (inputs["input_ids"] == config.image_token_id).sum(dim=1)
    folded = inputs["image_grid_thw"].prod(dim=1) // config.vision_config.spatial_merge_size**2
    assert tokens.tolist() == folded.tolist()
    assert len(tokens) == 3


def test_counting_features_leaves_the_model_as_it_was() -> None:
    """Qwen2.5-VL keeps positions of its last call, and its vision part is run for the count."""
    built = build(ModelRequest("Qwen2_5_VLModel"))
    model = built.model
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    random = torch.get_rng_state()
    make_inputs(model, ModelRequest("Qwen2_5_VLModel"))
    assert torch.equal(torch.get_rng_state(), random)
    for name, module in model.named_modules():
        assert {key: id(value) for key, value in vars(module).items()} == {
            key: id(value) for key, value in before[name].items()
        }


def test_a_seed_decides_what_is_seen() -> None:
    first = build(ModelRequest("CLIPModel", seed=1)).inputs.kwargs["pixel_values"]
    again = build(ModelRequest("CLIPModel", seed=1)).inputs.kwargs["pixel_values"]
    other = build(ModelRequest("CLIPModel", seed=2)).inputs.kwargs["pixel_values"]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
