"""Its connector is that of ModernVBERT."""

from dynalyze.capture.hf.special.modernvbert import complete as complete
