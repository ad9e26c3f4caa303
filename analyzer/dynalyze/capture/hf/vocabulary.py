"""Small vocabularies, with every token id inside them and different ids still different."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

SIZE = 1024

_SIZES = re.compile(r"(^|_)(vocab_size|vocab)$|^vocab_size_\w+$|vocab_size_base$")
_NO_SIZES = re.compile(r"^(type|modality_type|task_type)_")
_IDS = re.compile(r"(_token_id|_token_index|_token_ids|_token_indices|token_idx|_id|_index)$")
# Places in other lists, and ids in the vocabularies of sounds, which stay as large as they are.
_NO_IDS = re.compile(
    r"^(layer|lang|insert|head|ignore|model|device|adapter)|layer_id|ignore_index|codebook|codec|audio_[be]os_token"
)


def cut(parts: list[Any]) -> None:
    """Make the vocabularies of all parts small, and move their token ids into them, in place."""
    places = _Places(parts)
    for part in parts:
        for name, value in list(vars(part).items()):
            if _is_size(name, value) and value > SIZE:
                setattr(part, name, SIZE)
            elif _IDS.search(name) and not _NO_IDS.search(name):
                moved = places.moved(value)
                if moved != value:
                    setattr(part, name, moved)


def _is_size(name: str, value: Any) -> bool:
    return isinstance(value, int) and bool(_SIZES.search(name)) and not _NO_SIZES.search(name)


class _Places:
    """Where ids beyond the small vocabulary go: counted down from its end, one id always to the same place."""

    def __init__(self, parts: list[Any]) -> None:
        self._taken = {each for part in parts for each in _ids(part) if 0 <= each < SIZE}
        self._places: dict[int, int] = {}
        self._next = SIZE - 1

    def moved(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self.moved(each) for each in value)
        if not isinstance(value, int) or isinstance(value, bool) or value < SIZE:
            return value
        if value not in self._places:
            while self._next in self._taken:
                self._next -= 1
            self._places[value] = self._next
            self._next -= 1
        return self._places[value]


def _ids(part: Any) -> Iterator[int]:
    for name, value in vars(part).items():
        if _IDS.search(name):
            several = value if isinstance(value, (list, tuple)) else [value]
            yield from (each for each in several if isinstance(each, int))
