"""Nothing confirmed is lost, nothing is overwritten."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.annotate.agreement import agreement, mask_iou, mask_of
from soundwhere.annotate.events import ConflictError, check_prompts
from soundwhere.annotate.people import Person
from soundwhere.annotate.store import Store
from soundwhere.data.annotation.rle import decode_rle, encode_rle, pack_counts
from soundwhere.errors import DataError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

SIZE = (100, 150)
POINT = {"prompts": {"box": None, "candidate": None, "points": [[3, 4, 1]], "strokes": []}}


def square(left: int, side: int = 20) -> dict[str, object]:
    mask = np.zeros(SIZE, bool)
    mask[10 : 10 + side, left : left + side] = True
    return {"prompts": POINT["prompts"], "mask": encode_rle(mask)}


def annotate(store: Store, task: int, who: str, *decisions: tuple[str, dict[str, object]]) -> int:
    revision = store.task(task).revision
    for kind, body in decisions:
        revision = store.append(task, who, kind, body, base=revision).number
    return revision


def test_a_mask_is_the_union_of_what_was_confirmed(store: Store) -> None:
    annotate(store, 1, "ann", ("prompt", POINT), ("object", square(10)), ("object", square(20)), ("done", {}))
    work = store.work(1)
    assert (work.state, len(work.objects), work.draft, work.annotators) == ("done", 2, {}, ("ann",))
    assert mask_of(work, SIZE).sum() == 20 * 30
    event = store.events(1)[0]
    assert (event.annotator, event.kind, event.version) == ("ann", "prompt", __import__("soundwhere").__version__)
    assert abs(event.at - time.time()) < 60


def test_undo_and_redo_are_events_and_survive_a_restart(store: Store) -> None:
    revision = annotate(store, 1, "ann", ("prompt", POINT), ("object", square(10)), ("prompt", POINT))
    for kind, objects, draft in [
        ("undo", 1, False),
        ("undo", 0, True),  # the confirmed object is being drawn again
        ("undo", 0, False),
        ("redo", 0, True),
        ("redo", 1, False),
    ]:
        revision = store.append(1, "ann", kind, base=revision).number
        store = Store(store.path)
        work = store.work(1)
        assert (len(work.objects), bool(work.draft)) == (objects, draft), kind
    assert work.redoable == "prompt"
    annotate(store, 1, "ann", ("clear", {}))
    assert (store.work(1).redoable, store.work(1).state) == ("", "todo")
    annotate(store, 1, "ann", ("undo", {}))
    assert len(store.work(1).objects) == 1
    assert len(store.events(1)) == 10


def test_nothing_to_undo_is_said(store: Store) -> None:
    with pytest.raises(ConflictError, match="nothing to undo"):
        store.append(1, "ann", "undo", base=0)
    with pytest.raises(ConflictError, match="No object"):
        store.append(1, "ann", "done", base=0)


def test_two_saves_of_one_revision_conflict(store: Store) -> None:
    annotate(store, 1, "ann", ("object", square(10)))
    store.release(1, "ann")
    with pytest.raises(ConflictError, match="ann changed this frame"):
        store.append(1, "bob", "object", square(50), base=0)
    assert len(store.events(1)) == 1


def test_many_threads_save_one_revision_and_one_wins(store: Store) -> None:
    outcomes: list[str] = []

    def save(column: int) -> None:
        try:
            store.append(1, "ann", "object", square(column), base=0)
            outcomes.append("saved")
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=save, args=(column,)) for column in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict"] * 7 + ["saved"]
    assert len(store.work(1).objects) == 1


def test_an_answer_that_was_lost_is_not_saved_twice(store: Store) -> None:
    first = store.append(1, "ann", "object", square(10), base=0, request="r1")
    again = store.append(1, "ann", "object", square(10), base=0, request="r1")
    assert first == again
    assert len(store.events(1)) == 1
    with pytest.raises(DataError, match="the same name"):
        store.append(2, "ann", "object", square(10), base=0, request="r1")


def test_a_lease_keeps_others_away_until_it_expires(store: Store) -> None:
    store.lease(1, "ann", seconds=60)
    with pytest.raises(ConflictError, match="ann is working"):
        store.lease(1, "bob")
    with pytest.raises(ConflictError, match="ann is working"):
        store.append(1, "bob", "object", square(10), base=0)
    assert store.leased() == {1: "ann"}
    store.lease(1, "ann", seconds=-1)  # as if the minute had passed
    store.lease(1, "bob")
    assert store.leased() == {1: "bob"}
    with pytest.raises(ConflictError, match="bob is working"):
        store.append(1, "ann", "object", square(10), base=0)


def test_review_is_done_by_somebody_else(store: Store) -> None:
    revision = annotate(store, 1, "ann", ("object", square(10)), ("done", {}))
    with pytest.raises(ConflictError, match="yourself"):
        store.append(1, "ann", "accept", base=revision)
    store.release(1, "ann")
    revision = store.append(1, "bob", "accept", base=revision).number
    assert (store.work(1).state, store.work(1).reviewer) == ("accepted", "bob")
    store.release(1, "bob")
    with pytest.raises(ConflictError, match="bob accepted"):
        store.append(1, "ann", "clear", base=revision)
    revision = store.append(1, "bob", "reopen", {"reason": "the hand is in it"}, base=revision).number
    assert (store.work(1).state, store.work(1).reason) == ("reopened", "the hand is in it")
    store.release(1, "bob")
    annotate(store, 1, "ann", ("clear", {}), ("object", square(30)), ("done", {}))
    assert (store.work(1).state, store.work(1).reason) == ("done", "")


def test_cannot_tell_needs_no_object_and_can_be_taken_back(store: Store) -> None:
    annotate(store, 1, "ann", ("unsure", {"reason": "out of view"}))
    assert (store.work(1).state, store.work(1).reason) == ("unsure", "out of view")
    annotate(store, 1, "ann", ("undo", {}))
    assert store.work(1).state == "todo"


def test_agreement_is_the_overlap_of_two_people(store: Store) -> None:
    first, second = (task.id for task in store.tasks() if task.frame == 3)
    annotate(store, first, "ann", ("object", square(10)), ("done", {}))
    with pytest.raises(ConflictError, match="other pass"):
        store.lease(second, "ann")
    assert agreement(store)["frames"] == 0
    annotate(store, second, "bob", ("object", square(20)), ("done", {}))
    found = agreement(store)
    assert (found["frames"], found["mean"], found["each"]) == (1, round(1 / 3, 4), {"clip_000020": 0.3333})


def test_what_is_kept_beside_the_events_follows_from_them(store: Store) -> None:
    annotate(store, 1, "ann", ("object", square(10)), ("done", {}))
    annotate(store, 2, "bob", ("prompt", POINT), ("undo", {}))
    before = store.tasks()
    store._database.connection().execute("UPDATE tasks SET state = 'todo', revision = 0, objects = 7, annotator = ''")
    store.rebuild()
    assert store.tasks() == before
    assert store.progress()["states"] == {
        "todo": 3, "begun": 0, "done": 1, "unsure": 0, "accepted": 0, "excluded": 0, "reopened": 0,
    }  # fmt: skip
    assert [(row["annotator"], row["objects"]) for row in store.progress()["annotators"]] == [("ann", 1), ("bob", 0)]


def test_events_never_change(store: Store) -> None:
    annotate(store, 1, "ann", ("object", square(10)))
    for change in ("UPDATE events SET annotator = 'bob'", "DELETE FROM events"):
        with pytest.raises(Exception, match="events never"):
            store._database.connection().execute(change)


def test_tokens_are_kept_as_hashes(store: Store) -> None:
    token = store.people.invite("ann")
    assert store.people.find("ann", token) == Person("ann", "annotator")
    assert store.people.find("ann", token + "x") is None
    assert store.people.find("bob", token) is None
    assert token.encode() not in store.path.read_bytes() + Path(f"{store.path}-wal").read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"box": 1},
        {"box": True},
        {"candidate": 3},
        {"points": [[1, 2]]},
        {"points": [[-1, 2, 1]]},
        {"points": [[float("nan"), 2, 1]]},
        {"points": [["1", 2, 1]]},
        {"points": [[1, 2, 1]] * 201},
        {"strokes": [{"points": [[1, 1]], "radius": 1e9, "add": True}]},
        {"strokes": [{"points": [], "radius": 2, "add": True}]},
    ],
)
def test_prompts_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(DataError, match="prompts are not valid"):
        check_prompts(wrong, 1, SIZE)


def test_run_lengths_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for density in (0.0, 0.01, 0.5, 0.99, 1.0):
        mask = rng.random((37, 53)) < density
        rle = encode_rle(mask)
        assert (decode_rle(rle) == mask).all()
        assert (decode_rle({**rle, "counts": pack_counts(rle["counts"])}) == mask).all()
    assert mask_iou(mask, mask) == 1.0


@contextmanager
def full_disk(store: Store) -> Iterator[None]:
    connection = store._database.connection()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        connection.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def used_up_quota(store: Store) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{store.path}-wal").stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("no_space", "reason"), [(full_disk, "the disk is full"), (used_up_quota, "the disk cannot be read or written")]
)
def test_without_space_nothing_is_saved_and_nothing_lost(
    store: Store, no_space: Callable[[Store], AbstractContextManager[None]], reason: str
) -> None:
    revision = annotate(store, 1, "ann", ("object", square(10)))
    large = {"mask": {"size": [1, 2], "counts": [1, 1]}, "reason": "x" * 50_000}
    with no_space(store):
        for _ in range(2):
            with pytest.raises(OutputError) as caught:
                store.append(1, "ann", "object", large, base=revision)
            assert caught.value.message == f"{store.path} cannot be used: {reason}. Nothing was saved."
            assert caught.value.remedy
        assert store.task(1).revision == revision  # it can still be read
    assert annotate(store, 1, "ann", ("object", large)) == revision + 1
    assert [event.number for event in Store(store.path).events(1)] == [revision, revision + 1]


def test_somebody_who_writes_for_too_long_is_named(store: Store) -> None:
    store._database.connection().execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutputError, match="another program"):
        annotate(store, 1, "ann", ("object", square(10)))
    other.execute("ROLLBACK")
    annotate(store, 1, "ann", ("object", square(10)))


def test_a_file_that_is_damaged_says_so(store: Store, tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("no database\n" * 100)
    with pytest.raises(DataError, match="it is damaged"):
        Store(tmp_path / "text.sqlite")
    with pytest.raises(OutputError, match="it cannot be opened"):
        Store(tmp_path / "nowhere" / "annotations.sqlite")
    annotate(store, 1, "ann", ("object", square(10)))
    store._database.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 16)
    with pytest.raises(DataError, match="it is damaged"):
        Store(store.path).events()


WRITER = """
import sys
from pathlib import Path
from soundwhere.annotate.store import Store
store = Store(Path(sys.argv[1]))
revision = store.task(1).revision
print("ready", flush=True)
while True:
    revision = store.append(1, "ann", "object", {"mask": {"size": [1, 2], "counts": [1, 1]}}, base=revision).number
    print(revision, flush=True)
"""


def test_kill_minus_nine_in_a_loop_loses_nothing_confirmed(store: Store) -> None:
    rng = random.Random(0)
    confirmed: set[int] = set()
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(store.path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        timer = threading.Timer(rng.uniform(0.02, 0.15), process.send_signal, [signal.SIGKILL])
        timer.start()
        confirmed |= {int(line) for line in process.stdout if line.endswith("\n")}
        assert process.wait() == -signal.SIGKILL
    found = {event.number for event in Store(store.path).events(1)}
    assert len(confirmed) > 20
    assert confirmed <= found
    assert store._database.connection().execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert store.task(1).objects == len(found)
