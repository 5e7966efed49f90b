"""Who asks, and what they may see: decided here for every route, whatever the page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

from fastapi import Depends, Header, HTTPException, Request

from soundwhere.annotate.events import OPEN
from soundwhere.annotate.people import Person, is_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.annotate.people import Role
    from soundwhere.annotate.store import Store, Task

_NEEDS = {"annotator": "", "reviewer": "Only reviewers and owners may do that.", "owner": "Only owners may do that."}


def identify(store: Store, tokens: bool, x_annotator: str, authorization: str) -> Person:
    """Who somebody is to a project.

    Args:
        store: The project's.
        tokens: Ask for a token even if nobody was invited yet.
        x_annotator: Their name, percent-encoded.
        authorization: `Bearer TOKEN`, or nothing.

    Raises:
        HTTPException: They have no name, or no token where one is needed.
    """
    name = unquote(x_annotator).strip()
    if not is_name(name):
        raise HTTPException(401, "Enter your name first.")
    if not tokens and not store.people.list():
        return Person(name, "owner")  # on their own machine
    person = store.people.find(name, authorization.removeprefix("Bearer "))
    if person is None:
        raise HTTPException(401, "Your link has no valid token: ask for a new one.")
    return person


def _with_role(role: Role) -> Callable[..., Person]:
    def admit(
        request: Request, x_annotator: Annotated[str, Header()], authorization: Annotated[str, Header()] = ""
    ) -> Person:
        state = request.app.state
        person = identify(state.masker.project.store, state.tokens, x_annotator, authorization)
        if not person.may(role):
            raise HTTPException(403, f"{_NEEDS[role]} You are {person.role} here.")
        return person

    return admit


Annotator = Annotated[Person, Depends(_with_role("annotator"))]
Owner = Annotated[Person, Depends(_with_role("owner"))]


def may_see(person: Person, task: Task) -> bool:
    """Whether somebody may look at a task: what others have finished is for reviewers."""
    return person.may("reviewer") or task.state in OPEN or task.annotator == person.name


def require_sight(person: Person, task: Task) -> None:
    """Refuse a task that somebody may not look at."""
    if not may_see(person, task):
        raise HTTPException(403, f"{task.annotator} has finished this frame; only reviewers look at it now.")


def require_reviewer(person: Person) -> None:
    """Refuse whoever may not review."""
    if not person.may("reviewer"):
        raise HTTPException(403, f"{_NEEDS['reviewer']} You are {person.role} here.")
