"""Put a trained run's weights into the package.

    python scripts/ship_weights.py runs/tiny
    python scripts/ship_weights.py runs/scav-mobile --licence CC-BY-NC-4.0 --threshold 0.6 \
        --evaluation evaluation/real-duet evaluation/real-trio

Writes src/soundwhere/weights/NAME.safetensors in half precision, with configuration, licence and scores
inside, brings SHA256SUMS up to date, and writes the graphs that onnxruntime runs (see ship_graphs.py).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from soundwhere import __version__
from soundwhere.files import sha256, write_text
from soundwhere.inference.graphs import graph_folder
from soundwhere.inference.shipping import write_graphs
from soundwhere.methods.files import WEIGHTS, load_model, read_facts, read_model, write_model


def main() -> None:
    """Ship the best model of a run, with its scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--licence", default="Apache-2.0", help="of the weights, which is that of their data")
    parser.add_argument("--threshold", type=float, help="confidence from which on a source counts as sounding")
    parser.add_argument(
        "--dark", type=float, help="confidence below which a picture stays dark, of a model that counts"
    )
    parser.add_argument("--evaluation", type=Path, nargs="*", default=[], help="folders of `soundwhere evaluate`")
    options = parser.parse_args()

    model = load_model(options.run)
    if options.threshold is not None:
        model.config = replace(model.config, sounding_threshold=options.threshold)
    if options.dark is not None:
        model.config = replace(model.config, dark=options.dark)
    _, facts = read_facts(options.run / "best.safetensors")
    facts |= {"version": __version__, "licence": options.licence}
    for place in ("root", "cache"):  # where things lay on one machine is nobody else's business
        facts.get("config", {}).get("data", {}).pop(place, None)
    report = options.run / "report.json"
    if report.is_file():
        facts["report"] = json.loads(report.read_text(encoding="utf-8"))
    if options.evaluation:
        facts["evaluations"] = [_scores(folder) for folder in options.evaluation]
    target = WEIGHTS / f"{model.config.name}.safetensors"
    write_model(target, model, facts=facts, half=True)
    files = sorted(WEIGHTS.glob("*.safetensors"))
    write_text(WEIGHTS / "SHA256SUMS", "".join(f"{sha256(file)}  {file.name}\n" for file in files))
    write_graphs(read_model(target), graph_folder(model.config.name))
    print(f"{target}: {target.stat().st_size / 1e6:.2f} MB")


def _scores(folder: Path) -> dict[str, Any]:
    """What an evaluation says of the model: the choices and every figure with its interval."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {key: results[key] for key in ("about", "preset", "scores", "frames")}


if __name__ == "__main__":
    main()
