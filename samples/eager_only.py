"""An inference script without a word about compilation, as most are.

Its model is called for batches of several lengths; dynalyze compiles it in these calls.

Try:

    dynalyze explain samples/eager_only.py --backend eager
"""

from collections.abc import Iterator

import torch
from torch import nn

REVIEWS = ("a quiet film", "loud and long", "two hours of my life", "the best one this year so far", "fine")


class Sentiment(nn.Module):
    """Says how much a review liked what it is about."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.letters = nn.EmbeddingBag(128, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, reviews: torch.Tensor) -> torch.Tensor:
        liking = self.head(self.letters(reviews)).sigmoid()
        if liking.isnan().any():  # break: GB0170 split
            raise ValueError("the weights are broken")
        return liking.squeeze(-1)


def batches(size: int = 2) -> Iterator[torch.Tensor]:
    """Reviews as codes of letters, padded to the longest of the batch."""
    for start in range(0, len(REVIEWS), size):
        group = [torch.tensor(list(review.encode())) for review in REVIEWS[start : start + size]]
        yield nn.utils.rnn.pad_sequence(group, batch_first=True)


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    model = Sentiment().eval()
    for batch in batches():
        print([round(liking, 3) for liking in model(batch).tolist()])


if __name__ == "__main__":
    main()
