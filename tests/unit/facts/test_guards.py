"""The texts of failed guards, in the words of torch 2.8 to 2.13."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.facts.guards import read_guard
from dynalyze.report import Cause

ORIGIN = "                                       # return x + n  # model.py:49 in forward"
HINT = (
    " (HINT: torch.compile considers integer attributes of the nn.Module to be static. If you are observing "
    "recompilation, you might want to make this integer dynamic using "
    "torch._dynamo.config.allow_unspec_int_on_nn_module = True, or convert this integer into a tensor.)"
)

# Text, cause, source, expected, actual.
GUARDS: list[tuple[str, Cause, str | None, str | None, str | None]] = [
    ("tensor 'x' size mismatch at index 0. expected 4, actual 5", "shape", "x.size()[0]", "4", "5"),
    ("tensor 'L['x']' size mismatch at index 2. expected 4, actual 5", "shape", "x.size()[2]", "4", "5"),
    ("tensor 'L['batch']['ids']' size mismatch at index 1. expected 16, actual 27", "shape",
     "batch['ids'].size()[1]", "16", "27"),
    ("tensor 'x' rank mismatch. expected 1, actual 2", "rank", "x", "1", "2"),
    ("tensor 'x' stride mismatch at index 0. expected 6, actual 1", "stride", "x.stride()[0]", "6", "1"),
    ("tensor 'x' dtype mismatch. expected Float, actual Double", "dtype", "x", "Float", "Double"),
    ("tensor 'x' requires_grad mismatch. expected requires_grad=0", "requires_grad", "x", "0", "1"),
    ("tensor 'x' requires_grad mismatch. expected requires_grad=1", "requires_grad", "x", "1", "0"),
    ("tensor 'fn._parameters['bias']' size mismatch at index 0. expected 4, actual 3. Guard failed on a parameter, "
     "consider using torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on parameters.",
     "shape", "fn._parameters['bias'].size()[0]", "4", "3"),
    ("expected type of 'x' to be a tensor type, got <class 'int'>", "tensor_type", "x", "a tensor", "<class 'int'>"),
    ("expected type of 'x' to be a tensor type, ' but found <class 'float'>", "tensor_type", "x", "a tensor",
     "<class 'float'>"),
    ("n == 3", "value", "n", "3", None),
    ("L['n'] == 3", "value", "n", "3", None),
    ("mode == 'a == b'", "value", "mode", "'a == b'", None),
    ("mask is None", "value", "mask", "None", None),
    ("flag == True", "value", "flag", "True", None),
    ("self.power == 2.5", "module_attribute", "self.power", "2.5", None),
    ("L['self'].layers[0].mode == 'up'", "module_attribute", "self.layers[0].mode", "'up'", None),
    ("G['GAIN'] == 1.5", "global_variable", "GAIN", "1.5", None),
    ("len(parts) == 1", "container", "len(parts)", "1", None),
    ("len(L['parts']) == 1", "container", "len(parts)", "1", None),
    ("len(G['__import_einops_dot__backends']._type2backend) != 1", "container", "len(einops._backends._type2backend)",
     "1", None),
    ("not hasattr(L['self'], 'table')", "module_attribute", "self.table", "missing", "present"),
    ("hasattr(module, 'seen')", "value", "module.seen", "present", "missing"),
    ("KeyError on self.memory", "module_attribute", "self.memory", "present", "missing"),
    ("list(dict.keys(d))[0] == 'a'", "container", "list(dict.keys(d))[0]", "'a'", None),
    ("KeyError on options['bias']", "container", "options", "'bias' in options", "'bias' not in options"),
    ("KeyError on L['options']['bias']", "container", "options", "'bias' in options", "'bias' not in options"),
    ("not ___dict_contains('return_dict', L['kwargs'])", "container", "kwargs",
     "'return_dict' not in kwargs", "'return_dict' in kwargs"),
    ("GLOBAL_STATE changed: grad_mode ", "global_state", "grad_mode", None, None),
    ("GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled autocast(cpu)_dtype ", "global_state",
     "grad_mode, autocast(cpu)_enabled, autocast(cpu)_dtype", None, None),
    ("GLOBAL_STATE changed: autocast(cpu)_enabled", "global_state", "autocast(cpu)_enabled", None, None),
    ("GLOBAL_STATE changed: default_dtype", "global_state", "default_dtype", None, None),
    ("___check_obj_id(L['f'], 139968063593728)", "identity", "f", None, None),
    ("___check_obj_id(f, 139968063593728), type=<class 'builtin_function_or_method'>", "identity", "f", None, None),
    ("___check_obj_id(L['self'].act.forward, 7655)", "identity", "self.act.forward", None, None),
    ("___check_obj_id(f.__code__, 139968063593728)", "identity", "f.__code__", None, None),
    ("Cache line invalidated because L['model'].layer got deallocated", "identity", "model.layer", None, None),
    ("___check_type_id(L['x'], 94863)", "tensor_type", "x", None, None),
    ("not log", "container", "log", "empty", "not empty"),
    ("2 <= x.size()[0]", "symbolic", "x.size()[0]", "2 <= x.size()[0]", None),
    ("2 <= L['x'].size()[0] <= 1024", "symbolic", "x.size()[0]", "2 <= x.size()[0] <= 1024", None),
    ("(items.size()[0] % 2) == 0", "symbolic", "items.size()[0] % 2", "0", None),
    ("L['x'].size()[0] == L['y'].size()[0]", "symbolic", "x.size()[0]", "y.size()[0]", None),
    ("BACKEND_MATCH failure: torch.compile detected different backend callables.", "backend", None, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause", "source", "expected", "actual"), GUARDS, ids=[g[0][:60] for g in GUARDS])
def test_what_a_guard_tells(
    text: str, cause: Cause, source: str | None, expected: str | None, actual: str | None
) -> None:
    found = read_guard(text)
    assert (found.cause, found.source, found.expected, found.actual) == (cause, source, expected, actual)


@pytest.mark.parametrize("text", ["x is y", "L['x'] is L['y']", 'Duplicate tensors found: ["x", "y"]'])
def test_aliasing(text: str) -> None:
    found = read_guard(text)
    assert found.cause == "aliasing"
    assert found.source is not None
    assert {"x", "y"} <= set(found.source.replace(",", " ").split())
    assert "Duplicate" not in found.source


@pytest.mark.parametrize(
    "text",
    [
        "_has_dynamo_dim_marking is present on runtime tensor but was absent at compile time",
        "hasattr(L['x'], '_dynamo_dynamic_indices') == False",
        "not ___has_dynamo_dim_marking(x)",
    ],
)
def test_dynamic_marking(text: str) -> None:
    assert read_guard(text).cause == "dynamic_marking"


@pytest.mark.parametrize("text", [guard[0] for guard in GUARDS if "'x'" not in guard[0]])
def test_the_line_that_torch_quotes_beside_a_guard_is_left_off(text: str) -> None:
    """It is a line of the user's code: --no-source could not drop it from there."""
    plain = read_guard(text)
    for tail in (ORIGIN, ORIGIN + '\nUser stack trace:\n  File "model.py", line 49, in forward\n    return x + n'):
        told = read_guard(text + tail)
        assert "return x + n" not in told.text
        assert (told.cause, told.source, told.expected) == (plain.cause, plain.source, plain.expected)


