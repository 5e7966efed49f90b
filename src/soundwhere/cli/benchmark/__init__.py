"""`soundwhere benchmark`: from boxes to a mask benchmark that can be published."""

from __future__ import annotations

from soundwhere.cli.benchmark import build, export, init, load_test, propose, propose_score, revoice, stats, verify
from soundwhere.terminal.options import Nested, parse_nested

DESCRIPTION = """\
Build a mask benchmark from boxes: init, propose, annotate (`soundwhere annotate`), export, verify, stats.
Or build real-duet and wide-duet from the downloads of their sources: build; let other soundfonts play them: revoice.

Examples:
  soundwhere benchmark init masks/ --manifest vggss.json --data clips/ --double 0.1 --licence LICENCE.txt
  soundwhere benchmark propose masks/ --segmenter onnx:sam2-tiny/
  soundwhere benchmark propose-score --data real-duet/ --segmenter onnx:sam2-tiny/
  soundwhere annotate masks/ --segmenter onnx:sam2-tiny/
  soundwhere benchmark export masks/ --out masks-1.0/ --pairs vggsound_duet_test.csv
  soundwhere benchmark verify masks-1.0/
  soundwhere benchmark stats masks-1.0/ --out figures/
  soundwhere benchmark load-test --annotators 10
  soundwhere benchmark build real-duet --voc VOCdevkit/VOC2012 --esc50 ESC-50-master --out real-duet/
  soundwhere benchmark revoice wide-duet/ --soundfont TimGM6mb.sf2 --out wide-duet-tim/
  soundwhere evaluate --benchmark vggsound-duet-mask --data clips/ --annotations masks-1.0/ \\
      --masks masks-1.0/masks/pkl --pairing masks-1.0/duets.csv --model runs/first
"""

COMMANDS: Nested = {
    "init": (init.Options, init.run),
    "propose": (propose.Options, propose.run),
    "propose-score": (propose_score.Options, propose_score.run),
    "export": (export.Options, export.run),
    "verify": (verify.Options, verify.run),
    "stats": (stats.Options, stats.run),
    "load-test": (load_test.Options, load_test.run),
    "build": (build.Options, build.run),
    "revoice": (revoice.Options, revoice.run),
}


def run(arguments: list[str]) -> int:
    """Run the command."""
    name, options = parse_nested(COMMANDS, arguments, "benchmark", DESCRIPTION)
    return int(COMMANDS[name][1](options))
