from __future__ import annotations

import pytest

from soundwhere.data.controls import partner


@pytest.mark.parametrize("count", [2, 3, 4, 7, 100])
def test_every_scene_has_another_partner_and_is_one_once(count: int) -> None:
    partners = [partner(index, count) for index in range(count)]
    assert sorted(partners) == list(range(count))
    assert all(other != own for own, other in enumerate(partners))
    assert all(abs(other - own) in (count // 2, count - count // 2) for own, other in enumerate(partners))
