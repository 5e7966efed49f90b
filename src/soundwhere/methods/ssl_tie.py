"""SSL-TIE: LVS, and a picture that is turned and scaled must be localised in the turned and scaled place.

Liu, Ju, Xie and Zhang, Exploiting Transformation Invariance and Equivariance for Self-Supervised Sound Localisation,
ACM MM 2022 (github.com/jinxiang-liu/SSL-TIE). Deviations: masks are normalised in
log space; pictures are squashed before they are changed; one band and one span are blanked in every spectrogram,
instead of four in five; sounds of 3 s are repeated to 10 s. Pictures are turned while training, so that features of a
frozen visual encoder cannot be cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch.nn import functional as F

from soundwhere.config import Thresholds, require
from soundwhere.errors import ConfigError
from soundwhere.losses.lvs import lvs_loss
from soundwhere.methods.published import DROPPED, two_stem_resnets
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import CosineMap, TwoEncodersConfig
from soundwhere.models.similarity import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.types import Batch


@dataclass(frozen=True)
class SSLTIEConfig(TwoEncodersConfig):
    """The defaults are as published: 100 epochs of 144,000 clips, vision from scratch."""

    family: Literal["ssl-tie"] = "ssl-tie"
    name: str = "ssl-tie"
    visual_weights: str = "none"
    """Weights the visual encoder starts from: `imagenet`, a file, or `none`."""
    fine_grid: bool = True
    spectrogram: str = "ssl_tie"
    steps: int = 450_000
    batch_size: int = 32
    weight_decay: float = 1e-4
    augment: str = "moco"
    """How pictures are changed at random while training."""
    blank: int = 1
    thresholds: Thresholds = Thresholds()  # noqa: RUF009 - frozen
    """Of source and background."""
    most_degrees: int = 30
    """Pictures are turned by a whole number of degrees, up to this to either side."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"thresholds", "most_degrees"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.most_degrees <= 180, "most_degrees", self.most_degrees, "between 0 and 180")


class Move(NamedTuple):
    """How pictures are moved: forward affine maps (B, 2, 3) of pixels; one scale and one mirroring for the batch."""

    matrices: Tensor
    scale: float
    flip: bool


def draw_move(count: int, size: tuple[int, int], most_degrees: int) -> Move:
    """A random move of pictures of one size (height, width), drawn with torch's global random state."""
    halved, flip = (torch.rand(2) < 0.5).tolist()
    degrees = torch.randint(-most_degrees, most_degrees + 1, (count,))
    scale = 0.5 if halved else 1.0
    return Move(rotations(degrees.double(), scale, size), scale, flip)


def rotations(degrees: Tensor, scale: float, size: tuple[int, int]) -> Tensor:
    """Turn by degrees (B,), anticlockwise as seen, and scale, about the middle of pictures; shape (B, 2, 3)."""
    radians = torch.deg2rad(degrees)
    cos, sin = scale * radians.cos(), scale * radians.sin()
    y, x = (side / 2 for side in size)
    rows = torch.stack([cos, sin, (1 - cos) * x - sin * y]), torch.stack([-sin, cos, sin * x + (1 - cos) * y])
    return torch.stack(rows).permute(2, 0, 1)


def apply_move(maps: Tensor, move: Move, size: tuple[int, int]) -> Tensor:
    """Move maps or pictures as pictures of a size are moved.

    Args:
        maps: Shape (B, C, h, w).
        move: In pixels of pictures of that size.
        size: Height and width of the pictures.

    Returns:
        Shape (B, C, floor(scale h), floor(scale w)); 0 where nothing came from.
    """
    height, width = size
    smaller = [int(side * move.scale) for side in maps.shape[-2:]]
    whole = _resize(maps, [height, width])
    matrices = move.matrices.to(maps)
    rows = torch.arange(height, device=maps.device, dtype=maps.dtype)
    columns = torch.arange(width, device=maps.device, dtype=maps.dtype)
    places = torch.stack(torch.meshgrid(columns, rows, indexing="xy"))  # (2, H, W): x, y
    offset = places - matrices[:, :, 2, None, None]
    source = torch.einsum("brc,bchw->bhwr", torch.linalg.inv(matrices[:, :, :2]), offset)
    grid = 2 * source / source.new_tensor([width - 1, height - 1]) - 1
    moved = F.grid_sample(whole, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
    moved = _resize(moved, smaller)
    return moved.flip(-1) if move.flip else moved


def equivariance_loss(moved_picture: Tensor, moved_map: Tensor) -> Tensor:
    """Mean squared difference between the maps of moved pictures (B, h', w') and the moved maps (B, h, w)."""
    shape = list(moved_map.shape[-2:])
    return F.mse_loss(_resize(moved_picture[:, None], shape)[:, 0], moved_map)


def _resize(maps: Tensor, size: list[int]) -> Tensor:
    if list(maps.shape[-2:]) == size:
        return maps
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)


class SSLTIE(CosineMap):
    """The network of LVS."""

    config: SSLTIEConfig
    published: ClassVar[Mapping[str, str]] = two_stem_resnets("imgnet.", "audnet.") | dict.fromkeys(
        ("vision_fc1.", "conv3.", "norm3."), DROPPED
    )

    @property
    def eye(self) -> None:
        """None: what it sees must not be kept, because pictures are moved while training."""
        return


def loss(network: SSLTIE, batch: Batch) -> dict[str, Tensor]:
    """The contrasts of LVS for pictures as they are and moved, and the disagreement of their maps."""
    config = network.config
    picture = network.look(batch)
    if picture is None:
        raise ConfigError("SSL-TIE moves pictures, and only their features are given.", "Train on pictures.")
    size = (picture.shape[-2], picture.shape[-1])
    move = draw_move(len(picture), size, config.most_degrees)
    heard = prepare(network.embed(network.listen(batch.mixture)), "cosine")
    plain, moved = (prepare(network.see(each), "cosine") for each in (picture, apply_move(picture, move, size)))
    contrasts = [lvs_loss(cells, heard, config.thresholds) for cells in (plain, moved)]
    maps = torch.einsum("bdhw,bd->bhw", plain, heard)
    moved_map = apply_move(maps[:, None], move, size)[:, 0]
    equivariance = equivariance_loss(torch.einsum("bdhw,bd->bhw", moved, heard), moved_map)
    contrast = (contrasts[0] + contrasts[1]) / 2
    return {"loss": contrast + equivariance, "contrast": contrast, "equivariance": equivariance}


METHOD = SingleStageMethod(SSLTIEConfig, SSLTIE, loss)
