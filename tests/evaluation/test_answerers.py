"""Each row is what a network says of a scene that was changed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from soundwhere.data.controls import noise, nothing_for
from soundwhere.data.selection import Selected
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import RANDOM, InputFreeAnswerer
from soundwhere.evaluation.constant import Blobs
from soundwhere.evaluation.network_answerer import NetworkAnswerer, watched, weights_digest
from soundwhere.evaluation.reading import Reader, View
from soundwhere.evaluation.rows import FEATURE_NORM, Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.task import told
from soundwhere.media.image import normalise, resize
from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import build, load_model
from soundwhere.methods.method import Given
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.scav.peeling import peel
from soundwhere.methods.wide.config import WideConfig
from soundwhere.methods.wide.model import WideSCAV
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from soundwhere.methods.method import Network
    from soundwhere.types import Localisation, Scene

SIDE = 64
DUETS = WorldScenes(World(5, (SIDE, 2 * SIDE), seconds=0.2), 6, silent=0, layout="side-by-side")
TWO = [0, 1]
OTHERS = [3, 4]  # half the list away


@torch.inference_mode()
def by_hand(network: Network, scenes: Sequence[Scene]) -> torch.Tensor:
    """A network's maps of scenes of one size, enlarged."""
    images = normalise(np.stack([scene.image for scene in scenes]))
    sounds = torch.from_numpy(np.stack([scene.mixture for scene in scenes]))
    return enlarged(network.localise(network.see(images), network.hear(sounds)).similarity, scenes)


def enlarged(maps: torch.Tensor, scenes: Sequence[Scene]) -> torch.Tensor:
    return F.interpolate(maps, scenes[0].image.shape[:2], mode="bilinear")


def view(absent: list[int | None] | None = None) -> View:
    return View(Reader(DUETS), TWO, absent or [None, None])


def heard_of_nothing(number: int) -> Scene:
    kind, scene = nothing_for(number), DUETS[number]
    sound = DUETS[5].sounds[number % 2] if kind == "absent" else noise(kind, scene.sounds.shape[1], number)
    return replace(scene, sounds=sound[None])


def test_every_control_takes_away_what_it_says(network: SCAV) -> None:
    answers = NetworkAnswerer("m", network, (1, 2), negatives=True).answer(view([None, 5]))
    scenes, other = [DUETS[number] for number in TWO], [DUETS[number] for number in OTHERS]
    changed = {
        Row("m"): scenes,
        Row("m", "shuffled"): [replace(a, sounds=b.sounds) for a, b in zip(scenes, other, strict=True)],
        Row("m", "silent"): [replace(scene, sounds=np.zeros_like(scene.sounds)) for scene in scenes],
        Row("m", "blind"): [replace(a, image=b.image) for a, b in zip(scenes, other, strict=True)],
        Row("m", "absent"): [scenes[0], replace(scenes[1], sounds=DUETS[5].sounds)],
        Row("m", "alone"): [
            replace(scene, sounds=scene.sounds[n % 2, None]) for n, scene in zip(TWO, scenes, strict=True)
        ],
        Row("m", "nothing"): [heard_of_nothing(n) for n in TWO],
    }
    for row, those in changed.items():
        torch.testing.assert_close(enlarged(answers[row].maps, scenes), by_hand(network, those), msg=str(row))
        assert answers[row].confidence is not None
    norm = answers[Row("m", answer=FEATURE_NORM)].maps
    assert norm.shape == (2, 2, SIDE, 2 * SIDE)
    left, right = (half.flatten(2).any(2) for half in norm.chunk(2, dim=3))
    assert (left != right).all()  # cut at the seam: each map is of one frame


