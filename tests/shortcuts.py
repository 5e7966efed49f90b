"""What takes long and is tested elsewhere, made short."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from soundwhere.evaluation.summary import summarise_evaluation
from soundwhere.metrics.bootstrap import DRAWS
from soundwhere.metrics.counting import count_right
from soundwhere.metrics.listening import auroc_interval, mean_interval

if TYPE_CHECKING:
    import pytest

FEW = 40


def draw_few(patch: pytest.MonkeyPatch) -> None:
    """Let intervals be found by few draws: a thousand for each of hundreds of numbers take seconds."""
    for found in (summarise_evaluation, count_right, mean_interval, auroc_interval):
        assert inspect.signature(found).parameters["draws"].default == DRAWS
        if "draws" in (named := found.__kwdefaults__ or {}):
            patch.setattr(found, "__kwdefaults__", {**named, "draws": FEW})
        else:
            patch.setattr(found, "__defaults__", (FEW, *(found.__defaults__ or ())[1:]))
        assert inspect.signature(found).parameters["draws"].default == FEW
