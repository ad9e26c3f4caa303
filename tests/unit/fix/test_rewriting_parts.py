"""Parts that the caller joins again: not made in compiled code, as source and running."""

from __future__ import annotations

import pytest
import torch

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.report import GraphBreak, Location

_TENSOR = Value("tensor", "Tensor", "float32", 2, sizes=(6, 2))
_KNOWN = {
    "torch": Value("module", "torch"), "x": _TENSOR, "counts": Value("tensor", "Tensor", "int64", 1),
    "out": Value("Out"), "self": Value("Model"),
}  # fmt: skip
_PROGRAM = """
import torch


class Out:
    pass


def passed_on(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


class Model:
    @passed_on
    def features(self, x, counts):
        out = Out()
        # How many each has.
        sizes = (counts * 2).tolist()
        out.parts = torch.split(x, sizes)
        out.deep = [torch.split(each, sizes) for each in (x + 1, x + 2)]
        return out

    def forward(self, x, counts):
        out = self.features(x, counts)
        parts, more = out.parts, 1
        deep = out.deep
        parts = torch.cat(parts, dim=0).to(x.dtype)
        for each, other in zip(deep, [0, 1]):
            each = torch.cat(each, dim=0)
            more = more + each.sum() + other
        return parts * more + sum(torch.cat(each, dim=0) for each in deep)


def forward(x, counts):
    return Model().forward(x, counts)
""".replace("parts, more = out.parts, 1", "more = 1\n        parts = out.parts")


def _proposed(old: str = "", new: str = "", known: dict[str, Value] | None = None) -> list[Proposal]:
    assert old in _PROGRAM
    text = _PROGRAM.replace(old, new) if old else _PROGRAM
    lines = [next(number for number, each in enumerate(text.splitlines(), 1) if mark in each)
             for mark in (".tolist()", "return function(", "self.features(")]  # fmt: skip
    places = [Location("model.py", line, None, "f") for line in lines]
    site = None
    for place in places:
        broken = GraphBreak("b1", None, "Data dependent operator", "split", place, places[::-1])
        site = Site(broken, text, place.line, known or _KNOWN, called=site)
    assert site is not None
    return [each for each in proposals(site, outer=True) if each.rewrite == "undivided-parts"]


def _ran(source: str) -> dict[str, object]:
    space: dict[str, object] = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)
    return space


_READ = "parts = out.parts\n        deep = out.deep\n        parts = torch.cat(parts, dim=0)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        # As in models of images, which may be given the features themselves.
        (_READ, "parts = out.parts\n        deep = out.deep\n        if parts is not None:\n"
                "            if isinstance(parts, (list, tuple)):\n                parts = torch.cat(parts, dim=0)\n"
                "        parts = parts"),
        ("out.parts = torch.split(x, sizes)",
         "out.parts = [each.reshape(-1, each.shape[-1]) for each in x.view(6, 1, 2).split(sizes)]"),
        # Another result has an attribute of that name.
        ("return parts * more", "other = Out()\n        other.parts = [x]\n"
                                "        return parts * more * len(other.parts)"),
        (
            "sizes = (counts * 2).tolist()\n        out.parts = torch.split(x, sizes)\n"
            "        out.deep = [torch.split(each, sizes) for each in (x + 1, x + 2)]",
            "out.deep = []\n        out.parts = x.split((counts * 2).tolist(), dim=0)",
        ),
    ],
)  # fmt: skip
def test_it_compiles_to_one_graph_and_gives_the_same(old: str, new: str) -> None:
    (proposal,) = _proposed(old, new)
    assert "out = self.features(x, counts, undivided=True)" in proposal.source and "# How many" in proposal.source
    before, now = (_ran(text)["forward"] for text in (_PROGRAM.replace(old, new) if old else _PROGRAM, proposal.source))
    torch._dynamo.reset()
    compiled = torch.compile(now, backend="eager", fullgraph=True)  # type: ignore[call-overload]
    for counts in (torch.tensor([1, 2]), torch.tensor([3, 0])):
        x = torch.randn(6, 2)
        wanted = before(x, counts)  # type: ignore[operator]
        assert torch.equal(compiled(x, counts), wanted) and torch.equal(now(x, counts), wanted)  # type: ignore[operator]
    with pytest.raises(RuntimeError):
        compiled(torch.randn(6, 2), torch.tensor([1, 1]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parts = torch.cat(parts, dim=0)", "first = parts[0]\n        parts = torch.cat(parts, dim=0)"),
        ("parts = torch.cat(parts, dim=0)", "more = len(parts)\n        parts = torch.cat(parts, dim=0)"),
        ("parts = out.parts", "parts = out.parts[0]"),
        ("return parts * more", "self.last = out\n        return parts * more"),
        ("return parts * more", "print(out)\n        return parts * more"),
        ("return parts * more", "return parts * more * len(out.deep[0])"),
        ("each = torch.cat(each, dim=0)\n", "each = each[0]\n"),
        ("out.parts = torch.split(x, sizes)", "out.parts = torch.split(x, sizes)\n        out.sizes = sizes"),
        (_READ, "parts = out.parts\n        deep = out.deep\n        if len(deep) > 5:\n"
                "            parts = torch.cat(parts, dim=0)\n        parts = parts[0]"),
        ("out.parts = torch.split(x, sizes)", "out.parts = [each.sum(0) for each in x.split(sizes)]"),
        ("out.parts = torch.split(x, sizes)", "out.parts, rest = torch.split(x, sizes)"),
        ("(counts * 2).tolist()", "counts.add_(1).tolist()"),
        ("def forward(x, counts):", "class Other(Model):\n    def features(self, x, counts):\n        return None\n\n\n"
                                    "def forward(x, counts):"),
    ],
)  # fmt: skip
def test_parts_that_are_used_as_such_are_left_alone(old: str, new: str) -> None:
    assert not _proposed(old, new)


def test_what_a_caller_gives_to_keep_it_in_is_told() -> None:
    in_dict = [
        ("out = self.features(x, counts)", "kept = kept if kept is not None else {}\n        "
                                           "kept['x'] = self.features(x, counts)"),
        ("out.parts\n        deep = out.deep", "kept['x'].parts\n        deep = kept['x'].deep"),
        ("forward(self, x, counts)", "forward(self, x, counts, kept=None)"),
    ]  # fmt: skip
    text = _PROGRAM
    for old, new in in_dict:
        assert old in text
        text = text.replace(old, new)
    (proposal,) = _proposed(_PROGRAM, text)
    assert proposal.title.endswith("`kept` holds it too, where a caller gives one")
    assert not _proposed(_PROGRAM, text.replace("return parts * more", "return kept, parts * more"))
    asked = "if isinstance(kept, dict) and kept.get('y'):\n            more = 2\n        {}return parts * more"
    given = "elif isinstance(kept, torch.Tensor):\n            parts = kept\n        "
    assert len(_proposed(_PROGRAM, text.replace("return parts * more", asked.format(given)))) == 1
    given = given.replace("torch.Tensor", "dict")
    assert not _proposed(_PROGRAM, text.replace("return parts * more", asked.format(given)))


def test_what_is_not_there_yet_is_not_asked_for_its_size() -> None:
    assert not _proposed(known={name: value for name, value in _KNOWN.items() if name != "x"})
