"""Granite Speech Plus has the projector of Granite Speech."""

from dynalyze.capture.hf.special.granite_speech import complete as complete
from dynalyze.capture.hf.special.granite_speech import shrink as shrink
from dynalyze.capture.hf.special.granite_speech import sounds as sounds
