"""Its rotary embeddings are those of GLM-4V."""

from dynalyze.capture.hf.special.glm4v_text import complete as complete
