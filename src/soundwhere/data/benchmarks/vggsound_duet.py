"""VGGSound-Duet: two VGG-SS clips side by side, with boxes or with masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.data.annotation.masks import MaskFile, find_masks
from soundwhere.data.annotation.records import find_annotation
from soundwhere.data.benchmarks.pairs import Pair, PairedClips, duet_benchmark, read_pairs
from soundwhere.data.benchmarks.vggss import VGGSS

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.benchmarks.media import MediaFolder
    from soundwhere.data.benchmarks.scenes import Benchmark, Level, Shot

DUET_FILE: Final = "avgn/vggsound_duet_test.csv"
_AVGN: Final = "github.com/stoneMo/AVGN"


class VGGSoundDuet:
    """VGGSound-Duet and VGGSound-Duet-Mask: pairs of VGG-SS clips, frames side by side (224 x 448), sounds summed.

    | | |
    |---|---|
    | pairs published | 5 158, each VGG-SS clip once on the left; 3 255 distinct partners on the right |
    | classes | 221 in the file; the paper says 220 |
    | pairs of one class | 22, counted and kept |
    | accessible | 4 390 of 5 158 clips and 3 951 pairs, by the SCAV paper (October 2025); its list is not published |

    The truth of each frame is its own clip's: AVGN's released evaluation looks up the partner's boxes instead, which is
    not copied. With masks (VGGSound-Duet-Mask) it is `<clip>.pkl`, `.png`, `.npz` or `.json` in a folder; the authors
    publish pickled uint8 arrays of the frame's size, 1 where it sounds, made with SAM and checked by hand.

    Pairings: `published` (all of the list; a pair with missing media is reported as missing), `accessible` (those of
    the list whose two clips are there), `random` (each clip that is there with one of another class, by seed), or a
    list that `Benchmark.write_list` saved.

    A constant pair of blobs (sigma 70 px) scores CAP 60.4, CIoU@0.1 89.3, CIoU@0.3 61.8, AUC 37.1 on all 5 158 pairs
    of boxes: read no score here without it.

    Licence: list Apache-2.0 (AVGN), boxes Apache-2.0 (LVS); masks by their authors; videos belong to their uploaders.

    Citation: S. Mo, Y. Tian. Audio-Visual Grouping Network for Sound Localization from Mixtures. CVPR 2023. Masks: the
    SCAV paper, ECCV 2026.

    Args:
        annotations: Folder with `lvs/vggss.json` and `avgn/vggsound_duet_test.csv`.

    Raises:
        DataError: A file is missing or malformed.
    """

    def __init__(self, annotations: Path) -> None:
        self._annotations = annotations
        self.vggss = VGGSS(annotations)
        self.kinds = {name: clip.kind for name, clip in self.vggss.clips.items()}

    def published(self) -> list[Pair]:
        """The published list, whose classes must be those of VGG-SS."""
        return read_pairs(find_annotation(self._annotations, DUET_FILE, _AVGN), self.kinds)

    def benchmark(
        self,
        media: MediaFolder | None,
        *,
        masks: Path | None = None,
        pairing: str = "published",
        seed: int = 0,
        level: Level = "as-recorded",
    ) -> Benchmark:
        """Scenes of two sources, 224 x 448.

        Args:
            media: Where the clips are.
            masks: Folder of masks; without, boxes are the truth.
            pairing: How pairs are chosen.
            seed: Of the random pairing.
            level: How loud each sound is.
        """
        truths = {} if masks is None else find_masks(masks, self.kinds)

        def shot(name: str) -> Shot:
            clip, path = self.vggss.clips[name], truths.get(name)
            return clip.shot() if path is None else clip.shot(MaskFile(path))

        def lacking(name: str) -> str:
            return f"no mask {name}" if masks is not None and truths[name] is None else ""

        return duet_benchmark(
            "vggsound-duet" if masks is None else "vggsound-duet-mask",
            PairedClips(self.kinds, DUET_FILE, self.published, shot, lacking),
            media,
            truth="boxes" if masks is None else "masks",
            pairing=pairing,
            seed=seed,
            level=level,
            findings=self.vggss.findings,
        )
