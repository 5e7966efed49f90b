"""Put a trained run's weights into the package.

    python scripts/ship_weights.py RUN

Writes src/soundwhere/weights/NAME.safetensors in half precision, with the run's configuration and its report inside,
and brings SHA256SUMS up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from soundwhere import __version__
from soundwhere.files import write_text
from soundwhere.models.registry import WEIGHTS, load_model
from soundwhere.models.storage import read_facts, sha256, write_model


def main(run: Path) -> None:
    """Ship the best model of a run, with its report."""
    model = load_model(run)
    _, facts = read_facts(run / "best.safetensors")
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    target = WEIGHTS / f"{model.config.name}.safetensors"
    facts = {**facts, "version": __version__, "report": report, "licence": "Apache-2.0"}
    write_model(target, model, facts=facts, half=True)
    files = sorted(WEIGHTS.glob("*.safetensors"))
    write_text(WEIGHTS / "SHA256SUMS", "".join(f"{sha256(file)}  {file.name}\n" for file in files))
    print(f"{target}: {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
