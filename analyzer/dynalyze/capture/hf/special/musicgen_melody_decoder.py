"""The decoder alone reads one row of tokens a codebook, as that of MusicGen does."""

from dynalyze.capture.hf.special.musicgen_decoder import inputs as inputs
