"""PP-DocLayoutV2: how sure it has to be of each class, and the classes' order, come with a checkpoint."""

from __future__ import annotations

from typing import Any

_SURE = 0.5


def complete(config: Any) -> None:
    if config.class_thresholds is None:
        config.class_thresholds = [_SURE] * config.num_labels
    if config.class_order is None:
        config.class_order = list(range(config.num_labels))
