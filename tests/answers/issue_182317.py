"""A function mode that is entered around a class made inside is left on the stack."""

import torch


def build():
    def program():
        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return -1

        with Mode():
            return torch.tensor([1])

    return program, ()


def use(program, compiled):
    result = compiled()
    left = torch._C._len_torch_function_stack()
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    return result, left
