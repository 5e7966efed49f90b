"""The paper's qualitative figure: the truth, one column for each other method, one for each map of the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image as Pillow

from soundwhere.errors import ConfigError
from soundwhere.files import atomic_path
from soundwhere.media.draw import SOURCE_COLOURS, contact_sheet, outline, overlay, source_colour
from soundwhere.media.image import resize
from soundwhere.models.similarity import normalise_range

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.evaluation.answerers import Method
    from soundwhere.types import Image, Scene


def write_figure(path: Path, scenes: Sequence[Scene], methods: Sequence[Method]) -> None:
    """Draw scenes, a row for each: picture with truth | A | B | ours 1 | ours 2.

    Args:
        path: The PNG.
        scenes: What is shown.
        methods: The last is shown map by map, the others with all their maps in one picture.
    """
    sheet = scene_sheet(scenes, methods)
    with atomic_path(path) as temporary:
        Pillow.fromarray(sheet).save(temporary)


def scene_sheet(
    scenes: Sequence[Scene], methods: Sequence[Method], *, apart: bool = True, height_px: int | None = None
) -> Image:
    """The rows of all scenes as one picture.

    Args:
        scenes: What is shown.
        methods: A column each.
        apart: Show the last of them map by map, in as many columns. Otherwise it stands first, beside the truth: of
            many columns one sees the first few.
        height_px: Height of every picture, if not its own.
    """
    rows = [scene_pictures(scene, methods, apart=apart) for scene in scenes]
    if height_px is not None:
        rows = [[(_at_height(picture, height_px), text) for picture, text in row] for row in rows]
    return contact_sheet([[one for one, _ in row] for row in rows], [[text for _, text in row] for row in rows])


def scene_pictures(scene: Scene, methods: Sequence[Method], *, apart: bool = True) -> list[tuple[Image, str]]:
    """The pictures of one row with their captions."""
    pictures = [(with_truth(scene), f"{scene.name}: {', '.join(scene.kinds) or 'truth'}")]
    for method in methods[:-1] if apart else [methods[-1], *methods[:-1]]:
        pictures.append((overlay(scene.image, stretched(scene, method)), method.label))
    if not apart:
        return pictures
    last = methods[-1]
    for number, heat in enumerate(stretched(scene, last)):
        picture = overlay(scene.image, heat[None], [source_colour(number)[1]])
        pictures.append((picture, f"{last.label}, source {number + 1}"))
    return pictures


def with_truth(scene: Scene) -> Image:
    """The picture with each sounding object outlined in the colour of its number."""
    picture = scene.image
    for mask, colour in zip(scene.masks, SOURCE_COLOURS.values(), strict=False):
        picture = outline(picture, mask, colour)
    return picture


def _at_height(picture: Image, height_px: int) -> Image:
    height, width = picture.shape[:2]
    return resize(picture, (height_px, max(1, round(width * height_px / height))))


def stretched(scene: Scene, method: Method) -> NDArray[np.float32]:
    """A method's maps of a scene, each stretched to [0, 1] as in scoring, shape (K, h, w)."""
    return normalise_range(method.own([scene])[0].float()).numpy()


def find_scenes(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The places of scenes by name.

    Raises:
        ConfigError: There is no such scene.
    """
    places = {name: place for place, name in enumerate(names)}
    unknown = [name for name in wanted if name not in places]
    if unknown:
        raise ConfigError(
            f"There is no scene {unknown[0]!r} among the {len(names)} that were scored.",
            f"They are called, for example: {', '.join(names[:3])}.",
        )
    return [places[name] for name in wanted]
