"""The queue: order, what survives a restart, crashes, cancelling."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from soundwhere.errors import OutputError
from soundwhere.serve.jobs import Jobs, Shelf, plain_name
from soundwhere.serve.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import ModuleType

    from soundwhere.errors import SoundwhereError

    Until = Callable[[Callable[[], bool]], None]


def states(jobs: Jobs) -> dict[str, str]:
    return {job.name: job.state for job in jobs.all()}


def test_jobs_are_taken_in_order_and_survive_the_server(jobs: Jobs, tmp_path: Path) -> None:
    first, second, third = (jobs.add(f"{number}.mp4", tmp_path / "clip.mp4") for number in range(3))
    assert [jobs.place(job) for job in (first, second, third)] == [0, 1, 2]
    assert jobs.take(0) == replace(first, state="working")
    jobs.update(first.id, stage="localising", done=3, total=9)
    jobs.update(first.id, state="done", stage="")
    assert jobs.take(0) == replace(second, state="working")
    assert jobs.cancel(third.id).state == "cancelled"
    assert jobs.take(0) is None
    jobs.begin_upload()  # cut short
    (jobs.folder(second) / ".half.partial").mkdir()

    again = Jobs(tmp_path / "jobs")
    assert states(again) == {"0.mp4": "done", "1.mp4": "waiting", "2.mp4": "cancelled"}
    assert list((tmp_path / "jobs").glob("**/.*")) == []
    assert again.take(0) == replace(second, state="working")


def test_what_is_no_job_is_left_alone(jobs: Jobs, tmp_path: Path) -> None:
    kept = jobs.add("a.mp4", tmp_path / "a.mp4")
    (tmp_path / "jobs" / "notes").mkdir()
    (tmp_path / "jobs" / ("0" * 16)).mkdir()
    (tmp_path / "jobs" / ("0" * 16) / "job.json").write_text(json.dumps({"id": "../../etc"}))
    assert [job.id for job in Jobs(tmp_path / "jobs").all()] == [kept.id]
    assert (tmp_path / "jobs" / "notes").is_dir()


def test_one_after_the_other_with_bad_ones_between(jobs: Jobs, runner: Runner, tmp_path: Path, until: Until) -> None:
    for name in ("good", "bad", "crash", "last"):
        jobs.add(name, tmp_path / "clip.mp4")
    runner.start()
    until(lambda: states(jobs).get("last") == "done")
    assert states(jobs) == {"good": "done", "bad": "failed", "crash": "failed", "last": "done"}
    bad, crash = (job for job in jobs.all() if job.state == "failed")
    assert (bad.error, bad.remedy) == ("bad has no sound track.", "Give another.")
    assert "ended with 9" in crash.error


def test_cancelling_hits_only_what_is_meant(jobs: Jobs, runner: Runner, tmp_path: Path, until: Until) -> None:
    slow, waiting, last = (jobs.add(name, tmp_path / "clip.mp4") for name in ("slow", "waiting", "last"))
    runner.start()
    until(lambda: jobs.get(slow.id).done == 1)
    runner.cancel(waiting.id)
    assert jobs.get(slow.id).state == "working"
    runner.cancel(slow.id)
    until(lambda: jobs.get(last.id).state == "done")
    assert states(jobs) == {"slow": "cancelled", "waiting": "cancelled", "last": "done"}
    runner.cancel(last.id)
    assert jobs.get(last.id).state == "done"


def test_stopping_leaves_the_job_at_hand_for_the_next_start(
    jobs: Jobs, runner: Runner, tmp_path: Path, until: Until
) -> None:
    slow = jobs.add("slow", tmp_path / "clip.mp4")
    runner.start()
    until(lambda: jobs.get(slow.id).done == 1)
    runner.stop()
    assert not runner.is_alive()
    assert states(Jobs(tmp_path / "jobs")) == {"slow": "waiting"}


def test_a_worker_that_can_do_nothing_says_so_once(jobs: Jobs, fake: ModuleType) -> None:
    heard: list[SoundwhereError] = []
    runner = Runner(jobs, fake.make_useless, heard.append)
    runner.start()
    runner.join(60)
    assert [(error.message, error.remedy) for error in heard] == [("There is no model nowhere.", "Choose another.")]


def make_unwritable(jobs: Jobs, name: str) -> None:
    """Put a folder where the file about a job would be written."""
    (job,) = (job for job in jobs.all() if job.name == name)
    path = jobs.folder(job) / "job.json"
    path.unlink()
    (path / "in the way").mkdir(parents=True)


def test_failed_writes_cost_neither_the_job_nor_those_behind_it(
    jobs: Jobs, runner: Runner, tmp_path: Path, until: Until, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("good", "bad", "crash", "last"):
        jobs.add(name, tmp_path / "clip.mp4")
    for name in ("good", "bad", "crash"):
        make_unwritable(jobs, name)
    runner.start()
    until(lambda: states(jobs).get("last") == "done")
    assert states(jobs) == {"good": "done", "bad": "failed", "crash": "failed", "last": "done"}
    assert runner.is_alive()
    assert capfd.readouterr().err.count("job.json cannot be written") == 3


def test_a_clip_that_was_refused_is_not_in_the_queue(
    jobs: Jobs, tmp_path: Path, no_space: Callable[[], AbstractContextManager[None]]
) -> None:
    upload = jobs.begin_upload()
    (upload / "clip.mp4").write_bytes(b"film")
    for folder in (None, upload):
        with no_space(), pytest.raises(OutputError, match="cannot be written") as caught:
            jobs.add("a.mp4", (folder or tmp_path) / "clip.mp4", folder)
        assert "--work" in caught.value.remedy
    assert jobs.all() == []
    assert jobs.take(0) is None
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_job_is_cancelled_even_if_that_cannot_be_written(
    jobs: Jobs, runner: Runner, tmp_path: Path, until: Until
) -> None:
    slow, last = (jobs.add(name, tmp_path / "clip.mp4") for name in ("slow", "last"))
    make_unwritable(jobs, "slow")
    runner.start()
    until(lambda: jobs.get(slow.id).done == 1)
    with pytest.raises(OutputError, match="cannot be written"):
        runner.cancel(slow.id)
    until(lambda: jobs.get(last.id).state == "done")
    assert jobs.get(slow.id).state == "cancelled"


def test_a_clip_whose_name_is_not_text_survives_the_server(jobs: Jobs, tmp_path: Path) -> None:
    clip = tmp_path / "caf\udce9.mp4"  # Latin-1 on a disk that is read as UTF-8
    jobs.add("caf .mp4", clip)
    (again,) = Jobs(tmp_path / "jobs").all()
    assert again.clip == str(clip)


def test_removing_twice_or_without_a_folder_is_no_defect(jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.add("a.mp4", tmp_path / "a.mp4")
    (jobs.folder(job) / "job.json").unlink()
    jobs.folder(job).rmdir()
    jobs.remove(job.id)
    assert jobs.all() == []


def test_removing_takes_the_files_along_but_never_the_clip(jobs: Jobs, tmp_path: Path) -> None:
    clip = tmp_path / "mine.mp4"
    clip.write_bytes(b"film")
    job = jobs.add("mine.mp4", clip)
    jobs.remove(job.id)
    assert list((tmp_path / "jobs").iterdir()) == []
    assert clip.read_bytes() == b"film"


def test_names_are_for_people() -> None:
    assert plain_name("../../etc/passwd") == "passwd"
    assert plain_name("..\\x\\film\x00\n.mp4") == "film  .mp4"
    assert plain_name("/") == "clip"
    assert len(plain_name("é" * 500)) == 200


def test_the_shelf_shows_videos_only(tmp_path: Path) -> None:
    files: dict[str, Any] = {"b.MP4": 1, "deep/a.mov": 1, "notes.txt": 0, ".hidden/c.mp4": 0, "b.soundwhere/o.mp4": 0}
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shelf = Shelf(tmp_path)
    clips = dict(shelf.clips())
    assert {path.relative_to(tmp_path).as_posix() for path in clips.values()} == {
        name for name, shown in files.items() if shown
    }
    assert all(shelf.find(number) == path for number, path in clips.items())


def test_a_job_that_is_over_is_tried_again_at_the_end_of_the_queue(
    jobs: Jobs, runner: Runner, tmp_path: Path, until: Until
) -> None:
    bad = jobs.add("bad.mp4", tmp_path / "bad.mp4")
    runner.start()
    until(lambda: jobs.get(bad.id).state == "failed")
    later = jobs.add("slow.mp4", tmp_path / "slow.mp4")
    again = jobs.retry(bad.id)
    assert (again.state, again.error, again.remedy) == ("waiting", "", "")
    assert [job.id for job in jobs.all()] == [later.id, bad.id]
    assert jobs.retry(later.id).state in ("waiting", "working")  # it is not over
    runner.cancel(later.id)
    until(lambda: jobs.get(bad.id).state == "failed")
    assert jobs.retry(later.id).state == "waiting"
    assert {job.id: job.state for job in Jobs(tmp_path / "jobs").all()}[later.id] == "waiting"


def test_files_chosen_together_stay_in_their_order(jobs: Jobs, tmp_path: Path) -> None:
    for name, batch in (("old", ""), ("a", "1"), ("b", "1"), ("c", "1"), ("new", "2")):
        jobs.add(name, tmp_path / name, batch=batch)
    assert [job.name for job in jobs.all()] == ["old", "a", "b", "c", "new"]  # as they are worked on
    assert [job.name for job in jobs.shown()] == ["new", "a", "b", "c", "old"]


def test_jobs_of_an_earlier_version_are_known(jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.add("a.mp4", tmp_path / "a.mp4")
    path = jobs.folder(job) / "job.json"
    stored = json.loads(path.read_text())
    for name in ("audio", "batch", "options"):
        del stored[name]
    path.write_text(json.dumps({**stored, "later": 1}))
    assert Jobs(tmp_path / "jobs").get(job.id) == job
