"""The encoder alone reads what the whole model does."""

from dynalyze.capture.hf.special.granite_speech5_ctc import sounds as sounds
