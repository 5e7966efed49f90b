"""Picture files to arrays, and arrays to what the visual encoder expects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from soundwhere.constants import ENCODER_STRIDE_PX, FRAME_PX, IMAGENET_MEAN, IMAGENET_STD
from soundwhere.errors import MediaError
from soundwhere.media.container import check_file

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.types import Image

IMAGE_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
MOST_PIXELS: Final = 89_000_000  # more is a mistake or an attack: a small file can unpack to gigabytes
_LONGEST_SIDE = 8  # of a network's input, in short sides


def read_image(path: Path | str) -> Image:
    """Read a picture.

    The orientation a camera recorded is applied, transparent parts become black (as video players show them), 16-bit
    and floating-point values are scaled to 8 bits, of an animation the first frame is taken.

    Returns:
        RGB, shape (H, W, 3), uint8.

    Raises:
        MediaError: The file is missing, cut short, too large or not a picture.
    """
    path = Path(path)
    check_file(path)
    try:
        with Pillow.open(path) as file:
            width, height = file.size
            if width * height > MOST_PIXELS:
                raise Pillow.DecompressionBombError
            return _to_rgb(ImageOps.exif_transpose(file))
    except UnidentifiedImageError as error:
        raise MediaError(f"{path} is not a picture that can be read.", "Give a jpg, png, webp, bmp or tiff.") from error
    except Pillow.DecompressionBombError as error:
        limit = f"{MOST_PIXELS // 1_000_000} megapixels"
        raise MediaError(f"{path} is larger than {limit}.", "Scale it down first.") from error
    except PermissionError as error:
        raise MediaError(f"{path} cannot be read: permission denied.", "Ask its owner for permission.") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow raises on damage
        raise MediaError(f"{path} is cut short or damaged ({error}).", "Download or copy it again.") from error


def resize(image: Image, size: tuple[int, int]) -> Image:
    """Resize a picture bilinearly, averaging where it shrinks.

    Args:
        image: RGB, shape (H, W, 3), uint8.
        size: New (height, width).
    """
    height, width = size
    return np.array(Pillow.fromarray(image).resize((width, height), Pillow.Resampling.BILINEAR))


def normalise(images: NDArray[np.uint8] | Tensor) -> Tensor:
    """Prepare pictures for an encoder trained on ImageNet.

    Args:
        images: RGB, shape (..., H, W, 3), uint8, numpy or torch.

    Returns:
        Shape (..., 3, H, W), float32, ImageNet's mean subtracted and divided by its standard deviation.
    """
    import torch  # only here: a server that just reads pictures starts in a third of the time without it

    pixels = torch.as_tensor(images)
    planes = pixels.movedim(pixels.ndim - 1, pixels.ndim - 3)  # counted from the front, or exports are not valid
    pixels = planes.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    mean = torch.tensor(IMAGENET_MEAN, device=pixels.device).view(3, 1, 1)
    std = torch.tensor(IMAGENET_STD, device=pixels.device).view(3, 1, 1)
    return pixels.div_(255).sub_(mean).div_(std)


def network_size(
    height: int, width: int, short_px: int = FRAME_PX, stride_px: int = ENCODER_STRIDE_PX
) -> tuple[int, int]:
    """Size at which a picture is shown to the network: its shape kept as well as multiples of a stride allow.

    Args:
        height: Height of the picture.
        width: Width of the picture.
        short_px: Short side of the result, rounded to a multiple of the stride; the long side is at most 8 times that.
        stride_px: Pixels per cell of the encoder.

    Returns:
        (height, width), both multiples of the stride.

    >>> network_size(720, 1280)
    (224, 384)
    """
    short = max(1, round(short_px / stride_px))
    long = min(round(short * max(height, width) / min(height, width)), _LONGEST_SIDE * short)
    rows, columns = (short, long) if height <= width else (long, short)
    return rows * stride_px, columns * stride_px


def _to_rgb(file: Pillow.Image) -> Image:
    if file.mode.startswith("I"):  # 16 bits in one of Pillow's several spellings
        values = np.asarray(file).astype(np.int64).clip(0, 65535) >> 8
        file = Pillow.fromarray(values.astype(np.uint8))
    elif file.mode == "F":
        values = np.nan_to_num(np.asarray(file))
        file = Pillow.fromarray((values.clip(0, 255) * (255 if values.max() <= 1 else 1)).astype(np.uint8))
    if file.has_transparency_data:
        picture = file.convert("RGBA")
        file = Pillow.alpha_composite(Pillow.new("RGBA", picture.size, "black"), picture)
    return np.array(file.convert("RGB"))