def test_where_a_picture_stays_dark_the_maps_it_would_have_are_scored_beside_it() -> None:
    torch.manual_seed(0)
    config = WideConfig(visual_weights="none", audio_weights="none", frame_px=SIDE)
    bold, modest = WideSCAV(config).eval(), WideSCAV(replace(config, dark=0.99)).eval()
    modest.load_state_dict(bold.state_dict())
    answers, expected = (NetworkAnswerer("m", each, (1, 2)).answer(view()) for each in (modest, bold))
    for control in ("own", "shuffled"):
        assert not answers[Row("m", control)].maps.any()
        lit = expected[Row("m", control)].maps  # sharpened, as the method's own are
        assert lit.any()
        torch.testing.assert_close(answers[Row("m", control, "never dark")].maps, lit)
    assert set(answers) - set(expected) == {Row("m", control, "never dark") for control in ("own", "shuffled")}


def test_a_networks_own_controls_are_asked_too(network: SCAV) -> None:
    answers = NetworkAnswerer("m", network, (1, 2)).answer(view())
    scenes, other = [DUETS[number] for number in TWO], [DUETS[number] for number in OTHERS]
    with torch.inference_mode():
        seen = network.see(normalise(np.stack([scene.image for scene in scenes])))
        for control, heard in (("own", scenes), ("shuffled", other)):
            sound = network.hear(torch.from_numpy(np.stack([scene.mixture for scene in heard])))
            expected = peel(network.stage_one_map(seen, sound), seen, 2, (1, 2))
            torch.testing.assert_close(answers[Row("m", control, "peel")].maps, expected)  # type: ignore[arg-type]
        alone = network.hear(torch.from_numpy(scenes[1].sounds))
        expected = network.stage_one_map(seen[1:].expand(2, -1, -1, -1), alone)
    torch.testing.assert_close(answers[Row("m", answer="solo sounds")].maps[1], expected)


def test_views_of_a_network_are_rows_if_asked_for(network: SCAV) -> None:
    assert watched(network) == ("stage 1",)
    row = Row("m", "shuffled", "stage 1")
    maps = NetworkAnswerer("m", network, (1, 2), rows=[row]).answer(view())[row].maps
    assert maps.shape[:2] == (2, 1)
    alone = network.without_stage_two().eval()
    swapped = [replace(DUETS[a], sounds=DUETS[b].sounds) for a, b in zip(TWO, OTHERS, strict=True)]
    torch.testing.assert_close(enlarged(maps, swapped), by_hand(alone, swapped))


def test_another_picture_of_another_size_is_resized(network: SCAV) -> None:
    class Mixed(Selected):
        def __getitem__(self, number: Any) -> Any:
            scene = DUETS[number]
            return replace(scene, image=np.repeat(scene.image, 2, axis=0)) if number > 2 else scene

    row, mixed = Row("m", "blind"), Mixed(DUETS, range(6))
    maps = NetworkAnswerer("m", network, (1, 2), rows=[row]).answer(View(Reader(mixed), TWO, [None] * 2))[row].maps
    pictures = [resize(mixed[number].image, (SIDE, 2 * SIDE)) for number in OTHERS]
    shown = [replace(DUETS[number], image=picture) for number, picture in zip(TWO, pictures, strict=True)]
    torch.testing.assert_close(enlarged(maps, shown), by_hand(network, shown))


def test_frame_by_frame_calls(network: SCAV) -> None:
    """AVGN's way: each frame alone with the mixed sound, the map of a source being that of its own frame."""
    asked = NetworkAnswerer("m", network, (1, 2), single_frames=True)
    assert not any(row.answer in ("peel", "solo sounds") for row in asked.rows)
    scenes = [DUETS[0], DUETS[1]]
    maps = asked.answer(view())[Row("m")].maps
    assert maps.shape[:3] == (2, 2, 2)
    right = replace(scenes[1], image=scenes[1].image[:, SIDE:])
    torch.testing.assert_close(enlarged(maps[1:, :, 1], [right]), by_hand(network, [right]))
    torch.testing.assert_close(asked.own(scenes)[..., maps.shape[-1] :], maps[:, :, 1])
    found = evaluate(DUETS, list("abcdef"), [asked], PRESETS["avgn"], (1, 2), batch=4)
    assert len(found.scores[Row("m")].pairs) == 12


