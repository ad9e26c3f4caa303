"""What is told of a compile that raised: the line of the program, torch's words, how eager ended."""

from __future__ import annotations

import pytest

from dynalyze.capture.events import Frame, MadeInEager
from dynalyze.facts.compilations import compilations
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import CompileFailure
from records import TORCH, end, failed, run_of, start

# As torch 2.13 words them.
ON_FAKES = """RuntimeError when making fake tensor call
  Explanation: Dynamo failed to run FX node with fake tensors: call_method view(*(FakeTensor(..., size=(2, s13)), -1), **{}): got ValueError('Cannot view a tensor\\nof shape [2, s13]: \\'x\\'')
  Hint: Your code may result in an error when running in eager. Please double check.
  Hint: Another hint.

  Developer debug context:

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4315.html

from user code:
   File "/m.py", line 7, in loss
"""  # noqa: E501
BY_BACKEND = """backend='aot_eager' raised:
ValueError: no code for this

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
OWN = Frame("/work/model.py", 7, "loss")
INNER = Frame("/work/parts.py", 3, "scale")
OF_TORCH = Frame(f"{TORCH}/_functorch/vmap.py", 316, "vmap_impl")


def failure(
    message: str, *inside: Frame, then: tuple[MadeInEager, ...] = (), kind: str = "TorchRuntimeError"
) -> CompileFailure:
    ended = failed(inside, message, exception=kind), end(fail_type=kind, has_guarded_code=False)
    (found,) = compilations(run_of(start(), *ended, *then), Places(TORCH), Sources())
    assert found.status == "failed" and found.failure is not None
    return found.failure


def test_the_innermost_line_of_the_program_and_torchs_words() -> None:
    found = failure(ON_FAKES, OWN, OF_TORCH, INNER, OF_TORCH)
    assert found.location is not None
    assert (found.location.file, found.location.line, found.location.function) == ("/work/parts.py", 3, "scale")
    assert [place.line for place in found.stack] == [7, 3]
    assert found.message == "ValueError: Cannot view a tensor of shape [2, s13]: 'x'"
    assert found.hints == ["Another hint."]
    assert found.eager is None


@pytest.mark.parametrize("error", ["", "RuntimeError: view size is not compatible"])
def test_how_eager_ended(error: str) -> None:
    assert failure(ON_FAKES, OWN, then=(MadeInEager(error=error),)).eager == error


def test_a_backend_that_raises_has_no_line() -> None:
    found = failure(BY_BACKEND, kind="BackendCompilerFailed")
    assert (found.backend, found.message, found.location) == ("aot_eager", "ValueError: no code for this", None)
