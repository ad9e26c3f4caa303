"""Inputs for architectures: every part that reads or sees something runs, and what was asked for is kept."""

from __future__ import annotations

import pytest
from forward_counters import run

from dynalyze.capture.libraries.building import ModelRequest
from dynalyze.capture.libraries.hf.inputs import make_inputs
from dynalyze.capture.libraries.hf.library import build
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore::Warning")

# The parts that read each modality, and those that join them.
PARTS = {
    "T5Model": ("encoder.block.1", "decoder.block.1"),
    "EncoderDecoderModel": ("encoder", "decoder"),
    "WhisperForConditionalGeneration": ("model.encoder.conv1", "model.encoder.layers.1", "model.decoder.layers.1"),
    "Wav2Vec2ForCTC": ("wav2vec2.feature_extractor.conv_layers.0", "wav2vec2.encoder.layers.1", "lm_head"),
    "Speech2TextModel": ("encoder.conv", "encoder.layers.1", "decoder.layers.1"),
    "ClapModel": ("audio_model.audio_encoder", "text_model.encoder", "audio_projection", "text_projection"),
    "Qwen2AudioForConditionalGeneration": ("model.audio_tower", "model.multi_modal_projector", "model.language_model"),
    "GraniteSpeechModel": ("encoder", "projector", "language_model"),
    "FunAsrNanoModel": ("audio_tower", "language_model"),
    "Gemma4Model": ("audio_tower", "embed_audio", "vision_tower", "language_model"),
    "CsmForConditionalGeneration": ("codec_model.encoder", "embed_text_tokens", "backbone_model"),
    "MoshiForConditionalGeneration": ("audio_encoder.encoder", "decoder.model"),
    "MusicgenForConditionalGeneration": ("text_encoder", "audio_encoder.encoder", "decoder"),
    "MusicgenMelodyForConditionalGeneration": ("text_encoder", "audio_enc_to_dec_proj", "decoder"),
    "SpeechT5ForTextToSpeech": ("speecht5.encoder.prenet", "speecht5.decoder.prenet", "speech_decoder_postnet"),
    "HiggsAudioV2Model": ("embed_tokens", "embed_audio_tokens", "layers.1.mlp", "layers.1.audio_mlp"),
    "PocketTTSModel": ("embed_tokens", "audio_prompt_proj"),
    "EvollaModel": ("protein_encoder", "layers.1"),
    "TimeSeriesTransformerModel": ("encoder.layers.1", "decoder.layers.1"),
    "DecisionTransformerModel": ("embed_state", "embed_action", "embed_return", "embed_timestep"),
    "LukeModel": ("embeddings", "entity_embeddings"),
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


@pytest.mark.parametrize("name", mostly_slow(PARTS, every=6))
def test_every_part_that_reads_a_modality_runs(name: str) -> None:
    _, counts = run(build(ModelRequest(name)), *PARTS[name])
    assert {path for path in PARTS[name] if not counts[path]} == set()


@pytest.mark.parametrize(
    "name", mostly_slow(["Qwen2AudioForConditionalGeneration", "FunAsrNanoModel", "ClapModel"], every=3)
)
def test_what_is_heard_changes_what_comes_out(name: str) -> None:
    sound = "input_features"
    built = build(ModelRequest(name))
    first, _ = run(built)
    built.calls[0].kwargs[sound] = -built.calls[0].kwargs[sound]
    second, _ = run(built)
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize("name", ["BertModel", "LlamaForCausalLM", "T5Model"])
def test_batch_and_sequence_are_what_was_asked_for(name: str) -> None:
    inputs = build(ModelRequest(name, batch=3, sequence=7)).calls[0].kwargs
    assert {tuple(value.shape) for value in inputs.values()} == {(3, 7)}


def test_a_sequence_of_sound_is_that_many_frames() -> None:
    built = build(ModelRequest("Wav2Vec2Model", batch=1, sequence=10))
    output, _ = run(built)
    assert output.last_hidden_state.shape[:2] == (1, 10)


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, same, other = (build(ModelRequest("WhisperModel", seed=seed)).calls[0].kwargs for seed in (1, 1, 2))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["input_features"], other["input_features"])


def test_floating_inputs_have_the_dtype_of_the_model() -> None:
    inputs = build(ModelRequest("WhisperModel", dtype="bfloat16")).calls[0].kwargs
    assert inputs["input_features"].dtype == torch.bfloat16
    assert inputs["decoder_input_ids"].dtype == torch.long


@pytest.mark.parametrize(
    "name",
    [
        "BertForQuestionAnswering", "BertForMultipleChoice", "BertForPreTraining", "T5ForConditionalGeneration",
        "Wav2Vec2ForCTC", "PatchTSTForPrediction",
    ],
)  # fmt: skip
def test_training_has_a_loss_to_go_back_from(name: str) -> None:
    built = build(ModelRequest(name, train=True))
    loss = built.model(**built.calls[0].kwargs).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert any(parameter.grad is not None for parameter in built.model.parameters())


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "T5ForConditionalGeneration"])
def test_without_training_there_are_no_labels(name: str) -> None:
    assert "labels" not in build(ModelRequest(name)).calls[0].kwargs


@pytest.mark.parametrize("name", mostly_slow(SEEN, every=6))
def test_what_is_seen_changes_what_comes_out(name: str) -> None:
    built = build(ModelRequest(name))
    first, _ = run(built)
    built.calls[0].kwargs[SEEN[name]] = -built.calls[0].kwargs[SEEN[name]]
    second, _ = run(built)
    assert not torch.equal(first[0], second[0])


def test_one_placeholder_for_each_feature() -> None:
    """Against Qwen2.5-VL's own rule: a token for each square of patches that the merger folds."""
    built = build(ModelRequest("Qwen2_5_VLModel", batch=3))
    inputs, config = built.calls[0].kwargs, built.model.config
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
    first = build(ModelRequest("CLIPModel", seed=1)).calls[0].kwargs["pixel_values"]
    again = build(ModelRequest("CLIPModel", seed=1)).calls[0].kwargs["pixel_values"]
    other = build(ModelRequest("CLIPModel", seed=2)).calls[0].kwargs["pixel_values"]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