def test_a_network_of_smaller_frames_sees_smaller_pictures() -> None:
    """A made-up scene of 224 pixels is shown to a network of 128 pixels at 128: on its grid of 8 x 8 cells."""
    torch.manual_seed(0)
    network = SCAV(named_config("scav-tiny")).eval()  # type: ignore[arg-type]
    scenes = WorldScenes(World(4, (224, 224)), 2)[:]
    assert NetworkAnswerer("tiny", network).own(scenes).shape == (2, 2, 8, 8)


def test_a_network_of_the_wrong_shape_is_named(network: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    proper = network.localise

    def odd(*scene: Any, **given: Any) -> Localisation:
        found = proper(*scene, **given)
        return replace(found, similarity=found.similarity[:, 0])

    monkeypatch.setattr(network, "localise", odd)
    with pytest.raises(DataError, match="model odd answers 2 scenes with maps of shape"):
        NetworkAnswerer("odd", network, (1, 2)).answer(view())


def listening_in(network: SCAV, monkeypatch: pytest.MonkeyPatch, needs: set[str]) -> list[Given]:
    """Let a network need something, and write down what it is given."""
    told_it: list[Given] = []
    proper = network.localise

    def localise(
        seen: torch.Tensor, heard: torch.Tensor, sources: int | None = None, given: Any = None
    ) -> Localisation:
        told_it.append(given)
        return proper(seen, heard, sources)

    monkeypatch.setattr(network, "localise", localise)
    monkeypatch.setattr(network, "needs", frozenset(needs))
    return told_it


def test_labels_and_sounds_are_given_to_a_network_that_needs_them(
    network: SCAV, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = listening_in(network, monkeypatch, {"labels", "sounds"})
    controls = ("own", "shuffled", "silent", "blind", "absent")
    label = told("m", network)
    assert label == "m (labels and sounds given)"
    asked = NetworkAnswerer(label, network, (1, 2), rows=[Row(label, control) for control in controls])
    assert [str(row) for row in asked.rows][1] == "m (labels and sounds given), audio-shuffled"
    asked.answer(view([5, None]))
    found = dict(zip(controls, given, strict=True))
    own, other = ([DUETS[number].sounds for number in numbers] for numbers in (TWO, OTHERS))
    expected = {"own": own, "shuffled": other, "blind": own, "absent": [DUETS[5].sounds, own[1]]}
    for control, sounds in expected.items():
        assert found[control].sounds is not None
        np.testing.assert_array_equal(found[control].sounds, np.stack(sounds), err_msg=control)
    assert found["silent"].sounds is not None
    assert not found["silent"].sounds.any()
    for each in given:  # the drop says what the sound adds to the labels
        assert each.labels == [DUETS[number].kinds for number in TWO]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("avgn", "m (labels given, in training and at test)"),
        ("coarse-to-fine", "m (labels given, in training and at test)"),
        ("dsol", "m (labels given at test alone)"),
    ],
)
def test_methods_that_know_classes_are_asked_for_those_of_the_scene(name: str, label: str) -> None:
    classes = tuple(sorted({kind for scene in DUETS for kind in scene.kinds}))
    small: dict[str, Any] = {"visual": "tiny", "audio": "tiny", "frame_px": SIDE, "spectrogram": "mel"}
    small |= {"fine_grid": False, "dimension": 16, "classes": classes}
    torch.manual_seed(0)
    labelled = build(replace(named_config(name), **small)).eval()
    assert told("m", labelled) == label
    scene = DUETS[0]
    image = normalise(scene.image[None])
    with torch.inference_mode():
        seen, heard = labelled.see(image), labelled.hear(torch.from_numpy(scene.mixture)[None])
        right, swapped = (
            labelled.localise(seen, heard, given=Given(labels=[kinds])).similarity
            for kinds in (scene.kinds, scene.kinds[::-1])
        )
    found = NetworkAnswerer(label, labelled, (1, 2), rows=[Row(label)]).own([scene])
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(found, swapped.flip(1))  # the labels decide which map is whose


