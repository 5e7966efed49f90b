"""soundwhere: where in the picture does each sound come from?

import soundwhere

result = soundwhere.localise("clip.mp4")
result.heatmap(1.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from soundwhere.inference.live import Live
    from soundwhere.inference.localiser import Localiser, localise
    from soundwhere.inference.result import Result
    from soundwhere.methods.files import load_model
    from soundwhere.methods.scav.model import SCAV

# torch takes seconds to import: the names below are found when first used, so that `soundwhere --help` stays quick.
_HOMES = {
    "Live": "soundwhere.inference.live",
    "Localiser": "soundwhere.inference.localiser",
    "Result": "soundwhere.inference.result",
    "SCAV": "soundwhere.methods.scav.model",
    "load_model": "soundwhere.methods.files",
    "localise": "soundwhere.inference.localiser",
}

__all__ = ["SCAV", "Live", "Localiser", "Result", "__version__", "load_model", "localise"]


def __getattr__(name: str) -> Any:
    """Import a public name from its room on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'soundwhere' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
