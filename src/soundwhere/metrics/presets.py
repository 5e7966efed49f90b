"""The evaluations of the field, by name, each with its origin and every choice it makes.

The choices were read from the released code. Mistakes that change the *data* (wrong boxes, dropped scenes) are not part
of a protocol and are not repeated. A preset is changed with `dataclasses.replace`, and recorded with
`dataclasses.asdict`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import torch
from torch.nn import functional as F

from soundwhere.errors import ConfigError, DataError
from soundwhere.metrics import kernels
from soundwhere.metrics.binarise import DEFAULT_RULE, binarise
from soundwhere.metrics.frames import Grid, crop, crop_own, frame_of_source, pick
from soundwhere.metrics.functional import to_numpy
from soundwhere.metrics.pairs import LEVELS, Meaning, PairScores, concatenate, summarise
from soundwhere.metrics.protocols import EmptyTruth, Precision, check_shapes, score_views

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.metrics.matching import Matching, Policy


@dataclass(frozen=True)
class Preset:
    """One way to evaluate.

    Attributes:
        name: By which it is chosen.
        origin: Whose evaluation it is.
        note: What a reader of its numbers has to know.
        call: `picture`: the model sees the whole picture; `single-frames`: it is called once for each frame of a joined
            picture, each time with the mixed sound.
        domain: Where a map is binarised and compared: over the whole `picture`, binarised over the picture and
            `cropped` to the frame of its source, or binarised and compared in that `frame` alone.
        upsampling: How a coarse map is brought to the size of the picture.
        align_corners: As in torch's interpolation.
        rule: Binarisation rule.
        flat_is_empty: A map that is flat where it is compared has nothing on, whatever the rule.
        matching: How maps are given to sources.
        policy: What a source without a map of its own gets.
        surplus_misses: Each map beyond the number of sources adds a pair that scores 0. Scenes may then have any number
            of maps; everywhere else a surplus map lets the matching choose with the truth's help.
        empty_truth: What a source counts as whose annotation is empty.
        precision: Which average precision CAP averages, if any.
        meaning: What CIoU@x means.
        levels: The x of CIoU@x that are reported.
    """

    name: str
    origin: str
    note: str = ""
    call: Literal["picture", "single-frames"] = "picture"
    domain: Literal["picture", "cropped", "frame"] = "picture"
    upsampling: Literal["bilinear", "bicubic"] = "bilinear"
    align_corners: bool = False
    rule: str = DEFAULT_RULE
    flat_is_empty: bool = False
    matching: Matching = "hungarian"
    policy: Policy = "repeat"
    surplus_misses: bool = False
    empty_truth: EmptyTruth = "miss"
    precision: Precision | None = "continuous"
    meaning: Meaning = "success"
    levels: tuple[float, ...] = LEVELS


_SLAVC: Final = Preset(
    "slavc",
    "SLAVC (NeurIPS 2022), stoneMo/SLAVC",
    "Made for one source in one frame. Maps are cosines c as (c + 1) / 2. A clip without boxes is a negative.",
    upsampling="bicubic",
    align_corners=True,
    rule="fixed-0.5",
    empty_truth="left-out",
    precision=None,
    meaning="success-above",
    levels=(0.5,),
)
_DSOL: Final = Preset(
    "dsol",
    "DSOL (NeurIPS 2020), DTaoo/Discriminative-Sounding-Objects-Localization, MUSIC-Duet",
    "Maps are per class, so their order is known. An IoU is first averaged over the sources of a scene.",
    rule="max-fraction-0.2-strict",
    matching="given",
    precision=None,
    meaning="scene-success",
    levels=(0.3, 0.5),
)

_PRESETS: Final = (
    Preset(
        "scav",
        "SCAV (ECCV 2026), frame-wise",
        "The rule is not in the paper; its numbers fit minmax-0.5.",
        empty_truth="left-out",
    ),
    Preset("scav-source-wise", "SCAV (ECCV 2026), appendix, source-wise", domain="cropped", empty_truth="left-out"),
    Preset(
        "lvs",
        "LVS (CVPR 2021), hche11/Localizing-Visual-Sounds-the-Hard-Way",
        "Made for one source in one frame.",
        rule="median-strict",
        precision=None,
        levels=(0.5,),
    ),
    Preset(
        "ez-vsl",
        "EZ-VSL (ECCV 2022), stoneMo/EZ-VSL",
        "Made for one source in one frame. Its AVL+OGL row scores 0.4 x the similarity + 0.6 x an object map.",
        align_corners=True,
        rule="median",
        precision=None,
        levels=(0.5,),
    ),
    _SLAVC,
    replace(
        _SLAVC,
        name="slavc-relative",
        origin=f"{_SLAVC.origin}, --relative_prediction",
        note="As slavc, with each map's median as threshold.",
        rule="median",
    ),
    Preset(
        "avgn",
        "AVGN (CVPR 2023), stoneMo/AVGN, validate_multi",
        "The model sees one source's frame at a time. PIAP takes the binarised map as truth and the truth as score.",
        call="single-frames",
        domain="frame",
        upsampling="bicubic",
        rule="median",
        matching="given",
        precision="swapped",
        meaning="success-above",
        levels=(0.1, 0.3),
    ),
    Preset(
        "noprior",
        "NoPrior (CVPR 2024), VisualAIKHU/NoPrior_MultiSSL",
        "Each map in turn takes the frame it fits best; a scene may have any number of maps, missing and surplus ones "
        "being misses. Average precision is that of the binarised map.",
        domain="frame",
        upsampling="bicubic",
        rule="median-strict",
        flat_is_empty=True,
        matching="greedy",
        policy="zero",
        surplus_misses=True,
        precision="binary",
        levels=(0.3, 0.5),
    ),
    _DSOL,
    replace(
        _DSOL,
        name="dsol-synthetic",
        origin="DSOL (NeurIPS 2020), DTaoo/Discriminative-Sounding-Objects-Localization, MUSIC-Synthetic",
        note="As dsol, with half of the maximum as threshold.",
        rule="max-fraction-0.5-strict",
    ),
    replace(
        _DSOL,
        name="coarse-to-fine",
        origin="CoarseToFine (ECCV 2020), shvdiwnkozbw/Multi-Source-Sound-Localization, AudioSet",
        rule="max-fraction-0.1-strict",
        levels=(0.5,),
    ),
    Preset(
        "t-vsl",
        "T-VSL (CVPR 2024), enyac-group/T-VSL",
        "0.3 is where maps are binarised; CIoU@0.3 is then the mean IoU. The order of the maps is known from class "
        "texts. Its network's maps are low on the object and turned over first; give maps that are high on the object.",
        upsampling="bicubic",
        rule="minmax-0.3",
        matching="given",
        meaning="mean-iou",
        levels=(0.3,),
    ),
    Preset(
        "jsa",
        "JSA (CVPR 2025), joint slot attention, InhoKim429",
        "Made for one source in one frame.",
        upsampling="bicubic",
        rule="minmax-0.6",
        precision=None,
        levels=(0.5,),
    ),
)
PRESETS: Final = {preset.name: preset for preset in _PRESETS}


def find_preset(name: str) -> Preset:
    """The preset of a name.

    Raises:
        ConfigError: There is none; the remedy lists those there are.
    """
    if name not in PRESETS:
        raise ConfigError(f"There is no evaluation preset {name!r}.", f"Choose one of: {', '.join(PRESETS)}.")
    return PRESETS[name]


def score(maps: Tensor, truth: Tensor, preset: Preset, grid: Grid = (1, 2), scenes: Tensor | None = None) -> PairScores:
    """Score a batch of scenes as a preset does.

    Args:
        maps: Heatmaps of the picture at any resolution, shape (B, K, h, w), higher where it sounds; boolean maps are
            masks of the picture's size. For models called on single frames, map k of each frame, (B, K, F, h, w).
        truth: Sounding objects, shape (B, M, H, W), bool.
        preset: How to score.
        grid: Rows and columns of frames in the picture; unused where the preset's domain is the picture.
        scenes: Numbers of the scenes, shape (B,), int64; 0, 1 .. by default.

    Returns:
        One row per source that counts, and one per surplus map if the preset counts those.

    Raises:
        DataError: The shapes do not fit, or a map holds NaN or infinity.

    Example:
        >>> truth = torch.zeros(1, 2, 4, 8, dtype=torch.bool)
        >>> truth[0, 0, 1:3, 1:3] = truth[0, 1, 1:3, 5:7] = True
        >>> score(truth.flip(1).float(), truth, find_preset("scav")).iou  # maps come in no particular order
        tensor([1., 1.], dtype=torch.float64)
    """
    picture = (truth.shape[-2], truth.shape[-1])
    single_frames = maps.ndim == 5
    if single_frames and (preset.domain != "frame" or maps.shape[2] != grid[0] * grid[1]):
        raise DataError(
            f"Maps of shape {tuple(maps.shape)} hold one map per frame, which {preset.name} on a grid of "
            f"{grid[0]} x {grid[1]} frames cannot score.",
            "Give maps of the whole picture, shape (scenes, maps, height, width).",
        )
    if single_frames:
        maps = upsample(maps, (picture[0] // grid[0], picture[1] // grid[1]), preset)
        check_shapes(maps[:, :, 0], truth[..., : maps.shape[-2], : maps.shape[-1]])
    else:
        maps = upsample(maps, picture, preset)
        check_shapes(maps, truth)

    if preset.domain == "picture":
        different = maps[:1] if maps.stride(0) == 0 else maps  # the same maps for all scenes are binarised once
        binary = binarise(different, preset.rule).expand(maps.shape)[:, :, None]
        views, own = maps[:, :, None], truth
    else:
        frames = frame_of_source(truth, grid)
        own = crop_own(truth, frames, grid)
        views = pick(maps, frames) if single_frames else crop(maps, frames, grid)
        cropped = preset.domain == "cropped"
        binary = crop(binarise(maps, preset.rule), frames, grid) if cropped else binarise(views, preset.rule)
    if preset.flat_is_empty and views.dtype != torch.bool:
        binary = binary & torch.from_numpy(~kernels.flat(to_numpy(views)))[..., None, None]
    pairs = score_views(
        views,
        binary,
        own,
        matching=preset.matching,
        policy=preset.policy,
        precision=preset.precision,
        empty_truth=preset.empty_truth,
    )
    if preset.surplus_misses:
        surplus = (maps.shape[1] - torch.bincount(pairs.scene, minlength=len(truth))).clamp_min(0)
        pairs = concatenate([pairs, _misses(torch.arange(len(truth)).repeat_interleave(surplus))])
    return pairs if scenes is None else replace(pairs, scene=scenes.cpu()[pairs.scene])


def summarise_as(pairs: PairScores, preset: Preset) -> dict[str, float]:
    """The figures a preset reports; see `summarise`."""
    return summarise(pairs, preset.levels, preset.meaning)


def upsample(maps: Tensor, size: tuple[int, int], preset: Preset) -> Tensor:
    """Maps (..., h, w) at `size`, interpolated as the preset does; maps of that size already are left alone.

    The peers interpolate in float32, whose rounding decides which pixels tie with a threshold, and so does this. But
    where a map is flat, rounding would rank pixels that are equal: there, they keep the value of their cell.
    """
    if maps.shape[-2:] == size or maps.dtype == torch.bool:
        return maps
    cells = maps.flatten(0, -3)[:, None].float()
    resized = _interpolate(cells, size, preset)
    pixels, whose = _always_own((maps.shape[-2], maps.shape[-1]), size, preset)
    resized.view(len(cells), -1)[:, pixels] = cells.flatten(1)[:, whose]
    # elsewhere a map is flat only if two cells side by side are equal
    beside = [(cells.diff(dim=axis) == 0).flatten(1).any(1) for axis in (-2, -1)]
    flat = torch.logical_or(*beside)
    if flat.any():
        own = F.interpolate(cells[flat], size=size, mode="nearest-exact")
        exact = _interpolate(cells[flat].double(), size, preset).float()
        resized[flat] = torch.where(exact == own, own, resized[flat])
    return resized.reshape(*maps.shape[:-2], *size)


def _interpolate(cells: Tensor, size: tuple[int, int], preset: Preset) -> Tensor:
    return F.interpolate(cells, size=size, mode=preset.upsampling, align_corners=preset.align_corners)


@lru_cache
@torch.inference_mode(False)  # kept for later calls
def _always_own(cells: tuple[int, int], size: tuple[int, int], preset: Preset) -> tuple[Tensor, Tensor]:
    """The pixels that have the value of their own cell whatever the others are, such as corners, and these cells."""
    count = cells[0] * cells[1]
    numbers = torch.arange(count, dtype=torch.float64).reshape(1, 1, *cells)
    whose = F.interpolate(numbers, size=size, mode="nearest-exact").flatten().long()
    values = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    strayed = _interpolate(values.reshape(1, 1, *cells), size, preset).flatten() - values[whose]
    pixels = (strayed.abs() < 1e-12).nonzero()[:, 0]
    return pixels, whose[pixels]


def _misses(scene: Tensor) -> PairScores:
    """Pairs without a source that score 0, shape (N,) each."""
    none, zero = torch.full_like(scene, -1), torch.zeros(len(scene), dtype=torch.float64, device=scene.device)
    return PairScores(scene=scene, source=none, prediction=none, iou=zero, ap=zero, pointing=zero, leakage=zero)