def test_an_int_of_a_module_is_an_attribute_wherever_it_is_read() -> None:
    """torch's hint says so, even where the source does not begin with self; an object that is no module has none."""
    for source in ("config.power", "self.power"):
        found = read_guard(f"{source} == 2" + ORIGIN + HINT)
        assert (found.cause, found.source, found.expected) == ("module_attribute", source, "2")
        assert "HINT" not in found.text
        assert read_guard(f"{source} == 2" + ORIGIN).cause == "value"


PARTS = st.sampled_from(
    ["tensor '", "' size mismatch at index ", ". expected ", ", actual ", "L['x']", "G['y']", " == ", " is ", " # ",
     "  # ", "len(", ")", "___check_obj_id(", "GLOBAL_STATE changed: ", "BACKEND_MATCH", "HINT: ", ".size()[0]",
     "2 <= ", "KeyError on ", "Duplicate tensors found: [", "\n", "\x00", "(", "'", '"']
)  # fmt: skip


@given(st.lists(st.one_of(PARTS, st.text(max_size=8)), max_size=12).map("".join))
def test_no_text_is_too_strange(text: str) -> None:
    found = read_guard(text)
    assert found.cause in get_args(Cause)
    assert "\n" not in found.text
    assert found.text in text


def test_another_device_shows_in_the_dispatch_keys() -> None:
    """torch compares dispatch keys before it looks at the device itself."""
    found = read_guard(
        "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, AutogradCPU), "
        "actual DispatchKeySet(CUDA, BackendSelect, AutogradCUDA)"
    )
    assert (found.cause, found.source, found.expected, found.actual) == ("device", "x", "CPU", "CUDA")


@pytest.mark.parametrize("inside", ["CPU, BackendSelect, ADInplaceOrView", "CPU, BackendSelect"])
def test_inference_mode_shows_in_the_dispatch_keys(inside: str) -> None:
    """As torch 2.13 words it; the shorter set is that of a tensor which was made inside."""
    outside = "CPU, BackendSelect, ADInplaceOrView, AutogradCPU"
    words = "tensor 'x' dispatch key set mismatch. expected DispatchKeySet({}), actual DispatchKeySet({})"
    found = read_guard(words.format(outside, inside))
    assert (found.cause, found.source) == ("global_state", "inference_mode")
    assert (found.expected, found.actual) == ("False", "True")
    made = words.format("CPU, BackendSelect, ADInplaceOrView", "CPU, BackendSelect")
    found = read_guard(made)
    assert (found.cause, found.source, found.actual) == ("tensor_type", "x", "an inference tensor")
    back = read_guard(words.format(inside, outside))
    assert (back.cause, back.expected, back.actual) == ("global_state", "True", "False")
