"""Create, rename and delete bases and keys: the REST API, and a page with forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, Form, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ku_rag.errors import BadInput, Refused
from ku_rag.serve.keys import Role
from ku_rag.serve.pages import render_page


async def _manager(request: Request) -> State:
    request.state.is_change = request.method != "GET"
    may_change = request.state.may_write or request.method == "GET"
    if request.state.key.role != "manage" or not may_change:
        raise HTTPException(403, "this key may not manage bases and keys")
    if request.app.state.key_store is None:
        raise Refused("bases and keys of this server cannot change: start it with --bases DIR")
    return cast(State, request.app.state)


router = APIRouter()
Managed = Annotated[State, Depends(_manager)]


class BaseName(BaseModel):
    """The name of a base or key."""

    name: str = Field(examples=["plants"])


class NewKey(BaseName):
    """A key that is to be created."""

    role: Role = "read"
    bases: list[str] = Field([], description="Bases that it may use; empty for all.")
    days: float | None = Field(None, gt=0, le=36_500, description="Days until it expires.")


class PageForm(NewKey, str_strip_whitespace=True):
    """A form of the page, about a base or a key."""

    action: Literal["create", "rename", "delete", "create key", "revoke"]
    new_name: str = ""


@router.get("/v1/bases")
async def list_bases(server: Managed) -> dict[str, Any]:
    """List the bases with the numbers of their units, pictures and texts."""
    counts = {base.name: await base.read(lambda kb: kb.stats().counts) for base in server.bases}
    return {"items": [{"name": name, "counts": count} for name, count in counts.items()]}


@router.post("/v1/bases", status_code=201)
async def create_base(server: Managed, body: BaseName) -> dict[str, str]:
    """Create a base."""
    base = await server.bases.create(body.name)
    server.key_store.rename_base(base.name, None)  # of a base whose deletion was interrupted
    return {"name": base.name}


@router.patch("/v1/bases/{name}")
async def rename_base(server: Managed, name: str, body: BaseName) -> dict[str, str]:
    """Rename a base."""
    await server.bases.rename(name, body.name)
    server.key_store.rename_base(name, body.name)
    return {"name": body.name}


@router.delete("/v1/bases/{name}")
async def delete_base(server: Managed, name: str) -> dict[str, str]:
    """Delete a base with all files in its folder."""
    await server.bases.delete(name)
    server.key_store.rename_base(name, None)
    return {"deleted": name}


@router.get("/v1/keys")
async def list_keys(server: Managed) -> dict[str, Any]:
    """List the keys that were created, without their secrets."""
    return {"items": server.key_store.list_keys()}


@router.post("/v1/keys", status_code=201)
async def create_key(server: Managed, body: NewKey) -> dict[str, str]:
    """Create a key; the response is the only one that has its secret."""
    if missing := set(body.bases) - {base.name for base in server.bases}:
        raise BadInput(f"there is no knowledge base {min(missing)[:80]!r}: GET v1/bases lists them")
    secret = server.key_store.create(body.name, body.role, body.bases, body.days)
    return {"name": body.name, "secret": secret}


@router.delete("/v1/keys/{name:path}")
async def revoke_key(server: Managed, name: str) -> dict[str, str]:
    """Revoke a key."""
    server.key_store.revoke(name)
    return {"deleted": name}


@router.get("/v1/changes")
async def list_changes(
    server: Managed, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
) -> dict[str, Any]:
    """List the latest changes, newest first: time, key, base, request and status."""
    return {"items": server.key_store.changes(limit)}


@router.get("/bases", include_in_schema=False)
async def show_bases(request: Request, server: Managed) -> Response:
    """Return the page of bases, keys and changes."""
    return await _page(request, server, {})


@router.post("/bases", include_in_schema=False)
async def change_bases(
    request: Request, server: Managed, form: Annotated[PageForm, Form()]
) -> Response:
    """Do what a form of the page says, and return the page with the result."""
    name = form.name
    actions: dict[str, Callable[[], Awaitable[dict[str, str]]]] = {
        "create": lambda: create_base(server, form),
        "rename": lambda: rename_base(server, name, BaseName(name=form.new_name)),
        "delete": lambda: delete_base(server, name),
        "create key": lambda: create_key(server, form),
        "revoke": lambda: revoke_key(server, name),
    }
    request.state.action = form.action
    if form.action == "delete" and form.new_name != name:
        raise BadInput(f"type {name} to delete it: nothing was deleted")
    return await _page(request, server, await actions[form.action]())


async def _page(request: Request, server: State, result: Mapping[str, str]) -> Response:
    counts = {item["name"]: item["counts"] for item in (await list_bases(server))["items"]}
    keys, changes = server.key_store.list_keys(), server.key_store.changes(50)
    values: dict[str, Any] = {"result": result, "counts": counts, "keys": keys, "changes": changes}
    return render_page(request, next(iter(server.bases)), "bases.html", **values)
