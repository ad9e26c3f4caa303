"""Its tokens come with a checkpoint, as those of MiniCPM-V 4.6."""

from dynalyze.capture.hf.special.minicpmv4_6 import complete as complete
