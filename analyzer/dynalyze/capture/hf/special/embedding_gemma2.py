"""The audio of Embedding Gemma 2 is that of Gemma 4's encoder."""

from dynalyze.capture.hf.special.gemma4_audio import sounds as sounds
