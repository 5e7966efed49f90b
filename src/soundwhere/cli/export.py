"""`soundwhere export`: a model as a file for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, named, parse

DESCRIPTION = """\
Write a model as one ONNX file and compare its answers with torch's. Built-in models need none of this: they run in
onnxruntime as they are.

Examples:
  soundwhere export --onnx                                       the built-in model as scav-wide.onnx
  soundwhere export --onnx --model runs/first --out first.onnx --clip clip.mp4
  soundwhere clip.mp4 --model first.onnx                         localise with it (--runtime onnx or openvino)
"""


@dataclass(frozen=True)
class Options:
    """What to write."""

    onnx: Annotated[bool, *FLAG] = False
    """Write an ONNX file."""
    model: Annotated[str | None, named("MODEL")] = None
    """Name of a model, or a file written by `soundwhere train`; by default the built-in model."""
    out: Annotated[Path | None, named("FILE")] = None
    """The file; by default the model's name with .onnx in the current folder."""
    clip: Annotated[Path | None, named("CLIP")] = None
    """A video on whose frames the answers are compared, too."""


def run(arguments: list[str]) -> int:
    """Write the file and say how much it differs; 1 if that is more than it should be."""
    options = parse(Options, arguments, "export", description=DESCRIPTION)
    if not options.onnx:
        raise ConfigError("No format was given.", "Give --onnx.")
    from soundwhere.inference.export import TOLERANCE, export_onnx
    from soundwhere.methods.files import DEFAULT, load_model

    model = load_model(options.model or DEFAULT)
    path = options.out or Path(f"{model.config.name}.onnx")
    if path.suffix != ".onnx":
        raise ConfigError(f"{path} does not end in .onnx.", "Give --out a name that does.")
    exported = export_onnx(model, path, options.clip)
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    print("largest difference from torch:")
    for what, difference in exported.differences.items():
        print(f"  {difference:.1e}  {what}")
    if max(exported.differences.values()) > TOLERANCE:
        say(f"soundwhere: more than {TOLERANCE:g}, which rounding does not explain: please report it.")
        return 1
    return 0
