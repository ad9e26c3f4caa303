"""dynalyze explains what torch.compile did to a model.

This module stays empty of imports: the child process loads it beside the user's program.
"""

__version__ = "0.1.0"

# The last is what `%load_ext dynalyze` asks for.
_LAZY = ("Recording", "record", "load_ipython_extension")


def __getattr__(name: str) -> object:
    """`dynalyze.record()` and `dynalyze.step()`, whose modules are imported when they are first named."""
    if name == "step":
        from dynalyze.watch.child.start import step

        return step
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynalyze.recording import recorder

    return getattr(recorder, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, "step"])
