"""`scav-wide` in the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from soundwhere.constants import SOURCES
from soundwhere.data.layout import check_layouts
from soundwhere.errors import ConfigError
from soundwhere.methods.wide.config import NAMED, WideConfig

if TYPE_CHECKING:
    from soundwhere.config import Config
    from soundwhere.methods.method import Stage
    from soundwhere.methods.wide.model import WideSCAV


class WideMethod:
    """See `Method`."""

    config = WideConfig
    named = NAMED

    def build(self, config: WideConfig) -> WideSCAV:
        """A network with random weights."""
        from soundwhere.methods.wide.model import WideSCAV

        return WideSCAV(config)

    def stages(self, config: WideConfig) -> tuple[Stage, ...]:
        """Stage 1 and stage 2, or one of them."""
        from soundwhere.methods.wide.stages import WideStage

        if config.stage == "both":
            return WideStage("one", config), WideStage("two", config)
        return (WideStage(config.stage, config),)

    def check(self, config: Config) -> Config:
        """The configuration with what follows from it, or an error where it contradicts itself."""
        method, data = config.method, config.data
        assert isinstance(method, WideConfig)
        if data.source == "synthetic":
            raise ConfigError(
                "scav-wide is trained on clips, of which it makes mixtures and scenes.",
                "Use --source wide-duet, real-duet or folder with --root, or --model scav-tiny for the made-up world.",
            )
        if method.stage != "one" and not method.explain:
            raise ConfigError("explain is off, but stage 2 was asked for.", "Use --stage one.")
        if method.stage != "one":
            check_layouts(data.layouts, SOURCES, data.silent, data.pool, frozen=True)
        return replace(config, method=replace(method, explain=method.stage != "one"))


METHOD = WideMethod()
