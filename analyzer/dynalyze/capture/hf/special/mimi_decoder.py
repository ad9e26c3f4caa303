"""The decoder of Mimi alone."""

from dynalyze.capture.hf.special.mimi import shrink as shrink
