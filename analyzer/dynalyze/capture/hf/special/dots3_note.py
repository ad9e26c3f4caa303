"""The audio of Dots3-Note is that of its encoder."""

from dynalyze.capture.hf.special.dots3_note_audio_encoder import sounds as sounds
