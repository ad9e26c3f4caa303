"""Modules and parameters: made while the model runs, or of kinds the compiler does not take."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="parameter-creation",
        title="Make parameters and layers in __init__",
        gb_types=(
            "Attempted to use `torch.nn.Parameter()` constructor with Dynamo",
            "Attempted to use torch.nn.Parameter constructor with tensor subclass",
            "`torch.nn.Parameter`: cannot convert to traceable tracable",
            "`torch.nn.Parameter` with non-constant Tensor attributes",
            "`torch.nn.Parameter()` with unsupported data type",
            "Uninitialized nn.Module",
        ),
        why=(
            "A parameter or layer is made while the model runs. It is a Python object with a life of its "
            "own, which a graph cannot make, and new weights at each call are rarely what is wanted."
        ),
        action="Make what `{expression}` makes once, in `__init__`, and use it in `forward`.",
        before="""\
import torch


class Scale(torch.nn.Module):
    def forward(self, x):
        self.weight = torch.nn.Parameter(torch.full((x.shape[-1],), 2.0))
        return x * self.weight


f = Scale()
""",
        after="""\
import torch


class Scale(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((width,), 2.0))

    def forward(self, x):
        return x * self.weight


f = Scale(3)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0264"),
    ),
    Recipe(
        id="recurrent-layer",
        title="Allow the compiler to trace the RNN, or compile around it",
        gb_types=("Attempted to wrap RNN, GRU, or LSTM",),
        why=(
            "`nn.RNN`, `nn.GRU` and `nn.LSTM` run as one tuned kernel. Traced, they become a long graph "
            "with a copy of the cell for every time step, so the compiler leaves them in eager mode unless "
            "told otherwise."
        ),
        action=(
            "Keep the recurrent layer outside the compiled part, or set the flag and measure; for short "
            "sequences use the Cell class."
        ),
        before="""\
import torch

torch.manual_seed(0)
encoder = torch.nn.GRU(4, 4, batch_first=True)


def f(x):
    hidden, _ = encoder(x)
    return torch.relu(hidden)
""",
        after="""\
import torch

torch.manual_seed(0)
encoder = torch.nn.GRU(4, 4, batch_first=True)
cell = torch.nn.GRUCell(4, 4)
cell.load_state_dict({name.removesuffix("_l0"): value for name, value in encoder.state_dict().items()})


def f(x):
    state = x.new_zeros(x.shape[0], 4)
    steps = []
    for step in x.unbind(1):
        state = cell(step, state)
        steps.append(torch.relu(state))
    return torch.stack(steps, dim=1)
""",
        inputs="(torch.ones(2, 3, 4),)",
        config="torch._dynamo.config.allow_rnn = True",
        config_note=(
            "The graph grows with the length of the sequence: compiling takes longer and each new length "
            "compiles again."
        ),
        link=graph_break_page("GB0014"),
    ),
)
