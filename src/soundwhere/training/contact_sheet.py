"""A contact sheet: fixed scenes with the maps the model gives now, to watch training with one's own eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from PIL import Image as PILImage
from torch.nn import functional as F

from soundwhere.data.draws import collate
from soundwhere.files import atomic_path
from soundwhere.media.draw import contact_sheet, overlay
from soundwhere.methods.method import Given

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.draws import Draws
    from soundwhere.methods.method import Network

SCENES: Final = 8


@torch.no_grad()
def write_sheet(path: Path, model: Network, draws: Draws, most: int = SCENES) -> None:
    """Draw the first scenes of an epoch: picture, what the method lets one watch, and the map of each source.

    The whole picture is encoded here, as in scoring, even where training uses cached features of single frames.

    Args:
        path: The PNG.
        model: In eval mode.
        draws: Where scenes come from.
        most: Draw no more scenes than this: only those of one step's batch are sure to be of one size.
    """
    examples = [draws.draw(number, pictures=True) for number in range(min(SCENES, most, len(draws)))]
    batch = collate(examples, draws.native).to(model.device)
    seen, heard = model.seen(batch), model.hear(batch.mixture)
    apart = batch.mixture[:, None] if batch.solos is None else batch.solos
    answer = model.localise(seen, heard, given=Given(sounds=apart)).similarity
    watched = {
        **model.views(seen, heard),
        **{f"source {k + 1}": one for k, one in enumerate(answer[:, :, None].unbind(1))},
    }
    maps = torch.cat(list(watched.values()), dim=1).clamp(0, 1)
    size = batch.image.shape[-2:] if batch.image is not None else maps.shape[-2:]
    maps = F.interpolate(maps, size=size, mode="bilinear", align_corners=False)
    rows = []
    for example, scene_maps in zip(examples, maps.cpu().numpy(), strict=True):
        picture = np.asarray(example.image)
        rows.append([picture, *(overlay(picture, scene_map[None]) for scene_map in scene_maps)])
    labels = ["picture", *watched]
    with atomic_path(path) as temporary:
        PILImage.fromarray(contact_sheet(rows, [labels] * len(rows))).save(temporary)
