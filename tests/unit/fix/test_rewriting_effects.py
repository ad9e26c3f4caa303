"""What only tells people something is left out of compiled code, and nothing else is."""

from __future__ import annotations

import pytest
from rewriting_cases import TENSOR, function, proposed, rewritten, whole

from dynalyze.fix.sites import Value

CLOCK = function("time.time")


def guarded(source: str, **values: Value) -> str:
    return rewritten(source, "eager-only", x=TENSOR, **values)


def test_a_print_is_left_to_eager_with_its_comment() -> None:
    text = guarded("""
        import torch

        def f(x):
            # Look at it.
            print("mean", x.mean())  # here
            return x
        """)
    assert text == whole("""
        import torch

        def f(x):
            # Look at it.
            if not torch.compiler.is_compiling():
                print("mean", x.mean())
            return x
        """)


def test_torch_is_imported_below_the_other_imports_where_it_is_not() -> None:
    text = guarded('"""Doc."""\nimport math\n\ndef f(x):\n    print(x)  # here\n    return x\n')
    assert text.startswith('"""Doc."""\nimport math\nimport torch\n')


def test_an_import_that_is_not_at_the_top_is_none_for_the_function() -> None:
    text = guarded("def g():\n    import torch\n\ndef f(x):\n    print(x)  # here\n    return x\n")
    assert text.startswith("import torch\ndef g():\n    import torch\n")


def test_what_is_computed_for_a_message_alone_goes_with_it() -> None:
    text = guarded("""
        import time
        import torch

        def f(x):
            start = time.time()  # here
            y = torch.relu(x)
            taken = time.time() - start
            text = f"{taken:.3f} s"
            print(text)
            return y
        """, time__time=CLOCK)  # fmt: skip
    assert text == whole("""
        import time
        import torch

        def f(x):
            if not torch.compiler.is_compiling():
                start = time.time()
            y = torch.relu(x)
            if not torch.compiler.is_compiling():
                taken = time.time() - start
                text = f"{taken:.3f} s"
                print(text)
            return y
        """)


def test_a_branch_that_only_warns_goes_as_a_whole() -> None:
    text = guarded("""
        import torch, logging
        logger = logging.getLogger(__name__)

        class M(torch.nn.Module):
            def forward(self, x):
                if x.isnan().any():  # here
                    logger.warning("nan in %s", x)
                return x
        """, logger__warning=function("logging.Logger.warning"))  # fmt: skip
    assert "        if not torch.compiler.is_compiling():\n            if x.isnan().any():\n" in text
    assert text.count("is_compiling") == 1


def test_a_branch_on_one_line_goes_as_a_whole_and_a_line_that_does_more_stays() -> None:
    text = guarded("import torch\ndef f(x):\n    if x.dim() == 2: print(x)  # here\n    return x\n")
    assert "    if not torch.compiler.is_compiling():\n        if x.dim() == 2: print(x)" in text
    assert guarded("import torch\ndef f(x):\n    y = x + 1; print(y)  # here\n    return y\n") == ""


REFUSED = {
    "an argument that changes something": "print(stack.pop())  # here",
    "an operation in place": "print(x.add_(1))  # here",
    "an assignment in an argument": "print(y := x + 1)  # here",
    "random numbers": "print(torch.rand(2))  # here",
    "a function of the user's own": "print(count(x))  # here",
    "a method named as one of a logger": "self.ema.update(x)  # here",
    "a dictionary's update": "cache.update(x=1)  # here",
    "a value that is returned": "y = x.sum().item()  # here\n    print(y)\n    return y",
    "a value that is kept": "y = str(x)  # here\n    history.append(y)",
    "a branch that does more": "if x.max() > 1:  # here\n        print(x)\n        x = x / 2",
    "a branch that raises": "if x.max() > 1:  # here\n        raise ValueError",
    "a file that is read": "with open(path) as file:  # here\n        y = file.read()\n    return y",
    "a time that is returned": "t = time.time()  # here\n    return x, time.time() - t",
    "a time and a value that are kept": "t = time.time()  # here\n    self.kept = time.time() - t + x.shape[0]",
    "a time that is taken down": "t = time.time()  # here\n    self.seconds += time.time() - t",
    "a time that is computed with": "t = time.time()  # here\n    x = x * (time.time() - t)",
    "a global": "global seen\n    seen = time.time()  # here",
    "a loop over what can be read once": "for each in batches:  # here\n        print(each)",
    "what can be read once": "print(list(batches))  # here",
    "a module of the model": "y = self.norm(x)  # here\n    print(y)",
    "a file in memory": "torch.save(x, memory)  # here",
    "a method of a file in memory": "memory.write(x)  # here",
    "a call of all ranks": "print(dist.all_reduce(x))  # here",
    "a time that a nested function reads": "t = time.time()  # here\n    def g():\n        return t\n    return g",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=list(REFUSED))
