import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from soundwhere.media.draw import SOURCE_COLOURS, contact_sheet, heatmap_image, outline, overlay

COLOURS = list(SOURCE_COLOURS.values())


def picture(height=30, width=50):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


@given(sources=st.integers(0, 9), height=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 99))
def test_overlay_agrees_with_a_plain_loop(sources, height, width, seed):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width, 3), np.uint8)
    heat = rng.random((sources, height, width)).astype(np.float32)
    drawn = overlay(image, heat)
    for y, x in {(0, 0), (height - 1, width - 1), (height // 2, width // 3)}:
        total = max(1.0, sum(heat[k, y, x] for k in range(sources)))
        pixel = image[y, x].astype(float)
        for k in range(sources):
            pixel += 0.7 * heat[k, y, x] / total * (np.array(COLOURS[k % len(COLOURS)], float) - image[y, x])
        np.testing.assert_allclose(drawn[y, x], pixel, atol=1.6)  # colour and opacity are rounded to bytes


def test_cold_pictures_stay_as_they_are():
    np.testing.assert_array_equal(overlay(picture(), np.zeros((2, 30, 50))), picture())
    np.testing.assert_array_equal(overlay(picture(), np.full((1, 30, 50), np.nan)), picture())
    np.testing.assert_array_equal(overlay(picture(), np.full((1, 30, 50), -3.0)), picture())


def test_the_order_of_sources_does_not_matter():
    heat = np.random.default_rng(1).random((2, 30, 50))
    forth = overlay(picture(), heat, COLOURS[:2]).astype(int)
    back = overlay(picture(), heat[::-1], COLOURS[1::-1]).astype(int)
    assert np.abs(forth - back).max() <= 1


def test_small_maps_are_enlarged():
    heat = np.zeros((1, 3, 5))
    heat[0, 1, 4] = 1
    heat[0, 0, 0] = np.nan
    change = np.abs(overlay(np.zeros((30, 50, 3), np.uint8), heat).astype(int)).sum(-1)
    assert np.unravel_index(change.argmax(), change.shape)[0] in range(10, 20)
    assert change[:, 40:].max() == change.max()
    assert change[:10, :10].max() == 0


def test_overlay_keeps_up_with_video():
    image, heat = picture(720, 1280), np.random.default_rng(0).random((2, 720, 1280), np.float32)

    def blend():
        """What mixing in a single colour costs, written plainly."""
        (image * (1 - heat[0, ..., None]) + np.array([255.0, 0, 0]) * heat[0, ..., None]).astype(np.uint8)

    def spent(work):
        start = time.thread_time()
        work()
        return time.thread_time() - start

    # in turns: however busy the machine is, both have the same; usually it is less than twice as much
    turns = [(spent(lambda: overlay(image, heat)), spent(blend)) for _ in range(7)]
    assert min(ours for ours, _ in turns) < 8 * min(plain for _, plain in turns)


def test_source_colours_differ_for_everyone():
    assert list(SOURCE_COLOURS)[:2] == ["orange", "blue"]
    rgb = np.array(COLOURS, float)
    distances = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1)[~np.eye(len(rgb), dtype=bool)]
    assert distances.min() > 60
    # what remains without red or green cones: the mean of red and green, and blue
    blind = np.stack([rgb[:, :2].mean(1), rgb[:, 2]], -1)[:2]
    assert np.linalg.norm(blind[0] - blind[1]) > 100


def test_the_colour_ramp_grows_lighter_evenly():
    ramp = heatmap_image(np.linspace(0, 1, 256)[None])[0] / 255
    linear = np.where(ramp <= 0.04045, ramp / 12.92, ((ramp + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    lightness = np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance)  # CIE L*
    assert lightness[0] < 10
    assert lightness[-1] > 88
    steps = np.diff(lightness[::8])
    assert steps.min() > 1
    assert steps.max() < 5


def test_heatmap_image_survives_anything():
    drawn = heatmap_image(np.array([[np.nan, -1.0, 0.0], [1.0, 2.0, np.inf]]))
    assert drawn.shape == (2, 3, 3)
    assert (drawn[0] == drawn[0, 0]).all()
    assert (drawn[1] == drawn[1, 0]).all()


def test_outline_lies_just_outside():
    mask = np.zeros((300, 400), bool)
    mask[50:200, 100:300] = True
    image = picture(300, 400) // 2
    drawn = outline(image, mask, (255, 0, 255))
    changed = (drawn != image).any(-1)
    expected = ndimage.binary_dilation(mask, np.ones((3, 3)), iterations=2) & ~mask
    np.testing.assert_array_equal(changed, expected)
    assert (drawn[changed] == (255, 0, 255)).all()
    np.testing.assert_array_equal(outline(image, np.zeros_like(mask)), image)


def test_contact_sheet_holds_every_picture():
    images = [np.full((20 + 5 * i, 60 - 10 * i, 3), 40 * i, np.uint8) for i in range(4)]
    sheet = contact_sheet([images[:3], images[3:]], [["one", "a caption far too long for it", "three"], ["four"]])
    for i, image in enumerate(images):
        assert ((sheet == 40 * i).all(-1)).sum() >= image.shape[0] * image.shape[1] * (0.9 if i else 1)
    plain = contact_sheet([images[:3], images[3:]])
    assert plain.shape[1] == sheet.shape[1]
    assert plain.shape[0] < sheet.shape[0]
    with pytest.raises(ValueError, match="needs a picture"):
        contact_sheet([])
