"""SCAV in the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from soundwhere.constants import SOURCES
from soundwhere.data.layout import check_layouts
from soundwhere.errors import ConfigError
from soundwhere.methods.scav.config import NAMED, SCAVConfig

if TYPE_CHECKING:
    from soundwhere.config import Config
    from soundwhere.methods.method import Stage
    from soundwhere.methods.scav.model import SCAV


class SCAVMethod:
    """See `Method`."""

    config = SCAVConfig
    named = NAMED

    def build(self, config: SCAVConfig) -> SCAV:
        """A network with random weights."""
        from soundwhere.methods.scav.model import SCAV

        return SCAV(config)

    def stages(self, config: SCAVConfig) -> tuple[Stage, ...]:
        """Stage 1 and stage 2, one of them, or both at once."""
        from soundwhere.methods.scav.stages import SCAVStage

        if config.stage == "both":
            return SCAVStage("one", config), SCAVStage("two", config)
        return (SCAVStage(config.stage, config),)

    def check(self, config: Config) -> Config:
        """The configuration with what follows from it, or an error where it contradicts itself."""
        method, data = config.method, config.data
        assert isinstance(method, SCAVConfig)
        stage = method.stage
        if stage != "one" and not method.decouple:
            raise ConfigError("decouple is off, but stage 2 was asked for.", "Use --stage one.")
        if method.stage_two == "distil" and data.mixtures == "native" and stage != "one":
            raise ConfigError(
                "The loss `distil` needs the separate sounds of a mixture, and native mixtures have none.",
                "Use --mixtures made, or --stage-two paper.",
            )
        if method.stage_two == "distil" and method.cross_sample_negatives and stage != "one":
            raise ConfigError(
                "Cross-sample negatives belong to the paper's stage-2 loss, not to `distil`.", "Add --stage-two paper."
            )
        if data.source == "synthetic" and method.teacher == "strength" and stage != "one":
            raise ConfigError(
                "The teacher `strength` needs clips, of which scenes are made.",
                "Use --teacher grow in the made-up world.",
            )
        fitted = data.source != "synthetic" and method.freeze_visual
        if stage != "one" and method.maps == "shaped" and not fitted:
            raise ConfigError(
                "Maps that are `shaped` need clips, to whose frames a head on a frozen visual encoder is fitted.",
                "Use --maps presence, or train on clips (--source real-duet or folder) with --freeze-visual.",
            )
        if stage != "one" and data.source != "synthetic" and data.mixtures == "made":
            check_layouts(data.layouts, SOURCES, data.silent, data.pool, method.freeze_visual)
        if method.audio_weights == "visual" and method.audio != method.visual:
            raise ConfigError(
                f"The audio encoder ({method.audio}) cannot start from the weights of the visual one "
                f"({method.visual}).",
                "Set --audio-weights to none, imagenet or a file.",
            )
        own_ears = method.second_audio_encoder or method.trainable == "full"
        decouple = method.decouple and stage != "one"
        return replace(config, method=replace(method, decouple=decouple, second_audio_encoder=own_ears))


METHOD = SCAVMethod()
