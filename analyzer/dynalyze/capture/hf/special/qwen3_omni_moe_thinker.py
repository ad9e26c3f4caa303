"""The thinker of Qwen3-Omni: its audio part ends as that of Qwen2.5-Omni."""

from dynalyze.capture.hf.special.qwen2_5_omni_thinker import complete as complete
from dynalyze.capture.hf.special.qwen2_5_omni_thinker import shrink as shrink
