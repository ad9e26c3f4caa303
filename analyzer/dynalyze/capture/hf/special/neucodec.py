"""NeuCodec hears a sound as X-Codec 2 does."""

from dynalyze.capture.hf.special.xcodec2 import shrink as shrink
from dynalyze.capture.hf.special.xcodec2 import sounds as sounds
