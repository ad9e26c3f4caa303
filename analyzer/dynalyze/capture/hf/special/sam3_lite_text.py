"""Its parts fit together as those of SAM 3."""

from dynalyze.capture.hf.special.sam3 import shrink as shrink
