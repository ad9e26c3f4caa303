"""LoRA on the GPU: two adapters that take turns."""

import torch
from peft import LoraConfig, get_peft_model


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


model = get_peft_model(Base(), LoraConfig(r=4, target_modules=["up", "down"]))
model.add_adapter("second", LoraConfig(r=8, target_modules=["up", "down"]))
model = model.cuda().eval()
fast = torch.compile(model)
with torch.no_grad():
    for name in ("default", "second", "default", "second"):
        model.set_adapter(name)
        fast(torch.randn(8, 64, device="cuda"))
