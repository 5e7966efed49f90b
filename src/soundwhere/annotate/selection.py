"""Which task comes next: those of a class and a state that somebody may see, from where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from soundwhere.annotate.access import may_see, require_reviewer
from soundwhere.annotate.events import OPEN, STATES, TO_REVIEW
from soundwhere.errors import DataError
from soundwhere.web.application import Number, Text  # noqa: TC001 - pydantic reads them at run time

if TYPE_CHECKING:
    from soundwhere.annotate.people import Person
    from soundwhere.annotate.store import Store, Task


class Filter(BaseModel):
    """Which tasks are wanted: of a class, in a state (`open`, `all`, `review` or one of the states)."""

    kind: Text = ""
    state: Text = "open"


class Step(Filter):
    """From which task to go on, or back."""

    after: Number = 0
    back: bool = False


def wanted_tasks(store: Store, person: Person, wanted: Filter) -> list[Task]:
    """The tasks that someone may see and asked for."""
    tasks = store.tasks()
    theirs = {(task.frame, task.second) for task in tasks if task.annotator == person.name}
    kinds = {frame.id: frame.kind for frame in store.frames()} if wanted.kind else {}
    chosen = [task for task in tasks if (task.frame, not task.second) not in theirs and may_see(person, task)]
    if wanted.kind:
        chosen = [task for task in chosen if kinds[task.frame] == wanted.kind]
    if wanted.state == "open":
        return [task for task in chosen if task.state in OPEN]
    if wanted.state == "review":
        require_reviewer(person)
        return [task for task in chosen if task.state in TO_REVIEW and task.annotator != person.name]
    if wanted.state != "all" and wanted.state not in STATES:
        raise DataError(f"There is no state {wanted.state!r}.", "Reload the page.")
    return [task for task in chosen if wanted.state in ("all", task.state)]


def tasks_from(store: Store, tasks: list[Task], step: Step) -> list[Task]:
    """Tasks after, or before, the one at hand; at the end it goes on at the other end."""
    if not step.after:
        return tasks
    here = _order(store.task(step.after))
    before = [task for task in tasks if _order(task) < here]
    after = [task for task in tasks if _order(task) > here]
    return [*reversed(before), *reversed(after)] if step.back else [*after, *before]


def _order(task: Task) -> tuple[bool, int]:
    return task.second, task.frame
