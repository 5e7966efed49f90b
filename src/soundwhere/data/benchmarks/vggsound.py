"""VGGSound's own lists: which clips are its test split, and which groups its classes fall into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.data.annotation.findings import Findings
from soundwhere.data.annotation.records import read_list

if TYPE_CHECKING:
    from pathlib import Path

_VGGSOUND: Final = "github.com/hche11/VGGSound"


class VGGSoundLists:
    """The lists of VGGSound: 15 446 test clips, 309 classes in 9 groups.

    Licence: CC BY 4.0; the videos belong to their uploaders.

    Citation: H. Chen, W. Xie, A. Vedaldi, A. Zisserman. VGGSound: A Large-scale Audio-Visual Dataset. ICASSP 2020.

    Args:
        annotations: Folder with `vggsound/test.csv` and `vggsound/stat.csv`.

    Attributes:
        test: The class of every test clip, by name without `.mp4`.
        groups: The group of every class: `music`, `animals`, `vehicle`, ...
        findings: What is in the two files.
    """

    def __init__(self, annotations: Path) -> None:
        rows = read_list(annotations, "vggsound/test.csv", ("clip", "class"), _VGGSOUND)
        self.test = {row["clip"].removesuffix(".mp4"): row["class"] for row in rows}
        classes = read_list(annotations, "vggsound/stat.csv", ("class", "clips", "group"), _VGGSOUND)
        self.groups = {row["class"]: row["group"] for row in classes}
        self.findings = [
            Findings("vggsound/test.csv", {"clips": len(self.test), "classes": len(set(self.test.values()))}),
            Findings("vggsound/stat.csv", {"classes": len(self.groups), "groups": len(set(self.groups.values()))}),
        ]
