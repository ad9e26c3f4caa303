"""SeamlessM4T v2 reads speech or text as the first version does."""

from dynalyze.capture.hf.special.seamless_m4t import inputs as inputs
