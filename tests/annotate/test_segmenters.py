"""Every segmenter finds a disc, or at least answers in the right shape."""

from __future__ import annotations

import csv
import json
import os
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow

from soundwhere.annotate.agreement import mask_iou
from soundwhere.annotate.segmenter.cache import EmbeddingCache
from soundwhere.annotate.segmenter.protocol import Embedding, open_segmenter
from soundwhere.annotate.segmenter.simple import SimpleSegmenter, superpixels
from soundwhere.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

SIZE = (240, 320)


def scene(*discs: tuple[int, int, int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """A noisy picture with orange discs (row, column, radius) on a bluish gradient."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    image = np.stack([60 + x / 8, 100 + y / 8, np.full(SIZE, 150)], -1)
    masks = [(y - row) ** 2 + (x - column) ** 2 <= radius**2 for row, column, radius in discs]
    for mask in masks:
        image[mask] = (215, 120, 45)
    image += np.random.default_rng(0).normal(0, 5, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8), masks


def test_simple_proposes_three_extents_for_a_box() -> None:
    image, (disc,) = scene((120, 150, 50))
    segmenter = SimpleSegmenter()
    candidates = segmenter.propose(segmenter.embed(image), (90, 60, 210, 180))
    assert [candidate.mask.shape for candidate in candidates] == [SIZE] * 3
    areas = [int(candidate.mask.sum()) for candidate in candidates]
    assert areas == sorted(areas)
    assert max(mask_iou(candidate.mask, disc) for candidate in candidates) > 0.9
    assert all(0 <= candidate.score <= 1 for candidate in candidates)
    outside = np.ones(SIZE, bool)
    outside[60:180, 90:210] = False
    assert not any((candidate.mask & outside).any() for candidate in candidates)


def test_simple_follows_points() -> None:
    image, (left, right) = scene((120, 80, 40), (120, 240, 40))
    segmenter = SimpleSegmenter()
    embedding = segmenter.embed(image)
    one = segmenter.refine(embedding, None, [(80, 120, 1)])
    assert mask_iou(one, left) > 0.85
    other = segmenter.refine(embedding, None, [(240, 120, 1), (80, 120, 0)])
    assert mask_iou(other, right) > 0.85
    both = segmenter.refine(embedding, None, [(240, 120, 1), (80, 120, 1)])
    assert mask_iou(both, left | right) > 0.85


def test_simple_takes_away_what_is_clicked_off() -> None:
    image, (left, right) = scene((120, 80, 40), (120, 240, 40))
    segmenter = SimpleSegmenter()
    embedding = segmenter.embed(image)
    box = (20.0, 60.0, 300.0, 180.0)
    whole = max(segmenter.propose(embedding, box), key=lambda candidate: candidate.score).mask
    assert mask_iou(whole, left | right) > 0.7
    refined = segmenter.refine(embedding, box, [(240, 120, 0)], previous=whole)
    assert not refined[120, 240]
    assert mask_iou(refined, left) > mask_iou(whole, left)


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 200, 3), (7, 5, 3), (64, 64, 3)])
def test_simple_answers_for_odd_pictures(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    segmenter = SimpleSegmenter()
    embedding = segmenter.embed(image)
    height, width = shape[:2]
    for box in [(0, 0, width, height), (0, 0, 0.4, 0.4), (width - 0.5, height - 0.5, width, height)]:
        assert [candidate.mask.shape for candidate in segmenter.propose(embedding, box)] == [shape[:2]] * 3
    assert segmenter.refine(embedding, None, [(width, height, 1)]).shape == shape[:2]
    assert segmenter.refine(embedding, None, [(0, 0, 0)]).shape == shape[:2]


def test_simple_is_quick_on_500_pixels() -> None:
    image = np.asarray(Pillow.fromarray(scene((120, 150, 50))[0]).resize((500, 375)))
    segmenter = SimpleSegmenter()
    start = time.process_time()
    segmenter.propose(segmenter.embed(image), (140, 90, 330, 280))
    assert time.process_time() - start < 2.0  # about 0.4 s on an idle core


def test_superpixels_cover_the_picture_without_gaps() -> None:
    lab = np.random.default_rng(0).normal(50, 20, (40, 60, 3)).astype(np.float32)
    labels = superpixels(lab, 50)
    assert labels.shape == (40, 60)
    assert np.array_equal(np.unique(labels), np.arange(labels.max() + 1))


class Counting(SimpleSegmenter):
    """Counts how often it looks."""

    name = "counting"

    def __init__(self) -> None:
        self.looks = 0

    def embed(self, image: np.ndarray) -> Embedding:
        self.looks += 1
        return super().embed(image)


def test_a_picture_is_embedded_once_also_over_restarts(tmp_path: Path) -> None:
    image, _ = scene((120, 150, 50))
    segmenter = Counting()
    first = EmbeddingCache(tmp_path, segmenter).get(1, lambda: image)
    again = EmbeddingCache(tmp_path, segmenter)
    second = again.get(1, lambda: image)
    assert segmenter.looks == 1
    assert second.size == first.size
    assert all((second.arrays[name] == array).all() for name, array in first.arrays.items())
    file = tmp_path / "counting" / "000001.npz"
    np.savez_compressed(file, size=np.zeros(999))
    squeezed = bytearray(file.read_bytes())
    squeezed[60] ^= 0xFF
    for looks, damaged in enumerate((b"cut short", bytes(squeezed)), 2):
        file.write_bytes(damaged)
        assert EmbeddingCache(tmp_path, segmenter).get(1, lambda: image).size == SIZE
        assert segmenter.looks == looks


def test_the_cache_keeps_no_more_than_it_may(tmp_path: Path) -> None:
    image, _ = scene((120, 150, 50))
    cache = EmbeddingCache(tmp_path, Counting(), most=2)
    for frame in range(4):
        cache.get(frame, lambda: image)
    assert len(list(tmp_path.rglob("*.npz"))) == 2


@pytest.mark.parametrize("name", ["none", "simple:x", "onnx", "transformers"])
def test_unknown_segmenters_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no segmenter"):
        open_segmenter(name)


def test_a_folder_without_networks_is_said(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with pytest.raises(CheckpointError, match="0 files"):
        open_segmenter(f"onnx:{tmp_path}")
    for part in ("encoder", "decoder"):
        (tmp_path / f"{part}.onnx").write_bytes(b"no network")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        open_segmenter(f"onnx:{tmp_path}")


def test_sam2_finds_real_things_from_boxes(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real SAM2-tiny weights on real photos against human masks.

    SOUNDWHERE_SAM2_ONNX names their folder, SOUNDWHERE_SAM2_PHOTOS how many photos (4).
    """
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    folder = os.environ.get("SOUNDWHERE_SAM2_ONNX")
    if not folder:
        pytest.skip("SOUNDWHERE_SAM2_ONNX names no folder with the SAM2-tiny encoder and decoder")
    segmenter = open_segmenter(f"onnx:{folder}")
    root = shared / "data" / "real-duet"
    with (root / "images.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["mask_kind"] == "human" and row["split"] == "val"]
    rows = [row for row in rows if len(json.loads(row["boxes"])) == 1]
    count = int(os.environ.get("SOUNDWHERE_SAM2_PHOTOS", "4"))
    rows = rows[:: max(1, len(rows) // count)][:count]
    overlaps = []
    for row in rows:
        image = np.asarray(Pillow.open(root / row["image"]).convert("RGB"))
        truth = np.asarray(Pillow.open(root / row["mask"])) > 0
        height, width = truth.shape
        left, top, right, bottom = json.loads(row["boxes"])[0]
        candidates = segmenter.propose(
            segmenter.embed(image), (left * width, top * height, right * width, bottom * height)
        )
        overlaps.append(mask_iou(max(candidates, key=lambda candidate: candidate.score).mask, truth))
    with capsys.disabled():
        print(f"\nSAM2-tiny, box prompts, {len(overlaps)} photos: mean IoU {np.mean(overlaps):.3f}")
    assert np.mean(overlaps) > 0.7


def tiny(kind: str, folder: Path) -> str:
    """A SAM or SAM 2 with random weights, so small that it runs at once."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    if kind == "sam":
        config = transformers.SamConfig(
            vision_config={
                "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 64, "patch_size": 16,
                "output_channels": 16, "window_size": 2, "global_attn_indexes": [0], "mlp_dim": 16, "num_pos_feats": 8,
            },
            prompt_encoder_config={
                "hidden_size": 16, "image_size": 64, "patch_size": 16, "image_embedding_size": 4,
            },
            mask_decoder_config={
                "hidden_size": 16, "mlp_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                "iou_head_hidden_dim": 16,
            },
        )  # fmt: skip
        model = transformers.SamModel(config)
    else:
        config = transformers.Sam2Config(
            vision_config={
                "backbone_config": {
                    "model_type": "sam2_hiera_det_model", "hidden_size": 8, "num_attention_heads": 1,
                    "blocks_per_stage": [1, 1, 2, 1], "embed_dim_per_stage": [8, 16, 32, 64],
                    "num_attention_heads_per_stage": [1, 1, 2, 4], "image_size": [128, 128],
                    "window_positional_embedding_background_size": [4, 4], "window_size_per_stage": [4, 4, 4, 4],
                    "global_attention_blocks": [3],
                },
                "backbone_channel_list": [64, 32, 16, 8], "fpn_hidden_size": 32,
                "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
            },
            prompt_encoder_config={"hidden_size": 32, "image_size": 128, "patch_size": 16, "mask_input_channels": 4},
            mask_decoder_config={
                "hidden_size": 32, "mlp_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                "iou_head_hidden_dim": 16,
            },
        )  # fmt: skip
        model = transformers.Sam2Model(config)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", ["sam", "sam2"])
def test_transformers_models_answer_boxes_and_points(kind: str, tmp_path: Path) -> None:
    segmenter = open_segmenter(f"transformers:{tiny(kind, tmp_path / kind)}")
    image, _ = scene((120, 150, 50))
    embedding = EmbeddingCache(tmp_path, segmenter).get(1, lambda: image)
    candidates = segmenter.propose(embedding, (90, 60, 210, 180))
    assert [candidate.mask.shape for candidate in candidates] == [SIZE] * 3
    assert all(0 <= candidate.score <= 1 for candidate in candidates)
    mask = segmenter.refine(embedding, (90, 60, 210, 180), [(150, 120, 1), (10, 10, 0)], previous=candidates[1].mask)
    assert (mask.shape, mask.dtype) == (SIZE, np.bool_)
    assert segmenter.refine(embedding, None, [(150, 120, 1)]).shape == SIZE
