"""Like `time_series_transformer`: it has no default for how far it foretells."""

from dynalyze.capture.hf.special.time_series_transformer import complete as complete
