"""A detector whose forward logs the size of what it sees and warns once it looks odd."""

import logging
import warnings

import torch
from torch import nn

log = logging.getLogger("detector")


class Detector(nn.Module):
    def __init__(self, channels=3, boxes=4):
        super().__init__()
        self.backbone = nn.Conv2d(channels, 8, 3, padding=1)
        self.boxes = nn.Linear(8, 4 * boxes)

    def forward(self, images):
        features = self.backbone(images).relu()
        log.warning("features are %s", tuple(features.shape))
        pooled = features.mean((2, 3))
        if images.shape[-1] < 16:
            warnings.warn("images are very small", stacklevel=2)
        return self.boxes(pooled).view(len(images), -1, 4)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    detector = torch.compile(Detector().eval(), backend="eager")
    with torch.no_grad():
        for _ in range(2):
            boxes = detector(torch.randn(2, 3, 8, 8))
    print(boxes.shape)
