from __future__ import annotations

from pathlib import Path

import pytest

from soundwhere.errors import ConfigError
from soundwhere.reproduction.budget import budget_of, left_out
from soundwhere.reproduction.scales import PARTS, SCALES

CONFIGS = Path(__file__).parents[2]


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_a_recipe_of_scav(scale: str) -> None:
    budget = budget_of(CONFIGS / SCALES[scale].recipe, 30)  # type: ignore[index]
    assert (budget.steps, budget.method.steps_one + budget.method.steps_two) == (30, 30)
    assert budget.full > 30
    with pytest.raises(ConfigError, match="of the method lvs, not of scav"):
        budget_of(CONFIGS / "configs/rivals/lvs-controlled.toml", 30)


def test_what_is_left_out_is_said() -> None:
    recipe = CONFIGS / SCALES["made-up"].recipe
    full = budget_of(recipe, None)
    assert left_out(full, scenes=None, parts=PARTS, systems={}, asked=()) == "-"
    said = left_out(budget_of(recipe, 30), scenes=4, parts=PARTS[1:], systems={"oa-ssl": "no captions"}, asked=("lvs",))
    for words in (f"30 of {full.full} steps", "4 scenes", PARTS[0], "all systems but lvs", "oa-ssl: no captions"):
        assert words in said
