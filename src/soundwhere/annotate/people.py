"""Who may do what: names with a token and a role each."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from soundwhere.annotate.database import Database

Role = Literal["annotator", "reviewer", "owner"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Each may do what those before it may: annotate; review what others did; say who may do what."""

LONGEST_NAME: Final = 40


@dataclass(frozen=True)
class Person:
    """Somebody who was let in."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether they may do what needs a role.

        >>> Person("ann", "reviewer").may("annotator"), Person("ann", "reviewer").may("owner")
        (True, False)
        """
        return ROLES.index(self.role) >= ROLES.index(role)


class People:
    """The names of a project that have a token. What they decided is kept elsewhere, and stays when they go.

    Args:
        database: Where they are stored.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def invite(self, name: str, role: Role = "annotator", token: str | None = None) -> str:
        """Give a name a role and a new token, which is returned this once and stored as its hash only.

        Args:
            name: Who.
            role: What they may do.
            token: One that they have for another project already.

        Raises:
            DataError: That is no name, or no role.
        """
        if not is_name(name):
            raise DataError(
                f"{name!r} cannot be a name.",
                f"Give 1 to {LONGEST_NAME} characters that can be printed, no spaces around.",
            )
        _check_role(role)
        token = token or secrets.token_urlsafe(24)
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO annotators (name, token, role) VALUES (?, ?, ?)", (name, _hash(token), role)
            )
        return token

    def change_role(self, name: str, role: Role) -> None:
        """Let somebody do more or less, with the token they have."""
        _check_role(role)
        with self._database.writing() as connection:
            changed = connection.execute("UPDATE annotators SET role = ? WHERE name = ?", (role, name)).rowcount
            _require(changed, name)

    def remove(self, name: str) -> None:
        """Take somebody's token away."""
        with self._database.writing() as connection:
            _require(connection.execute("DELETE FROM annotators WHERE name = ?", (name,)).rowcount, name)

    def list(self) -> list[Person]:
        """Everybody who has a token, by name."""
        return [
            Person(row["name"], row["role"])
            for row in self._database.rows("SELECT name, role FROM annotators ORDER BY name")
        ]

    def find(self, name: str, token: str) -> Person | None:
        """Who that is, if the token is this name's."""
        rows = self._database.rows("SELECT token, role FROM annotators WHERE name = ?", name)
        known = bool(rows) and secrets.compare_digest(rows[0]["token"], _hash(token))
        return Person(name, rows[0]["role"]) if known else None


def is_name(name: str) -> bool:
    """Whether something can be somebody's name."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise DataError(f"There is no role {role!r}.", f"Choose {', '.join(ROLES[:-1])} or {ROLES[-1]}.")


def _require(found: int, name: str) -> None:
    if not found:
        raise DataError(f"{name!r} has no token.", "Look at the list of people again.")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
