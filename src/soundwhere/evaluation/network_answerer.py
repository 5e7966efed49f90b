"""A network that is asked about scenes: as it is, under every control, and by whatever it offers of its own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere.config import to_dict
from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.controls import noise, nothing_for
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import Answer
from soundwhere.evaluation.reading import View, heard_apart
from soundwhere.evaluation.rows import FEATURE_NORM, KINDS, Control, Kind, Row
from soundwhere.media.image import normalise, resize
from soundwhere.methods.method import Given, Network
from soundwhere.metrics.baselines import feature_norm
from soundwhere.metrics.frames import Grid, cut, frame_of_source
from soundwhere.models.encoders.folded import folded
from soundwhere.models.recollection import remembering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from soundwhere.types import Scene, Waveform

GENERIC: Final[tuple[Control, ...]] = ("own", "shuffled", "silent", "blind")
NEGATIVE: Final[tuple[Control, ...]] = ("absent", "alone", "lone", "nothing")


class NetworkAnswerer:
    """A network: as it is, under every control, its eye alone, and whatever it offers as controls of its own.

    Each picture and each sound is shown to it once; networks with one and the same frozen eye share what it sees. What
    it `needs` besides is told it: the scene's own labels, and its number of sources, under every control; the separate
    sounds of what is heard.

    Args:
        label: What it is called in tables.
        network: In eval mode, with the weights it is to answer with.
        grid: Rows and columns of frames in the pictures.
        rows: What it answers as, instead of everything.
        maps: How many maps the norm of its visual features is cut into.
        single_frames: Show it one frame at a time, with the mixed sound.
        negatives: Also play it one sound alone, sounds of absent classes and noise.
    """

    def __init__(
        self,
        label: str,
        network: Network,
        grid: Grid = (1, 1),
        *,
        rows: Sequence[Row] | None = None,
        maps: int = 2,
        single_frames: bool = False,
        negatives: bool = False,
    ) -> None:
        self.label = label
        self.network = network
        self._senses = folded(network)
        self._grid = grid
        self._maps = maps
        self._single = single_frames
        self._offered = {control.name: control for control in network.offers}
        eye = network.eye
        self._eye = f"network {id(network)}" if eye is None else eye.name
        self._silence: dict[int, Tensor] = {}
        chosen = self._all_rows(negatives) if rows is None else rows
        self.rows = {row: self._kind(row) for row in chosen}

    def alone(self) -> NetworkAnswerer:
        """The same without any control."""
        rows = [Row(self.label)]
        return NetworkAnswerer(self.label, self.network, self._grid, rows=rows, single_frames=self._single)

    @property
    def identity(self) -> dict[str, Any]:
        """Its configuration and a digest of its weights."""
        return {
            "label": self.label,
            "model": to_dict(self.network.config),
            "weights": weights_digest(self.network),
            "maps": self._maps,
            "single_frames": self._single,
            "rows": list(map(str, self.rows)),
        }

    @torch.inference_mode()
    def answer(self, view: View) -> dict[Row, Answer]:
        """Its maps of each row."""
        with remembering(self._see(view, view.numbers, self._single)):
            answers: dict[Row, Answer] = {}
            for row in self.rows:
                answers[row] = self._swapped(view, row, answers) or self._answer(view, row)
            return answers

    @torch.inference_mode()
    def own(self, scenes: Sequence[Scene]) -> Tensor:
        """The maps of its first row, shape (B, K, h, w); maps of single frames are joined."""
        maps = self._answer(View.of(scenes), next(iter(self.rows))).maps
        if maps.ndim == 4:
            return maps
        lines = maps.chunk(self._grid[0], dim=2)
        return torch.cat([torch.cat(line.unbind(2), dim=-1) for line in lines], dim=-2)

    def _all_rows(self, negatives: bool) -> list[Row]:
        own = Row(self.label)
        rows = [own.under(control) for control in GENERIC]
        if self._sees_features():
            rows.append(Row(self.label, answer=FEATURE_NORM))
        for control in () if self._single else self._offered.values():
            offered = Row(self.label, answer=control.name)
            rows += [offered] if control.kind == "solo" else [offered, offered.under("shuffled")]
        if not negatives:
            return rows
        framed = self._grid != (1, 1) and not self._single
        return [*rows, *(own.under(control) for control in NEGATIVE if control != "lone" or framed)]

    @torch.inference_mode()
    def _sees_features(self) -> bool:
        """Whether what is seen is features of cells (B, C, h, w), which have a norm: a method may see as it likes."""
        side = self.network.config.frame_px
        return self.network.see(torch.zeros(1, 3, side, side, device=self.network.device)).ndim == 4

    def _kind(self, row: Row) -> Kind:
        if row.control != "own" or not row.answer:
            return KINDS[row.control]
        if row.answer == FEATURE_NORM:
            return "image-only"
        return self._offered[row.answer].kind if row.answer in self._offered else "training-free"

    def _answer(self, view: View, row: Row) -> Answer:
        if row.answer == FEATURE_NORM:
            seen = self._see(view, view.numbers, single=False)
            cells = self.network.visual_features(seen)
            return Answer(feature_norm(cells, *view.size, self._grid, self._maps).float().cpu())
        numbers = view.partners if row.control == "blind" else view.numbers
        seen = self._see(view, numbers, self._single)
        if row.control == "lone":
            return self._look_at_one(view)
        if not row.answer:
            return self._localise(view, seen, numbers, row.control)
        offered = self._offered.get(row.answer)
        if offered is not None and offered.kind == "solo":
            return Answer(self._solos(view, seen, row.answer))
        heard = self._hear(view, row.control)
        if offered is None:  # one of the maps that are worth looking at while it trains
            return Answer(self.network.views(seen, heard)[row.answer].float().cpu())
        maps = offered.answer(self.network, seen, heard, self._grid)
        return Answer((self._sharpened(view, numbers, maps) if offered.sharp else maps).float().cpu())

    def _swapped(self, view: View, row: Row, answers: dict[Row, Answer]) -> Answer | None:
        """The answer to the partner's picture, where the partner was shown with this sound: its audio was shuffled."""
        known = answers.get(row.under("shuffled"))
        if row.control != "blind" or row.answer or self.network.needs or known is None or known.confidence is None:
            return None
        meets = dict(zip(view.numbers, view.partners, strict=True))
        if any(meets.get(other) != number for number, other in meets.items()):
            return None
        places = [view.numbers.index(other) for other in view.partners]
        return Answer(known.maps[places], known.confidence[places])

    def _localise(self, view: View, seen: Tensor, numbers: Sequence[int], control: Control) -> Answer:
        frames = seen.shape[1] if self._single else 1
        if self._single:
            seen = seen.flatten(0, 1)
        heard = self._hear(view, control).repeat_interleave(frames, dim=0)
        number = len(view.scenes[0].masks) if "number" in self.network.needs else 0
        found = self.network.localise(seen, heard, number or None, self._given(view, control, frames))
        maps, confidence = found.similarity, found.confidence.float().cpu()
        if maps.ndim != 4 or len(maps) != len(heard) or 0 in maps.shape:
            raise DataError(
                f"The model {self.label} answers {len(heard)} scenes with maps of shape {tuple(maps.shape)}.",
                "A method answers with maps of shape (scenes, sources, height, width).",
            )
        maps = self._sharpened(view, numbers, maps).float().cpu()
        if self._single:
            maps = maps.reshape(-1, frames, *maps.shape[1:]).movedim(1, 2)
            confidence = confidence.reshape(len(view.numbers), -1)
        return Answer(maps, confidence)

    def _sharpened(self, view: View, numbers: Sequence[int], maps: Tensor) -> Tensor:
        if type(self.network).sharpen is Network.sharpen:  # most leave maps as they are and need no picture again
            return maps
        return self.network.sharpen(maps, self._pictures(view, numbers, self._single).flatten(0, 1))

    def _look_at_one(self, view: View) -> Answer:
        """The frame of the sound that is heard alone, and no other."""

        def see(number: int, frame: int) -> Tensor:
            def look(scenes: list[Scene]) -> Tensor:
                return self._senses.see(self._normalised(scenes, view.size, single=True)[:, frame])

            return view.recall(("lone", self._eye, self._size(view.size)), [number], look)

        held = frame_of_source(view.truth, self._grid)
        frames = [int(each[number % len(each)]) for number, each in zip(view.numbers, held, strict=True)]
        seen = torch.cat([see(number, frame) for number, frame in zip(view.numbers, frames, strict=True)])
        number = 1 if "number" in self.network.needs else None
        found = self.network.localise(seen, self._hear(view, "lone"), number, self._given(view, "lone", 1))
        return Answer(found.similarity.float().cpu(), found.confidence.float().cpu())

    def _see(self, view: View, numbers: Sequence[int], single: bool) -> Tensor:
        """What is seen in pictures brought to the network's scale; of every single frame, shape (B, F, ...)."""

        def see(scenes: list[Scene]) -> Tensor:
            images = self._normalised(scenes, view.size, single)
            seen = self._senses.see(images.flatten(0, 1))
            return seen.reshape(*images.shape[:2], *seen.shape[1:]) if single else seen

        return view.recall(("seen", self._eye, self._size(view.size), single), numbers, see)

    def _pictures(self, view: View, numbers: Sequence[int], single: bool) -> Tensor:
        """The pictures that are seen, normalised, shape (B, F, 3, H, W); F is 1 for whole ones."""
        key = ("pictures", self._size(view.size), single)
        return view.recall(key, numbers, lambda scenes: self._normalised(scenes, view.size, single))

    def _normalised(self, scenes: list[Scene], shown: tuple[int, int], single: bool) -> Tensor:
        size = self._size(shown)
        pictures = [each.image if each.image.shape[:2] == size else resize(each.image, size) for each in scenes]
        images = normalise(np.stack(pictures)).to(self.network.device)
        return cut(images, self._grid).movedim(2, 1) if single else images[:, None]

    def _size(self, size: tuple[int, int]) -> tuple[int, int]:
        """The size at which frames have the size of the network's, in whole cells."""
        height, width = size
        scale = self.network.config.frame_px / min(height / self._grid[0], width / self._grid[1])
        stride = self.network.stride_px
        height, width = (max(1, round(side * scale / stride)) * stride for side in size)
        return height, width

    def _hear(self, view: View, control: Control) -> Tensor:
        if control == "silent":
            samples = view.scenes[0].sounds.shape[1]
            if samples not in self._silence:
                self._silence[samples] = self._senses.hear(torch.zeros(1, samples, device=self.network.device))
            silence = self._silence[samples]
            return silence.expand(len(view.numbers), *silence.shape[1:])

        if control in ("alone", "lone", "nothing"):
            hear = self._hear_nothing if control == "nothing" else self._hear_alone
            return torch.stack([hear(view, place) for place in range(len(view.numbers))])
        return self._hear_mixtures(view, _heard(view, control))

    def _hear_mixtures(self, view: View, numbers: Sequence[int]) -> Tensor:
        def hear(scenes: list[Scene]) -> Tensor:
            return self._heard_waves([scene.mixture for scene in scenes])

        return view.recall(("heard", id(self.network)), numbers, hear)

    def _hear_apart(self, view: View, number: int) -> Tensor:
        """Each sound of a scene alone, shape (S, ...)."""

        def hear(scenes: list[Scene]) -> Tensor:
            return self._heard_waves(list(scenes[0].sounds))[None]

        return view.recall(("heard apart", id(self.network)), [number], hear)[0]

    def _hear_alone(self, view: View, place: int) -> Tensor:
        """One sound of a scene, the first of one and the second of the next; its mixture if they are not apart."""
        number = view.numbers[place]
        if not heard_apart(view.scenes[place]):
            return self._hear_mixtures(view, [number])[0]
        sounds = self._hear_apart(view, number)
        return sounds[number % len(sounds)]

    def _hear_nothing(self, view: View, place: int) -> Tensor:
        """A sound of nothing that is seen in a scene; its own mixture if there is none."""
        number, other = view.numbers[place], view.absent[place]
        kind = nothing_for(number)
        if kind != "absent":
            return self._heard_waves([noise(kind, view.scenes[place].sounds.shape[1], number)])[0]
        if other is None:
            return self._hear_mixtures(view, [number])[0]
        sounds = self._hear_apart(view, other)
        return sounds[number % len(sounds)]

    def _heard_waves(self, waves: Sequence[Waveform]) -> Tensor:
        return self._senses.hear(torch.from_numpy(np.stack(waves)).to(self.network.device))

    def _given(self, view: View, control: Control, frames: int) -> Given | None:
        needs = self.network.needs
        if not needs:
            return None
        labels = [scene.kinds for scene in view.scenes for _ in range(frames)] if "labels" in needs else None
        if "sounds" not in needs:
            return Given(labels)
        sounds = [_apart(view.reader[number].scene, self.label) for number in _heard(view, control)]
        most = max(map(len, sounds))  # another scene may have more sources
        padded = np.stack([np.pad(each, ((0, most - len(each)), (0, 0))) for each in sounds])
        if control == "silent":
            padded = np.zeros_like(padded)
        return Given(labels, torch.from_numpy(padded).to(self.network.device).repeat_interleave(frames, dim=0))

    def _solos(self, view: View, seen: Tensor, answer: str) -> Tensor:
        """A map of each source's sound alone, shape (B, S, h, w); 0 where sounds are not apart."""
        found: dict[int, Tensor] = {}
        for place, scene in enumerate(view.scenes):
            if heard_apart(scene):
                heard = self._hear_apart(view, view.numbers[place])
                same = seen[place].expand(len(heard), *seen.shape[1:])
                found[place] = self._offered[answer].answer(self.network, same, heard, self._grid)
        if not found:
            return torch.zeros(len(view.scenes), len(view.scenes[0].masks), 1, 1)
        nothing = torch.zeros_like(next(iter(found.values())))
        return torch.stack([found.get(place, nothing)[:, 0] for place in range(len(view.scenes))]).float().cpu()


@torch.inference_mode()
def watched(network: Network) -> tuple[str, ...]:
    """The names of the maps of a network that are worth looking at beside its answer."""
    side = network.config.frame_px
    seen = network.see(torch.zeros(1, 3, side, side, device=network.device))
    return tuple(network.views(seen, network.hear(torch.zeros(1, CLIP_SAMPLES, device=network.device))))


def weights_digest(network: Network) -> str:
    """A digest of a network's weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _heard(view: View, control: Control) -> list[int]:
    """The scenes whose sound is heard; where no scene shares no class, the scene itself."""
    if control == "shuffled":
        return view.partners
    if control == "absent":
        return [own if other is None else other for own, other in zip(view.numbers, view.absent, strict=True)]
    return view.numbers


def _apart(scene: Scene, label: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    if len(scene.sounds) != len(scene.masks):
        raise DataError(
            f"The model {label} must be given separate sounds; the scene {scene.name} has {len(scene.masks)} sources "
            f"and {len(scene.sounds)} sounds.",
            "Choose a benchmark with a recording of each source, such as real-duet.",
        )
    return scene.sounds
