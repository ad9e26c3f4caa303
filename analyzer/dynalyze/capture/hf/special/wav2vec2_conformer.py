"""The default leaves the alphabet of transcripts open, as that of wav2vec 2.0 BERT does."""

from dynalyze.capture.hf.special.wav2vec2_bert import complete as complete
