"""The decoder of Pocket TTS's audio tokenizer alone."""

from dynalyze.capture.hf.special.pocket_tts_audio_tokenizer import shrink as shrink
