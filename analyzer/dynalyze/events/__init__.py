"""What the child told, as typed records; a TORCH_TRACE log becomes the same ones."""
