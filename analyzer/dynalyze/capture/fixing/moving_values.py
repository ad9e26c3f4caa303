"""Values that move as they are used: iterators, random generators, files, arrays, bytes. Where they stand, and how to
set them back.
"""

from __future__ import annotations

import array
import contextlib
import io
import pickle
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dynalyze.capture.fixing.watching import SCALARS


@dataclass
class Moving:
    """An iterator or random generator with its position. Without `put` it cannot go back."""

    path: str
    value: Any
    position: Callable[[Any], Any]
    put: Callable[[Any, Any], None] | None = None
    start: Any = None

    def __post_init__(self) -> None:
        self.start = self.position(self.value)

    def told(self, position: Any) -> str:
        """A position as two versions of a program share it: where a generator's code stands, they do not."""
        if isinstance(self.value, types.GeneratorType):
            return "another position"
        return f"another position, {zlib.crc32(repr(position).encode()):x}"


def moving_value(path: str, value: Any) -> Moving | None:
    if isinstance(value, torch.Generator):
        return Moving(
            path, value, lambda each: each.get_state().numpy().tobytes(),
            lambda each, state: each.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8)),
        )  # fmt: skip
    if isinstance(value, random.Random):
        return Moving(path, value, lambda each: each.getstate(), lambda each, state: each.setstate(state))
    if isinstance(value, types.GeneratorType):
        return Moving(path, value, _of_generator)
    if isinstance(value, bytearray | array.array):
        return Moving(path, value, bytes, _put_bytes)
    if isinstance(value, io.StringIO | io.BytesIO) and not value.closed:
        return Moving(path, value, lambda each: (each.getvalue(), each.tell()), _put_text)
    if isinstance(value, io.IOBase):
        return Moving(path, value, _of_file)
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        put = (lambda each, state: each.__setstate__(state[-1])) if hasattr(value, "__setstate__") else None
        return Moving(path, value, _of_iterator, put)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype != object:
        return Moving(path, value, _of_array, _put_array)
    numpy_random = sys.modules.get("numpy.random")
    if isinstance(value, getattr(numpy_random, "Generator", ())):
        return Moving(
            path, value, lambda each: pickle.dumps(each.bit_generator.state),
            lambda each, state: setattr(each.bit_generator, "state", pickle.loads(state)),
        )  # fmt: skip
    if isinstance(value, getattr(numpy_random, "RandomState", ())):
        return Moving(
            path, value, lambda each: pickle.dumps(each.get_state()),
            lambda each, state: each.set_state(pickle.loads(state)),
        )  # fmt: skip
    return None


def _of_generator(generator: types.GeneratorType[Any, Any, Any]) -> Any:
    frame = generator.gi_frame
    if frame is None:
        return None
    return frame.f_lasti, [repr(value) for value in frame.f_locals.values() if isinstance(value, SCALARS)]


def _of_file(file: Any) -> int:
    with contextlib.suppress(Exception):
        return int(file.tell())
    return 0


def _put_bytes(held: Any, state: bytes) -> None:
    held[:] = state if isinstance(held, bytearray) else array.array(held.typecode, state)


def _put_text(file: Any, state: tuple[Any, int]) -> None:
    file.seek(0)
    file.truncate()
    file.write(state[0])
    file.seek(state[1])


def _of_iterator(iterator: Any) -> Any:
    try:
        _, given, *state = iterator.__reduce__()
    except Exception:
        return None
    return [each for each in (*given, *state) if isinstance(each, SCALARS)]


def _of_array(array: Any) -> tuple[Any, Any]:
    """Its contents and mask, read below its class (numpy.ma.masked fails otherwise)."""
    numpy = sys.modules["numpy"]
    masked = numpy.ma.getmaskarray(array).tobytes() if numpy.ma.isMaskedArray(array) else None
    return numpy.asarray(array).tobytes(), masked


def _put_array(array: Any, state: tuple[bytes, bytes | None]) -> None:
    numpy = sys.modules["numpy"]
    held, masked = state
    if array.flags.writeable:
        numpy.asarray(array)[...] = numpy.frombuffer(held, dtype=array.dtype).reshape(array.shape)
        if masked is not None:
            array.mask = numpy.frombuffer(masked, dtype=bool).reshape(array.shape)
