"""Loggers and warnings in compiled code."""

from dynalyze.rules.recipe import Recipe, graph_break_page

_LOGGER = "logging.Logger method not supported for non-export cases"

RECIPES = (
    Recipe(
        id="logger",
        title="Keep log calls out of the compiled code",
        gb_types=(_LOGGER,),
        why=(
            "A log call looks up handlers and levels, formats text and writes it: Python work that a graph "
            "cannot hold. It breaks the graph even when its level is switched off, because the compiler "
            "does not look inside."
        ),
        action=("Log from the caller, or run `{expression}` only when `torch.compiler.is_compiling()` is false."),
        before="""\
import logging

import torch

logger = logging.getLogger(__name__)


def f(x):
    hidden = torch.relu(x)
    logger.debug("hidden has shape %s", hidden.shape)
    return hidden.sum()
""",
        after="""\
import logging

import torch

logger = logging.getLogger(__name__)


def f(x):
    hidden = torch.relu(x)
    if not torch.compiler.is_compiling():
        logger.debug("hidden has shape %s", hidden.shape)
    return hidden.sum()
""",
        inputs="(torch.ones(2, 3),)",
        config="torch._dynamo.config.ignore_logging_functions.add(logger.debug)",
        config_note="Compiled code then drops every call of this method: nothing is logged.",
        link=graph_break_page("GB0291"),
    ),
    Recipe(
        id="logger-once",
        title="Give the one-time warning before compiling",
        gb_types=(_LOGGER,),
        match=r"\b(warning|info)_once\b",
        why=(
            "`warning_once` of transformers is a logger call that remembers what it already said. The "
            "compiler refuses all logger methods, and this one breaks the graph each time, although it "
            "would speak only once."
        ),
        action=(
            "Avoid the situation that `{expression}` warns about, or run it only when "
            "`torch.compiler.is_compiling()` is false."
        ),
        before="""\
import torch
from transformers.utils import logging

logger = logging.get_logger(__name__)


def f(x, use_cache):
    if use_cache:
        logger.warning_once("use_cache is switched off while gradients are checkpointed")
        use_cache = False
    return torch.tanh(x)
""",
        after="""\
import torch
from transformers.utils import logging

logger = logging.get_logger(__name__)


def f(x, use_cache):
    if use_cache:
        if not torch.compiler.is_compiling():
            logger.warning_once("use_cache is switched off while gradients are checkpointed")
        use_cache = False
    return torch.tanh(x)
""",
        inputs="(torch.ones(3), True)",
        config="torch._dynamo.config.ignore_logging_functions.add(type(logger).warning_once)",
        config_note="Compiled code then never gives such a warning.",
        link=graph_break_page("GB0291"),
        requires=("transformers",),
    ),
    Recipe(
        id="warning",
        title="Give the warning outside the compiled code",
        gb_types=("Attempted to call function marked as skipped",),
        match=r"module: _?warnings, qualname: warn(_explicit)?\b",
        rank=1,
        why=(
            "`warnings.warn` is written in C and consults Python's warning filters, so the compiler cannot "
            "put it into a graph. The graph is cut at the warning, every time the line is reached."
        ),
        action=(
            "Run `{expression}` in the caller or in `__init__`, or only when `torch.compiler.is_compiling()` is false."
        ),
        before="""\
import warnings

import torch


def f(x, scale):
    if scale == 0.0:
        warnings.warn("scale is 0, the result is constant")
    return torch.sigmoid(x * scale)
""",
        after="""\
import warnings

import torch


def f(x, scale):
    if scale == 0.0 and not torch.compiler.is_compiling():
        warnings.warn("scale is 0, the result is constant")
    return torch.sigmoid(x * scale)
""",
        inputs="(torch.ones(3), 0.0)",
        config="torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)",
        config_note="The warning then comes after the graph has run.",
        link=graph_break_page("GB0007"),
    ),
)
