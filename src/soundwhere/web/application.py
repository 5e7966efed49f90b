"""An application that shows a page: the page's own files, and every error as JSON with `error` and `remedy`.

Somebody who follows a link that leads nowhere reads the same in plain words.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import AfterValidator, Field
from starlette.exceptions import HTTPException

from soundwhere import __version__
from soundwhere.errors import OutputError, SoundwhereError

if TYPE_CHECKING:
    from fastapi import Request

_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def _encodable(text: str) -> str:
    text.encode()  # raises ValueError for half a surrogate pair, which no file and no database takes
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""Text of a request that can be written as UTF-8."""

Number = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A number of a request that SQLite can hold."""


class TooLargeError(SoundwhereError):
    """An upload beyond the limit."""

    status = 413  # of the answer over HTTP


class Json(JSONResponse):
    """JSON in ASCII, so that there is no text that cannot be sent."""

    def render(self, content: Any) -> bytes:
        """The bytes that are sent."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def make_application(title: str, *packages: str, page: bool = True, **options: Any) -> FastAPI:
    """The application without anything behind its page.

    Args:
        title: Its name.
        *packages: Where the page's own files are: in the folder `web` of these. Those that are there at the start are
            served under `/web`, and no others; `index.html` is the page itself.
        page: Whether the page itself is at `/`.
        **options: Passed on to FastAPI, such as `lifespan`.
    """
    app = FastAPI(
        title=title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=Json,
        **options,
    )
    files = {
        file.name: file.read_bytes()
        for package in packages
        for file in (resources.files(package) / "web").iterdir()
        if file.name.rsplit(".", 1)[-1] in _TYPES
    }

    if page:

        @app.get("/")
        def index() -> Response:
            return Response(files["index.html"], media_type="text/html")

    @app.get("/web/{name}")
    def web(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "There is no such file.")
        return Response(files[name], media_type=_TYPES[name.rsplit(".", 1)[-1]])

    app.add_exception_handler(SoundwhereError, _complain)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _correct)
    return app


async def _complain(request: Request, error: Exception) -> Response:
    assert isinstance(error, SoundwhereError)
    usual = 507 if isinstance(error, OutputError) else 400
    return _told(request, getattr(error, "status", usual), error.message, error.remedy)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(request, error.status_code, error.detail)


async def _correct(request: Request, error: Exception) -> Response:
    """Say what is wrong with a request, without sending it back: it may hold what JSON cannot."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = " ".join(map(str, first["loc"]))
    return _told(request, 422, f"The request is malformed ({place}: {first['msg']}).", "Reload the page.")


def _told(request: Request, status: int, error: str, remedy: str = "") -> Response:
    """What went wrong: to a page as JSON, to somebody who followed a link as plain words."""
    if "text/html" in request.headers.get("accept", ""):
        return PlainTextResponse(f"{error}\n{remedy}".strip().encode("utf-8", "replace"), status)
    return Json({"error": error, "remedy": remedy}, status)
