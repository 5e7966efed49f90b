from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from soundwhere.methods.method import Schedule
from soundwhere.training.loop import make_optimiser

if TYPE_CHECKING:
    from typing import Any


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({}, torch.optim.Adam), ({"optimiser": "adamw"}, torch.optim.AdamW), ({"optimiser": "sgd"}, torch.optim.SGD)],
)
def test_a_schedule_names_its_optimiser(settings: dict[str, Any], kind: type) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    schedule = Schedule(4, 0.1, weight_decay=0.01, momentum=0.9, **settings)
    optimiser = make_optimiser(module, schedule)
    assert type(optimiser) is kind
    (group,) = optimiser.param_groups
    assert group["params"] == list(module[0].parameters())
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.01)
    assert group.get("momentum", 0.9) == 0.9
