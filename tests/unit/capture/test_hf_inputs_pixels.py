"""The helpers behind the inputs of architectures with pixels, on configurations and modules made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dynalyze.capture.libraries.hf import shrink
from dynalyze.capture.libraries.hf.inputs import input_builder, pixels
from dynalyze.capture.libraries.hf.inputs.input_builder import untouched

torch = pytest.importorskip("torch")


class Config(SimpleNamespace):
    model_type = "by_hand"

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


@pytest.mark.parametrize(
    ("told", "size"),
    [(96, (96, 96)), ([64, 32], (64, 32)), ((48,), (48, 48)), ({"height": 8, "width": 16}, (8, 16)), (None, None)],
)
def test_sizes_are_read_in_every_form(told: Any, size: tuple[int, int] | None) -> None:
    assert pixels.pair(told) == size


def test_a_model_of_any_size_gets_a_larger_image_at_full_size_and_a_detector_the_largest() -> None:
    small, full = pixels.image_size(Config()), pixels.image_size(Config(), full_size=True)
    detector = pixels.image_size(Config(num_queries=300), full_size=True)
    assert small[0] < full[0] < detector[0]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (torch.zeros(2, 5, 8), 10),
        ([torch.zeros(5, 8), torch.zeros(3, 8)], 8),
        (SimpleNamespace(pooler_output=(torch.zeros(4, 8),), last_hidden_state=torch.zeros(9, 8)), 4),
        (SimpleNamespace(pooler_output=None, last_hidden_state=torch.zeros(1, 9, 8)), 9),
    ],
)
def test_features_are_counted_in_every_form(given: Any, rows: int) -> None:
    assert input_builder.count(given) == rows


class Patches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.merger = torch.nn.Linear(7, 7)
        self.patch_embed = torch.nn.Conv3d(3, 8, kernel_size=(2, 4, 4))


class Remembering(torch.nn.Module):
    """Changes all that a forward can change: an attribute, a buffer, its configuration, the random state."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Config(buckets=None)
        self.calls = 0
        self.register_buffer("seen", torch.zeros(1))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, value: Any) -> Any:
        self.calls += 1
        self.cache = value
        self.seen = value
        self.config.buckets = 8
        return self.drop(value + torch.rand(1))


def test_a_probed_model_is_as_it_was_before() -> None:
    model = Remembering().train()
    seen, random = model.seen, torch.get_rng_state()
    with untouched(model):
        result = model(torch.ones(1, requires_grad=True))
        assert not model.training
        assert not result.requires_grad
    assert model.training
    assert model.drop.training
    assert model.calls == 0
    assert not hasattr(model, "cache")
    assert model.seen is seen
    assert model.config.buckets is None
    assert torch.equal(torch.get_rng_state(), random)


def test_a_patch_holds_what_the_embedding_reads_not_what_the_first_layer_reads() -> None:
    made = SimpleNamespace(model=Patches(), config=Config())
    assert pixels.patch_values(made) == 3 * 2 * 4 * 4  # type: ignore[arg-type]


def test_large_images_shrink_together_with_what_is_counted_in_them() -> None:
    vision = Config(image_size=1024, patch_size=16)
    prompts = Config(image_size=1024, patch_size=16, image_embedding_size=64)
    whole = Config(num_queries=300, image_grid_pinpoints=[[1024, 2048]])
    shrink.cut_pictures([vision, prompts, whole])
    assert vision.image_size == prompts.image_size
    assert prompts.image_embedding_size * prompts.patch_size == prompts.image_size
    assert whole.image_grid_pinpoints == [[vision.image_size, 2 * vision.image_size]]
    assert whole.num_queries < 300
