import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from soundwhere.errors import MediaError
from soundwhere.media.image import network_size, normalise, read_image, resize


def picture(height=40, width=60):
    image = np.zeros((height, width, 3), np.uint8)
    image[: height // 2, : width // 3] = (250, 10, 20)  # red at the upper left
    image[height // 2 :, width // 2 :] = (10, 20, 250)  # blue at the lower right
    return image


def test_png_comes_back_as_it_was(tmp_path):
    Pillow.fromarray(picture()).save(tmp_path / "a.png")
    read = read_image(tmp_path / "a.png")
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, picture())
    read[0] = 0  # the array is the caller's own


@pytest.mark.parametrize("suffix", ["jpg", "webp", "bmp", "tiff"])
def test_other_formats(tmp_path, suffix):
    Pillow.fromarray(picture()).save(tmp_path / f"a.{suffix}")
    error = np.abs(read_image(tmp_path / f"a.{suffix}").astype(int) - picture())
    assert error.mean() < 5


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, orientation):
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    Pillow.fromarray(np.ascontiguousarray(undo(picture()))).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), picture())


def test_transparent_parts_are_black(tmp_path):
    rgba = np.full((4, 4, 4), 200, np.uint8)
    rgba[0, :, 3], rgba[1:, :, 3] = 0, 255
    Pillow.fromarray(rgba).save(tmp_path / "a.png")
    read = read_image(tmp_path / "a.png")
    assert (read[0] == 0).all()
    assert (read[1:] == 200).all()


def test_palette_with_a_transparent_colour(tmp_path):
    palette = Pillow.fromarray(np.array([[0, 1]], np.uint8), mode="P")
    palette.putpalette([255, 0, 0, 0, 255, 0])
    palette.save(tmp_path / "a.png", transparency=0)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), [[[0, 0, 0], [0, 255, 0]]])


@pytest.mark.parametrize("mode", ["L", "LA", "1", "P", "CMYK", "YCbCr"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    name = tmp_path / ("a.tiff" if mode in ("CMYK", "YCbCr") else "a.png")
    Pillow.fromarray(picture()).convert(mode).save(name)
    read = read_image(name)
    assert read.shape == (40, 60, 3)
    assert read[:20, :20].mean() > read[20:, :30].mean()  # the coloured corner is brighter than the black one


def test_sixteen_bits_and_floats_keep_their_brightness(tmp_path):
    ramp = np.linspace(0, 65535, 256).astype(np.uint16)[None].repeat(4, 0)
    Pillow.fromarray(ramp).save(tmp_path / "a.png")
    Pillow.fromarray((ramp / 65535).astype(np.float32)).save(tmp_path / "a.tiff")
    for name in ("a.png", "a.tiff"):
        np.testing.assert_allclose(read_image(tmp_path / name)[0, :, 1], np.arange(256), atol=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("hello"), "is not a picture"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path, make, words):
    make(tmp_path / "a.png")
    with pytest.raises(MediaError, match=words) as caught:
        read_image(tmp_path / "a.png")
    assert caught.value.remedy


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
def test_cut_short(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Pillow.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(MediaError, match="cut short or damaged"):
        read_image(path)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [10_000, 20_000, 60_000])
def test_decompression_bombs_are_not_unpacked(tmp_path, side):
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(1000))
    chunks = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (header, data, b"IEND")]
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(MediaError, match="megapixels"):
        read_image(tmp_path / "a.png")


def test_resize_averages_what_it_shrinks():
    checks = np.indices((64, 64)).sum(0)[..., None].repeat(3, -1) % 2 * 255
    small = resize(checks.astype(np.uint8), (8, 16))
    assert small.shape == (8, 16, 3)
    np.testing.assert_allclose(small, 127, atol=4)


def test_normalise_uses_imagenets_statistics():
    images = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), np.uint8)
    ours = normalise(images)
    reference = (images / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(ours, reference.transpose(0, 3, 1, 2), atol=1e-6)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(normalise(torch.from_numpy(images)), ours)
    torch.testing.assert_close(normalise(images[0]), ours[0])


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([96, 224, 448]))
def test_network_size_keeps_the_shape(height, width, short_px):
    rows, columns = network_size(height, width, short_px)
    assert rows % 32 == columns % 32 == 0
    assert min(rows, columns) == short_px
    ratio = max(height, width) / min(height, width)
    if ratio < 8:
        assert abs(max(rows, columns) - short_px * ratio) <= 16.001
    assert (rows <= columns) == (height <= width) or rows == columns
