import numpy as np
import pytest
import torch

from soundwhere.metrics.detection import Detections, detection_f1, detection_precision, top_quarter


def detections(*rows):
    iou, confidence, visible = zip(*rows, strict=True)
    return Detections(np.array(iou), np.array(confidence), np.array(visible, dtype=bool))


def test_right_wrong_and_missed():
    found = detections((0.9, 0.8, True), (0.2, 0.7, True), (0.9, 0.3, True), (0.0, 0.6, False), (0.0, 0.1, False))
    # one right; a bad map and a silent picture are wrong; one is missed; silence that is not detected costs nothing
    assert detection_f1(found) == pytest.approx(2 / (2 + 2 + 1))
    assert detection_f1(found, gate=0.75) == pytest.approx(2 / (2 + 0 + 2))
    assert detection_f1(found, level=0.9) == 0  # an IoU has to exceed the level
    assert detection_f1(found, gate=2.0) == 0


def test_silence_below_everything_costs_no_precision():
    seen, silent = ([(iou, top - 0.1 * k, iou > 0) for k in range(4)] for iou, top in ((0.9, 0.9), (0.0, 0.3)))
    apart = detections(*seen, *silent)
    mixed = apart._replace(confidence=np.array([0.9, 0.7, 0.5, 0.3, 0.8, 0.6, 0.4, 0.2]))
    # from the second highest on: recall is 1/2 of the pictures at first, and precision stays 1
    assert detection_precision(apart) == pytest.approx(0.5)
    assert 0 < detection_precision(mixed) < detection_precision(apart)
    assert detection_precision(apart, level=0.95) == 0


def test_nothing_and_one_picture_have_no_precision():
    assert detection_precision(Detections(np.empty(0), np.empty(0), np.empty(0, dtype=bool))) == 0
    assert detection_precision(detections((0.9, 0.9, True))) == 0


def test_the_confidence_is_the_mean_of_the_highest_quarter():
    maps = torch.arange(32.0).reshape(2, 4, 4)
    np.testing.assert_allclose(top_quarter(maps), [13.5, 29.5])
