"""The field's own words, for readers of a page who never met them."""

from __future__ import annotations

GLOSSARY: tuple[tuple[str, str], ...] = (
    ("eager", "PyTorch as it runs without torch.compile: one operation after the other, each as Python comes to it."),
    ("torch.compile", "Turns the operations of a function into fewer, faster ones when it is first called."),
    ("Dynamo", "The part of torch.compile that reads Python code and writes down which operations it makes."),
    ("frame", "One function that Dynamo was asked to compile. A function may be compiled several times."),
    ("graph", "The operations that were written down and compiled together, without Python between them."),
    (
        "graph break",
        "A line that Dynamo could not take into the graph. The graph ends there, Python runs the line, and a new graph "
        "begins after it; or the rest of the function stays in eager. Each one costs speed.",
    ),
    ("guard", "What compiled code relies on, such as the size of an input. It is checked at every call."),
    (
        "recompile",
        "A guard did not hold, so the function was compiled again, which takes as long as the first time. After a few "
        "of them torch gives up and runs the function in eager.",
    ),
    ("Inductor", "The default backend: the part of torch.compile that turns a graph into kernels."),
    ("kernel", "A piece of machine code that does the work of one or, better, many operations in one go."),
    ("break-even", "After so many calls the time that compiling took has been won back."),
)
"""What is explained, with its meaning, in the order in which one builds on the other."""
