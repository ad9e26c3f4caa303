"""A tensor that is given twice to an autograd.Function gets one of its two gradients."""

import torch


class Area(torch.autograd.Function):
    @staticmethod
    def forward(ctx, width, height):
        ctx.save_for_backward(width, height)
        return width * height

    @staticmethod
    def backward(ctx, grad):
        width, height = ctx.saved_tensors
        return grad * height, grad * width


def build():
    def program(side):
        return Area.apply(side, side).sum()

    return program, (torch.tensor([1.0, 2.0, 4.0], requires_grad=True),)
