"""Stand-in for flash-attn 2.8: the same names and signatures, computed by PyTorch's own attention on any device.

It mimics the binding alone: two operators that torch.compile cannot look into (`flash_attn::_flash_attn_forward` and
`_flash_attn_varlen_forward`), the functions around them, the padding helpers, and the refusal of float32. Nothing of
the kernels, their speed or their rounding is in it. Tests put its folder on PYTHONPATH of the program they start.
"""

from flash_attn.flash_attn_interface import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

__version__ = "2.8.3"
__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"]
