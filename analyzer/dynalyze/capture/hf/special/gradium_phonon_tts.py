"""Phonon TTS takes the voice of a prompt as Pocket TTS does."""

from dynalyze.capture.hf.special.pocket_tts import inputs as inputs
from dynalyze.capture.hf.special.pocket_tts import sounds as sounds
