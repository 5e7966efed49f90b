"""Fixtures shared by every room."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
torch.set_num_threads(1)  # small tensors: a second thread costs more than it gives, most of all on a busy machine


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real clips, annotations and weights that are never part of the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the real clips and weights in {folder.name}/ beside the repository")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """A Chromium to drive; without one browser tests are skipped, or fail where CI asks for them."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "needs Chromium; install it with your system's package manager"
        if os.environ.get("SOUNDWHERE_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def clip_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of a white square moving right over grey, 96 x 64 at 10 fps, with a 440 Hz tone: H.264 and AAC in mp4."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    tone = (0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * 22_050) / 22_050)).astype(np.float32)
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=10, width=96, height=64, pix_fmt="yuv420p")
        audio = container.add_stream("aac", rate=22_050, layout="mono")
        for index in range(20):
            picture = np.full((64, 96, 3), 80, np.uint8)
            picture[24:40, 4 * index : 4 * index + 16] = 255
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(video.encode(frame))
        sound = av.AudioFrame.from_ndarray(tone[None], format="fltp", layout="mono")
        sound.sample_rate, sound.pts, sound.time_base = 22_050, 0, Fraction(1, 22_050)
        container.mux(audio.encode(sound))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return path


@dataclass(frozen=True)
class Recording:
    """What the published code of a method gave: inputs, weights (`w.`), maps, losses and gradients, in float64."""

    method: str
    arrays: Mapping[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.arrays[name]

    def weights(self, prefix: str = "w.") -> dict[str, Tensor]:
        """Weights under the names they have in published checkpoints."""
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}

    def leaves(self, *names: str) -> list[Tensor]:
        """Arrays to take gradients with respect to."""
        return [self.arrays[name].clone().requires_grad_(True) for name in names]

    def agree(self, tolerance: float = 1e-6, **found: Tensor) -> None:
        """Assert that tensors are what was recorded under their names, relative to its largest magnitude."""
        wrong = {}
        for name, tensor in found.items():
            expected = self.arrays[name].double()
            error = float("inf")
            if tensor.shape == expected.shape:
                largest = expected.abs().max().clamp_min(1e-12)
                error = float((tensor.detach().double() - expected).abs().max() / largest)
            self._note(name, error)
            if not error <= tolerance:
                wrong[name] = error
        assert not wrong, f"{self.method}: {wrong}"

    def agree_gradients(self, loss: Tensor, **leaves: Tensor) -> None:
        """Assert that the gradients of a loss are what was recorded, by their recorded names."""
        gradients = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
        self.agree(**dict(zip(leaves, gradients, strict=True)))

    def _note(self, name: str, error: float) -> None:
        """Add a line to the file that SOUNDWHERE_AGREEMENT names, of which the table in docs/rivals.md is made."""
        if os.environ.get("SOUNDWHERE_AGREEMENT"):
            with Path(os.environ["SOUNDWHERE_AGREEMENT"]).open("a", encoding="utf-8") as lines:
                lines.write(f"{self.method}\t{name}\t{error:.1e}\n")


@pytest.fixture(scope="session")
def oracle(shared: Path) -> Callable[[str], Recording]:
    """Recorded numbers of the published implementations, by name: `oracle("lvs")`."""

    def read(name: str) -> Recording:
        path = shared / "oracles" / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"needs the recorded numbers {path.name} in shared/oracles/ beside the repository")
        with np.load(path, allow_pickle=False) as arrays:
            tensors = {key: torch.from_numpy(np.asarray(arrays[key])) for key in arrays.files}
        return Recording(name, {key: t.double() if t.is_floating_point() else t for key, t in tensors.items()})

    return read