def test_whatever_does_more_than_tell_stays(body: str) -> None:
    known = {"count": function("program.count"), "self__ema__update": function("program.EMA.update"),
             "cache__update": function("dict.update"), "time__time": CLOCK, "stack__pop": function("list.pop"),
             "torch__rand": function("torch.rand"), "batches": Value("generator"), "self__norm": Value("nn.Module"),
             "memory": Value("BytesIO"), "memory__write": function("BytesIO.write"),
             "torch__save": function("torch.serialization.save"),
             "dist__all_reduce": function("torch.distributed.distributed_c10d.all_reduce")}  # fmt: skip
    assert guarded(f"import torch, time\ndef f(self, x, stack):\n    {body}\n    return x\n", **known) == ""


def test_a_logger_that_is_the_users_own_class_may_keep_state() -> None:
    source = "import torch\ndef f(x, logger):\n    logger.info(x)  # here\n    return x\n"
    assert guarded(source, logger__info=function("program.Counter.info")) == ""
    assert guarded(source, logger__info=function("blog.MetricLogger.info")) == ""
    assert guarded(source, logger__info=function("loguru._logger.Logger.info")) != ""


@pytest.mark.parametrize(
    ("call", "value", "loses"),
    [
        ("print(x)", function("builtins.print"), ("printed",)),
        ("warnings.warn('w')", function("_warnings.warn"), ("warned",)),
        ("logger.info('i')", function("logging.Logger.info"), ("logged", "printed")),
        ("gc.collect()", function("gc.collect"), ()),
        ("breakpoint()", function("builtins.breakpoint"), ()),
    ],
)
def test_only_the_effects_of_the_call_may_be_lacking(call: str, value: Value, loses: tuple[str, ...]) -> None:
    name = call.partition("(")[0].replace(".", "__")
    source = f"import torch\ndef f(x):\n    {call}  # here\n    return x\n"
    (found,) = [each for each in proposed(source, **{name: value}) if each.rewrite == "eager-only"]
    assert found.loses == loses


def test_a_break_that_was_asked_for_goes() -> None:
    source = "import torch\ndef f(x):\n    y = x\n    torch._dynamo.graph_break()  # here\n    return y\n"
    text = rewritten(source, "no-asked-break", "Call to `torch._dynamo.graph_break()`")
    assert text == "import torch\ndef f(x):\n    y = x\n    return y\n"


def test_a_filter_of_warnings_is_set_in_eager_alone() -> None:
    text = rewritten("""
        import warnings
        import torch

        def f(x):
            with warnings.catch_warnings():  # here
                warnings.simplefilter("ignore")
                return torch.sqrt(x)
        """, "eager-only-context", warnings__catch_warnings=Value("class", "warnings.catch_warnings"))  # fmt: skip
    assert text == whole("""
        import warnings
        import torch
        import contextlib

        def f(x):
            with contextlib.nullcontext() if torch.compiler.is_compiling() else warnings.catch_warnings():
                if not torch.compiler.is_compiling():
                    warnings.simplefilter("ignore")
                return torch.sqrt(x)
        """)


def test_a_context_whose_value_is_used_stays() -> None:
    source = """
        import warnings, torch
        def f(x):
            with warnings.catch_warnings(record=True) as seen:  # here
                y = torch.sqrt(x)
            return y, len(seen)
        """
    known = Value("class", "warnings.catch_warnings")
    assert rewritten(source, "eager-only-context", warnings__catch_warnings=known) == ""
    turned = source.replace("record=True) as seen", 'action="error")')
    assert rewritten(turned, "eager-only-context", warnings__catch_warnings=known) == ""
    locked = "import torch\ndef f(x):\n    with lock:  # here\n        return x\n"
    assert rewritten(locked, "eager-only-context", lock=Value("lock")) == ""
