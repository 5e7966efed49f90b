"""Models as `soundwhere train` wrote them, or as the authors of a method released them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soundwhere.errors import ConfigError
from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import load_model, model_file
from soundwhere.methods.published import is_released, read_published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.config import MethodConfig
    from soundwhere.methods.method import Network


@dataclass(frozen=True)
class Released:
    """How to read files that this package did not write.

    Attributes:
        method: Whose they are; None where none is expected.
        classes: Those that a method knows which reads labels, in the order of their numbers.
        download: Fetch ImageNet weights that a file lacks, if they are not on this machine.
    """

    method: str | None
    classes: tuple[str, ...]
    download: bool

    def check(self, models: Sequence[str]) -> None:
        """Refuse options where no file could be meant.

        Raises:
            ConfigError: Classes without a method, or with one that knows none, or none of the models is such a file.
            CheckpointError: A model is not there.
        """
        if self.method is None:
            if self.classes:
                raise ConfigError(
                    "--classes names the classes of a released checkpoint, and none is given.",
                    "Add --checkpoint-of METHOD; what `soundwhere train` wrote knows its classes.",
                )
            return
        self._config(self.method)
        for name in models:
            model_file(name)  # one that is not there
        if not any(is_released(Path(name)) for name in models):
            raise ConfigError(
                f"--checkpoint-of {self.method}: none of the models is a file that its authors could have released.",
                "Give that file with --model; what `soundwhere train` wrote says itself whose it is.",
            )

    def load(self, name: str) -> Network:
        """A model, perhaps as its authors released it."""
        if self.method is None or not is_released(Path(name)):
            return load_model(name)
        return read_published(self.method, Path(name), self._config(self.method), download=self.download)

    def _config(self, method: str) -> MethodConfig:
        """As published, with the classes that were named."""
        config = named_config(method)
        if not self.classes:
            return config
        if not hasattr(config, "classes"):
            raise ConfigError(f"The method {config.family!r} knows no classes.", "Leave out --classes.")
        changes: dict[str, Any] = {"classes": self.classes}
        return replace(config, **changes)