def test_a_network_that_must_know_the_number_of_sources_is_told_it() -> None:
    torch.manual_seed(0)
    small: dict[str, Any] = {"visual": "tiny", "audio": "tiny", "frame_px": SIDE, "spectrogram": "mel"}
    clustering = build(replace(named_config("dmc"), **small)).eval()
    assert told("m", clustering) == "m (number given, cluster of each sound centre)"
    asked = NetworkAnswerer("m", clustering, (1, 2), rows=[Row("m")])
    assert asked.own(list(DUETS[:2])).shape[:2] == (2, len(DUETS[0].masks))
    alone = [replace(scene, masks=scene.masks[:1], sounds=scene.sounds[:1]) for scene in DUETS[:2]]
    assert asked.own(alone).shape[:2] == (2, 1)


def test_nothing_is_given_to_a_network_that_needs_nothing(network: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    given = listening_in(network, monkeypatch, set())
    assert told("m", network) == "m"
    NetworkAnswerer("m", network, (1, 2), rows=[Row("m")]).answer(view())
    assert given == [None]


def test_sounds_recorded_together_cannot_be_given(network: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    listening_in(network, monkeypatch, {"sounds"})
    together = [replace(scene, sounds=scene.mixture[None]) for scene in DUETS]
    with pytest.raises(DataError, match="must be given separate sounds"):
        NetworkAnswerer("m", network, (1, 2), rows=[Row("m")]).own(together[:2])


def test_a_note_is_part_of_the_label(network: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(network), "note", property(lambda _: "same map twice"))
    assert told("m", network) == "m (same map twice)"


def test_a_changed_weight_changes_the_digest(network: SCAV) -> None:
    before = weights_digest(network)
    assert weights_digest(network) == before
    with torch.no_grad():
        next(network.parameters()).flatten()[0] += 1
    assert weights_digest(network) != before


def test_answers_without_input_depend_on_nothing_but_the_name() -> None:
    asked = InputFreeAnswerer({Row(answer="blobs"): Blobs((1, 2), (0, 1), 20.0)}, 2)
    first, second = asked.answer(view()), asked.answer(View(Reader(DUETS), [1, 2], [None, None]))
    assert torch.equal(first[Row(answer="blobs")].maps, second[Row(answer="blobs")].maps)
    assert torch.equal(first[RANDOM].maps[1], second[RANDOM].maps[0])
    assert not torch.equal(first[RANDOM].maps[0], first[RANDOM].maps[1])


def test_a_method_of_a_few_lines_is_asked_under_every_control(documented: Callable[[str], ModuleType]) -> None:
    """Nothing but what every network has: the toy has no controls of its own."""
    toy = documented("toy.py")
    torch.manual_seed(0)
    network = toy.Toy(toy.ToyConfig()).eval()
    asked = NetworkAnswerer("toy", network, (1, 2), negatives=True)
    found = evaluate(DUETS, list("abcdef"), [asked], PRESETS["scav"], (1, 2), batch=4).scores
    assert [str(row) for row in found] == [
        *("toy", "toy, audio-shuffled", "toy, silence", "toy, picture-shuffled", "toy, feature norm"),
        *("toy, absent sound", "toy, one sound alone", "toy, one frame alone", "toy, sound of nothing seen"),
    ]
    assert [scores.kind for scores in found.values()] == [
        *("method", "deaf", "deaf", "blind", "image-only", "negative", "negative", "negative", "negative"),
    ]
    assert all(len(scores.pairs) == 12 for scores in found.values() if scores.kind != "negative")
    assert watched(network) == ()


def test_two_shipped_models_share_no_eye() -> None:
    """One is frozen and one is not; sharing is by weights, never by name."""
    mobile, tiny = (load_model(name) for name in ("scav-mobile", "scav-tiny"))
    assert mobile.eye is not None
    assert tiny.eye is None
    again = load_model("scav-mobile")
    assert again.eye is not None
    assert again.eye.name == mobile.eye.name
