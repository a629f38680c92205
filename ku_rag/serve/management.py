"""Create, rename and delete bases and keys: the REST API, and a page with forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ku_rag.errors import BadInput, KuError, Refused
from ku_rag.serve.base_registry import BaseRegistry
from ku_rag.serve.key_store import KeyStore, Role
from ku_rag.serve.pages import render_page
from ku_rag.serve.problems import describe

_LATEST = 50
"""Changes that the page lists."""


async def _check_manages(request: Request) -> None:
    request.state.is_change = request.method != "GET"
    if request.state.key.role != "manage" or not (
        request.state.may_write or request.method == "GET"
    ):
        raise HTTPException(403, "this key may not manage bases and keys")
    if request.app.state.key_store is None:
        raise Refused("bases and keys of this server cannot change: start it with --bases DIR")


async def _registry(request: Request) -> BaseRegistry:
    bases: BaseRegistry = request.app.state.bases
    return bases


async def _key_store(request: Request) -> KeyStore:
    store: KeyStore = request.app.state.key_store
    return store


router = APIRouter(dependencies=[Depends(_check_manages)])
Registry = Annotated[BaseRegistry, Depends(_registry)]
Store = Annotated[KeyStore, Depends(_key_store)]


class BaseName(BaseModel):
    """The name of a base."""

    name: str = Field(examples=["plants"])


class NewKey(BaseModel):
    """A key that is to be created."""

    name: str = Field(examples=["Office"])
    role: Role = "read"
    bases: list[str] = Field([], description="Bases that it may use; empty for all.")
    days: float | None = Field(None, gt=0, le=36_500, description="Days until it expires.")


class PageForm(NewKey):
    """A form of the page, about a base or a key."""

    model_config = ConfigDict(str_strip_whitespace=True)

    action: Literal["create", "rename", "delete", "create key", "revoke"]
    new_name: str = ""


@router.get("/v1/bases")
async def list_bases(bases: Registry) -> dict[str, Any]:
    """List the bases with the numbers of their units, pictures and texts."""
    items = [
        {"name": base.name, "counts": await base.read(lambda kb: kb.stats().counts)}
        for base in bases
    ]
    return {"items": items}


@router.post("/v1/bases", status_code=201)
async def create_base(bases: Registry, body: BaseName) -> dict[str, str]:
    """Create a base."""
    return {"name": (await bases.create(body.name)).name}


@router.patch("/v1/bases/{name}")
async def rename_base(bases: Registry, store: Store, name: str, body: BaseName) -> dict[str, str]:
    """Rename a base."""
    await bases.rename(name, body.name)
    store.rename_base(name, body.name)
    return {"name": body.name}


@router.delete("/v1/bases/{name}")
async def delete_base(bases: Registry, store: Store, name: str) -> dict[str, str]:
    """Delete a base with all files in its folder."""
    await bases.delete(name)
    store.rename_base(name, None)
    return {"deleted": name}


@router.get("/v1/keys")
async def list_keys(store: Store) -> dict[str, Any]:
    """List the keys that were created, without their secrets."""
    return {"items": store.list_keys()}


@router.post("/v1/keys", status_code=201)
async def create_key(bases: Registry, store: Store, body: NewKey) -> dict[str, str]:
    """Create a key; the response is the only one that has its secret."""
    if missing := set(body.bases) - {base.name for base in bases}:
        raise BadInput(f"there is no knowledge base {min(missing)[:80]!r}: GET v1/bases lists them")
    secret = store.create(body.name, body.role, body.bases, body.days)
    return {"name": body.name, "secret": secret}


@router.delete("/v1/keys/{name}")
async def revoke_key(store: Store, name: str) -> dict[str, str]:
    """Revoke a key."""
    store.revoke(name)
    return {"deleted": name}


@router.get("/v1/changes")
async def list_changes(
    store: Store, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
) -> dict[str, Any]:
    """List the latest changes, newest first: time, key, base, request and status."""
    return {"items": store.changes(limit)}


@router.get("/bases", include_in_schema=False)
async def show_bases(request: Request, bases: Registry, store: Store) -> Response:
    """Return the page of bases, keys and changes."""
    return await _page(request, bases, store)


@router.post("/bases", include_in_schema=False)
async def change_bases(
    request: Request, bases: Registry, store: Store, form: Annotated[PageForm, Form()]
) -> Response:
    """Do what a form of the page says, and return the page with the result."""
    name, new_name = form.name, BaseName(name=form.new_name)
    actions: dict[str, Callable[[], Awaitable[dict[str, str]]]] = {
        "create": lambda: create_base(bases, BaseName(name=name)),
        "rename": lambda: rename_base(bases, store, name, new_name),
        "delete": lambda: delete_base(bases, store, name),
        "create key": lambda: create_key(bases, store, form),
        "revoke": lambda: revoke_key(store, name),
    }
    request.state.action = form.action
    try:
        if form.action == "delete" and form.new_name != name:
            raise BadInput(f"type {name} to delete it: nothing was deleted")
        return await _page(request, bases, store, **await actions[form.action]())
    except KuError as error:
        return await _page(request, bases, store, problem=describe(error)["detail"])


async def _page(
    request: Request,
    bases: BaseRegistry,
    store: KeyStore,
    **values: Any,  # noqa: ANN401
) -> Response:
    values |= {"keys": store.list_keys(), "changes": store.changes(_LATEST)}
    items = (await list_bases(bases))["items"]
    values["counts"] = {item["name"]: item["counts"] for item in items}
    return render_page(request, next(iter(bases)), "bases.html", **values)
