"""A callback for the Trainer of Lightning: `Trainer(callbacks=[DynalyzeCallback(html="compile.html")])`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalyze.integrations.training import RecordsTraining

if TYPE_CHECKING:
    from dynalyze.report import Report

if importlib.util.find_spec("lightning") is not None:  # The package of two names.
    import lightning.pytorch as lightning
else:
    import pytorch_lightning as lightning

_LIBRARIES = tuple(
    str(Path(lightning.__file__ or "").parents[above] / name)
    for above, name in ((0, ""), (1, "fabric"), (1, "lightning_fabric"))
)


class DynalyzeCallback(RecordsTraining, lightning.Callback):  # type: ignore[misc]
    """Records what torch.compile does in `fit`; its arguments are those of `RecordsTraining`."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record: nothing of the model has been called yet."""
        self._finish(trainer, None)
        self._begin(trainer.global_step, _LIBRARIES, first=trainer.is_global_zero)

    def on_train_batch_end(self, trainer: Any, *_: Any, **kwargs: Any) -> None:
        if self._stepped(trainer.global_step):
            self._finish(trainer, None)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._finish(trainer, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._finish(trainer, exception)

    def _finish(self, trainer: Any, error: BaseException | None) -> None:
        def tell(_: Report, counts: dict[str, int]) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(counts, step=trainer.global_step)

        self._end(error, tell)
