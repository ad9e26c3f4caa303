"""Inputs for architectures without pixels: every part that reads something runs, and what was asked for is kept."""

from __future__ import annotations

import pytest
from forward_counters import run

from dynalyze.capture.hf.build import build
from dynalyze.capture.hf.request import ModelRequest
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
}


@pytest.mark.parametrize("name", mostly_slow(PARTS, every=3))
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
    built.inputs.kwargs[sound] = -built.inputs.kwargs[sound]
    second, _ = run(built)
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize("name", ["BertModel", "LlamaForCausalLM", "T5Model"])
def test_batch_and_sequence_are_what_was_asked_for(name: str) -> None:
    inputs = build(ModelRequest(name, batch=3, sequence=7)).inputs.kwargs
    assert {tuple(value.shape) for value in inputs.values()} == {(3, 7)}


def test_a_sequence_of_sound_is_that_many_frames() -> None:
    built = build(ModelRequest("Wav2Vec2Model", batch=1, sequence=10))
    output, _ = run(built)
    assert output.last_hidden_state.shape[:2] == (1, 10)


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, same, other = (build(ModelRequest("WhisperModel", seed=seed)).inputs.kwargs for seed in (1, 1, 2))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["input_features"], other["input_features"])


def test_floating_inputs_have_the_dtype_of_the_model() -> None:
    inputs = build(ModelRequest("WhisperModel", dtype="bfloat16")).inputs.kwargs
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
    loss = built.model(**built.inputs.kwargs).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert any(parameter.grad is not None for parameter in built.model.parameters())


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "T5ForConditionalGeneration"])
def test_without_training_there_are_no_labels(name: str) -> None:
    assert "labels" not in build(ModelRequest(name)).inputs.kwargs
