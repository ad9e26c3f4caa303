"""SmolVLM: Idefics3's connector."""

from dynalyze.capture.hf.special.idefics3 import complete as complete
