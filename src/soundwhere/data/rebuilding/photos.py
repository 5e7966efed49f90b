"""A photo of a set, and its mask, from a source's own file."""

from __future__ import annotations

from io import BytesIO
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps

from soundwhere.data.annotation.rle import decode_rle
from soundwhere.data.rebuilding.lists import print_of, whole_of
from soundwhere.data.rebuilding.photo_prints import SAME_PHOTO, photo_distance, photo_print
from soundwhere.errors import DataError, SoundwhereError
from soundwhere.files import is_file, write_bytes
from soundwhere.media.encoded import encode_jpeg
from soundwhere.media.image import read_image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.data.rebuilding.folders import Folder
    from soundwhere.data.rebuilding.sources import Source
    from soundwhere.data.table import Row
    from soundwhere.types import Image

JPEG_QUALITY: Final = 85
"""Of the photos of the sets, as their quantisation tables tell."""
VOC_CLASSES: Final = (
    *("background", "airplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""In the order of VOC's palette, as the sets call them; 255 is what nobody decided on, and belongs to no mask."""
_SHAPE_PX = 2  # by which a photo's longer side may differ from the one listed
_SHARE = 0.01  # by which a mask's share of the photo may


def is_made(row: Row, out: Path) -> bool:
    """Whether a photo is there, as its fingerprint says, and its mask."""
    path = row.inside(row["image"], out)
    if not is_file(path) or (row["mask"] and not is_file(row.inside(row["mask"], out))):
        return False
    try:
        return photo_distance(photo_print(read_image(path)), print_of(row)) <= SAME_PHOTO
    except SoundwhereError:  # damaged since: it is made again
        return False


def make_photo(row: Row, path: Path, folder: Folder, name: str, out: Path) -> float:
    """Write a photo and its mask, the mask first.

    Args:
        row: Of the list of photos.
        path: The source's file.
        folder: The source's folder.
        name: What the tables call the file.
        out: Folder of the set.

    Returns:
        The distance of the photo from its fingerprint.

    Raises:
        SoundwhereError: The file is damaged, or not the photo that was used, or its mask cannot be made.
    """
    size = whole_of(row, "width"), whole_of(row, "height")
    listed = print_of(row)
    views = ((view, photo_distance(photo_print(view), listed)) for view in _views(path))
    picture, distance = min(views, key=itemgetter(1))
    if distance > SAME_PHOTO:
        raise another_version(path, folder.source, f"{distance:.0%} of its fingerprint differs, not {SAME_PHOTO:.0%}")
    height, width = picture.shape[:2]
    scale = min(size) / min(height, width)
    if abs(scale * width - size[0]) > _SHAPE_PX or abs(scale * height - size[1]) > _SHAPE_PX:
        raise another_version(path, folder.source, f"{width} x {height} is not the shape of {size[0]} x {size[1]}")
    if row["mask"]:
        mask = _derived(row, size) if row["runs"] else _human(row, folder, name, size)
        file = BytesIO()
        Pillow.fromarray(mask).convert("1").save(file, "PNG")
        write_bytes(row.inside(row["mask"], out), file.getvalue())
    small = np.array(Pillow.fromarray(picture).resize(size, Pillow.Resampling.LANCZOS))
    write_bytes(row.inside(row["image"], out), encode_jpeg(small, JPEG_QUALITY))
    return distance


def another_version(path: Path, source: Source, why: str) -> DataError:
    """What to say of a file that is not what was used."""
    return DataError(f"{path} is not what was used: {why}.", f"Is this another version of {source.title}?")


def _views(path: Path) -> Iterator[Image]:
    """A picture in each way it can be shown: transparent parts over black, white or what lies beneath; turned or not.

    Nearly all pictures can be shown in one way only.
    """
    yield read_image(path)
    with Pillow.open(path) as file:
        turned = ImageOps.exif_transpose(file)
        if file.has_transparency_data:
            picture = turned.convert("RGBA")
            white = Pillow.new("RGBA", picture.size, "white")
            yield np.array(Pillow.alpha_composite(white, picture).convert("RGB"))
            yield np.array(turned.convert("RGB"))
        if turned.size != file.size or file.getexif().get(0x0112, 1) != 1:
            yield np.array(file.convert("RGB"))


def _derived(row: Row, size: tuple[int, int]) -> NDArray[np.bool_]:
    return decode_rle({"size": [size[1], size[0]], "counts": row["runs"]}, row.place)


def _human(row: Row, folder: Folder, name: str, size: tuple[int, int]) -> NDArray[np.bool_]:
    """All pixels that VOC gives to a photo's class, at the photo's new size."""
    path = folder.root / "SegmentationClass" / f"{name}.png"
    if row["class"] not in VOC_CLASSES:
        raise DataError(f"{row.place}: VOC has no class {row['class']!r}.", "Make the lists again.")
    try:
        with Pillow.open(path) as file:
            if file.mode not in ("P", "L"):
                raise another_version(path, folder.source, f"its pixels are colours ({file.mode}), not classes")
            indices = np.asarray(file.resize(size, Pillow.Resampling.NEAREST))
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing.", "Unpack all of VOC2012, with its segmentations.") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path} is cut short or damaged ({error}).", "Unpack or download it again.") from error
    mask: NDArray[np.bool_] = indices == VOC_CLASSES.index(row["class"])
    if abs(float(mask.mean()) - float(row["mask_frac"] or 0)) > _SHARE:
        raise another_version(path, folder.source, f"the mask covers {mask.mean():.3f} of it, not {row['mask_frac']}")
    return mask
