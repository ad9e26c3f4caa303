"""The encoder of T5Gemma 2 pools the features of an image as Gemma 3 does."""

from dynalyze.capture.hf.special.gemma3 import complete as complete
from dynalyze.capture.hf.special.gemma3 import shrink as shrink
