"""VGGSound-Instruments: musical instruments with masks, single or in pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.data.annotation.findings import Findings
from soundwhere.data.annotation.masks import MaskFile, find_masks
from soundwhere.data.annotation.records import find_annotation, read_list
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.pairs import Pair, PairedClips, duet_benchmark, read_pairs
from soundwhere.data.benchmarks.scenes import Benchmark, Level, Record, Shot, assemble

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.benchmarks.media import MediaFolder

SINGLE_FILE: Final = "avgn/vgginstruments_test.csv"
PAIRS_FILE: Final = "avgn/vgginstruments_multi_test.csv"
_AVGN: Final = "github.com/stoneMo/AVGN"


class VGGSoundInstruments:
    """VGGSound-Instruments: frames of instruments with segmentation masks.

    | | |
    |---|---|
    | test | 446 frames with a mask each, `sample0000` to `sample0499` |
    | classes | 37 by its paper; the 446 frames are of 36 |
    | training | 32 k VGGSound clips; the authors' split is lost, so keep the 446 out of training yourself |
    | pairs | 446 in AVGN's list, none of one class, 255 distinct partners |

    Pairs are two frames side by side (224 x 448) with their sounds summed. The authors drew them at random and did not
    keep the list; AVGN's is the one in use. AVGN's released evaluation of it mixes no sounds; here they are mixed.

    The masks and the frames are a download of the authors (Mix-and-Localize), with the sample numbers as names: masks
    as `<sample>.pkl`, or converted to `.png`, `.npz` or `.json`, media as everywhere.

    Licence: lists Apache-2.0 (AVGN); masks by their authors, who give no licence; videos belong to their uploaders.

    Citation: X. Hu, Z. Chen, A. Owens. Mix and Localize: Localizing Sound Sources in Mixtures. CVPR 2022.

    Args:
        annotations: Folder with `avgn/vgginstruments_test.csv` and `avgn/vgginstruments_multi_test.csv`.
        masks: Folder of masks.

    Raises:
        DataError: A file or the folder is missing or malformed.
    """

    def __init__(self, annotations: Path, masks: Path | None) -> None:
        self._annotations = annotations
        rows = read_list(annotations, SINGLE_FILE, ("sample", "class"), _AVGN)
        self.kinds = {row["sample"]: row["class"].replace("_", " ") for row in rows}
        self._masks = dict.fromkeys(self.kinds) if masks is None else find_masks(masks, self.kinds)
        counts = {"frames": len(rows), "classes": len(set(self.kinds.values()))}
        self.findings = [Findings(SINGLE_FILE, counts)]

    def published(self) -> list[Pair]:
        """AVGN's list of pairs."""
        return read_pairs(find_annotation(self._annotations, PAIRS_FILE, _AVGN), self.kinds)

    def benchmark(self, media: MediaFolder | None, level: Level = "as-recorded") -> Benchmark:
        """Scenes of one source each, 224 x 224."""
        records = [Record(name, (self._shot(name),), self._lacking(name)) for name in self.kinds]
        return assemble("vggsound-instruments", records, media, truth="masks", level=level, findings=self.findings)

    def duets(
        self, media: MediaFolder | None, *, pairing: str = "published", seed: int = 0, level: Level = "as-recorded"
    ) -> Benchmark:
        """Scenes of two sources, 224 x 448; pairings as for `VGGSoundDuet`."""
        return duet_benchmark(
            "vggsound-instruments-duet",
            PairedClips(self.kinds, PAIRS_FILE, self.published, self._shot, self._lacking),
            media,
            truth="masks",
            pairing=pairing,
            seed=seed,
            level=level,
            findings=self.findings,
        )

    def _shot(self, name: str) -> Shot:
        clip, path = ClipName(name), self._masks[name]
        return Shot(clip, clip, (MaskFile(path),) if path else (), (self.kinds[name],))

    def _lacking(self, name: str) -> str:
        return "" if self._masks[name] else f"no mask {name}"
