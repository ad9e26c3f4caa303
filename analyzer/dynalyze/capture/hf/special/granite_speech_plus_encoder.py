"""The conformer of Granite Speech Plus, as that of Granite Speech."""

from dynalyze.capture.hf.special.granite_speech_encoder import shrink as shrink
