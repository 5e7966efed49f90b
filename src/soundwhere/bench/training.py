"""How fast the first stage of a method trains: part by part, and against a plain loop that encodes at every step."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image as Pillow

from soundwhere.bench.clock import WARM_UP, Clock
from soundwhere.constants import CLIP_SAMPLES, SOURCES
from soundwhere.data.clips import Clips
from soundwhere.data.draws import Example, batches
from soundwhere.data.features import FeatureCache
from soundwhere.data.layout import join
from soundwhere.data.mixtures import Mixtures
from soundwhere.data.synthetic.world import World
from soundwhere.files import make_folder, write_text
from soundwhere.media.audio import scale_to_rms, write_wav
from soundwhere.media.image import resize
from soundwhere.methods.catalogue import find_method
from soundwhere.methods.files import build
from soundwhere.methods.method import require_eye
from soundwhere.training.checkpoint import Progress
from soundwhere.training.loop import make_optimiser, run_stage
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from soundwhere.config import MethodConfig
    from soundwhere.data.clips import StoredClip
    from soundwhere.data.draws import Draws
    from soundwhere.methods.method import Network, Stage

_PICTURE_PX = 256  # of made clips: the size to which real photos are usually reduced
_RECORDING_S = 5.0


@dataclass(frozen=True)
class TrainingBench:
    """Speeds within one run.

    Attributes:
        parts: Scenes per second of each part of a step alone.
        ours: Scenes per second of this package's loop: recordings in memory, cached features.
        plain: Scenes per second of the loop that decodes and encodes at every step.
    """

    parts: dict[str, float]
    ours: float
    plain: float

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.ours / self.plain


class PlainDraws:
    """Duets as a plain loop draws them: two photos and two sounds decoded from disk for every scene.

    Args:
        clips: On disk.
        frame_px: Side to which each photo is squashed.
    """

    native = False

    def __init__(self, clips: Sequence[StoredClip], frame_px: int) -> None:
        self._clips = clips
        self._frame_px = frame_px

    def __len__(self) -> int:
        return len(self._clips)

    def draw(self, number: int, pictures: bool = True) -> Example:
        """Draw a scene; there is nothing but pictures."""
        assert pictures
        rng = np.random.default_rng([0, number])
        cast = [self._clips[index] for index in rng.choice(len(self._clips), SOURCES, replace=False)]
        frames = [resize(clip.image(), (self._frame_px, self._frame_px)) for clip in cast]
        sounds = []
        for clip in cast:
            recording = clip.recording()
            start = rng.integers(max(1, len(recording) - CLIP_SAMPLES + 1))
            window = recording[start : start + CLIP_SAMPLES]
            sounds.append(scale_to_rms(np.pad(window, (0, CLIP_SAMPLES - len(window)))))
        return Example(np.stack(sounds), image=join(frames, "side-by-side"))


def bench_training(
    clips: Sequence[StoredClip], config: MethodConfig, cache: Path, *, batch_size: int = 32, steps: int = 5
) -> TrainingBench:
    """Train stage 1 on duets in both ways, taking turns, so that a busy machine slows both; then time the parts.

    Both ways run the same code but for where scenes come from. What happens once per run (computing features, reading
    recordings into memory) is done before the clock starts, as is one step of each. Weights are random.

    Args:
        clips: On disk, at least as many as a duet needs.
        config: Of a model with a frozen visual encoder.
        cache: Folder for the features.
        batch_size: Scenes per step.
        steps: Steps that are timed.

    Raises:
        ConfigError: The visual encoder is trained, so that nothing can be cached.
    """
    torch.manual_seed(0)
    network = build(config).eval()
    eye = require_eye(network, config.name)
    stage = find_method(config.family).stages(config)[0]
    held = Clips(clips)
    features = FeatureCache(cache, eye.name, config.frame_px)
    features.fill(held, eye.encode)
    for index in range(len(held)):
        held.sound(index)
    plain_draws = PlainDraws(clips, config.frame_px)
    our_draws = Mixtures(held, batch_size=batch_size, seed=0, frame_px=config.frame_px, features=features)
    both: dict[str, Draws] = {"ours": our_draws, "plain": plain_draws}
    loops = {name: training_steps(deepcopy(network), stage, draws, batch_size) for name, draws in both.items()}
    clock = Clock()
    clock.take_turns(loops, steps)
    first = next(batches(plain_draws, range(1), batch_size))
    for step in range(steps + 1):
        with clock.time("decode" if step else WARM_UP):
            [plain_draws.draw(number) for number in range(batch_size)]
        with clock.time("loader" if step else WARM_UP):
            next(batches(our_draws, range(step, step + 1), batch_size))
        _time_parts(network, stage, first, clock if step else Clock())
    parts = clock.speeds(batch_size)
    ours, plain = parts.pop("ours"), parts.pop("plain")
    return TrainingBench(parts, ours, plain)


def write_clips(folder: Path, number: int) -> Path:
    """Write clips of the made-up world: a picture of one thing (JPEG) and 5 s of its sound (WAV) beside it.

    `clips.csv` lists them with their classes, as real-duet does.
    """
    make_folder(folder)
    world = World(0, (_PICTURE_PX, _PICTURE_PX), seconds=_RECORDING_S)
    lines = ["id,split,class,image,audio"]
    for index in range(number):
        scene = world.scene(index, 1, 0)
        lines.append(f"{scene.name},train,{scene.kinds[0]},{scene.name}.jpg,{scene.name}.wav")
        Pillow.fromarray(scene.image).save(folder / f"{scene.name}.jpg", quality=90)
        write_wav(folder / f"{scene.name}.wav", scene.mixture)
    write_text(folder / "clips.csv", "\n".join([*lines, ""]))
    return folder


def training_steps(network: Network, stage: Stage, draws: Draws, batch_size: int) -> Iterator[object]:
    """A stage of a method as `soundwhere train` runs it, a step at a time."""
    objective, schedule = stage.objective(network), stage.schedule
    feed = (batch for step in count() for batch in batches(draws, range(step, step + 1), batch_size))
    optimiser = make_optimiser(objective, schedule)
    return run_stage(objective, optimiser, feed, Progress(stage.name), 1 << 20, schedule, torch.device("cpu"))


def _time_parts(network: Network, stage: Stage, batch: Batch, clock: Clock) -> None:
    """Each part of a step alone, on one batch."""
    assert batch.image is not None
    objective = stage.objective(network)
    optimiser = make_optimiser(objective, stage.schedule)
    with clock.time("spectrogram"):
        spectrogram = network.spectrogram(batch.mixture)
    with clock.time("audio encoder, forward and backward"):
        torch.autograd.backward(network.embed(spectrogram).sum())
    with clock.time("visual encoder"), torch.no_grad():
        features = network.see(batch.image)
    with clock.time("loss on what is seen, forward and backward"):
        torch.autograd.backward(objective(Batch(batch.mixture, features=features, solos=batch.solos))["loss"])
    with clock.time("optimiser"):
        optimiser.step()
