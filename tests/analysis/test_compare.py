"""With whom rows are compared."""

from __future__ import annotations

import pytest

from soundwhere.analysis.compare import references, rivals
from soundwhere.analysis.contenders import Facts
from soundwhere.analysis.match import Entrant
from soundwhere.methods.files import load_model


def entrant(name: str, seed: int) -> Entrant:
    return Entrant(name, f"{name}, seed {seed}", load_model("scav-tiny"), Facts("never", "no", 1, seed=seed))


@pytest.mark.parametrize(
    ("ours", "others"), [(["scav"], ["lvs", "scav-wide"]), (["scav-wide"], ["lvs"])], ids=["reference", "stand-in"]
)
def test_rows_are_compared_with_ours_of_their_seed(ours: list[str], others: list[str]) -> None:
    entrants = [entrant(name, seed) for name in (*others, *ours) for seed in (0, 1)]
    found = {str(row): str(reference) for row, reference in references(entrants).items()}
    assert found == {f"{name}, seed {seed}": f"{ours[0]}, seed {seed}" for name in others for seed in (0, 1)}


def test_without_any_of_ours_nothing_is_compared() -> None:
    assert references([entrant("lvs", 0)]) == {}


def test_what_is_ours_is_no_rival() -> None:
    entrants = [entrant(name, 0) for name in ("lvs", "scav-wide", "scav")]
    told = Entrant("avgn", "avgn", load_model("scav-tiny"), Facts("in training and at test", "no", 1))
    assert [each.name for each in rivals([*entrants, told])] == ["lvs"]
