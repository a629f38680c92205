"""Create, rename and delete bases and keys: the REST API, and a page with forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ku_rag.errors import BadInput, KuError, Refused
from ku_rag.serve.base_registry import BaseRegistry
from ku_rag.serve.key_store import KeyStore, Role
from ku_rag.serve.pages import render_page
from ku_rag.serve.problems import describe, encode_json

_SHOWN = 50
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
    days: float | None = Field(None, description="Days until it expires.")


def _json(value: object, status: int = 200) -> Response:
    return Response(encode_json(value), status, media_type="application/json")


def _create_key(bases: BaseRegistry, store: KeyStore, key: NewKey) -> str:
    """Create a key, and return its secret.

    Raises:
        BadInput: there is no such base, or see `KeyStore.create`.
    """
    if missing := set(key.bases) - {base.name for base in bases}:
        raise BadInput(f"there is no knowledge base {min(missing)[:80]!r}: GET v1/bases lists them")
    return store.create(key.name, key.role, key.bases, key.days)


async def _rename(bases: BaseRegistry, store: KeyStore, name: str, new_name: str) -> None:
    await bases.rename(name, new_name)
    store.rename_base(name, new_name)


async def _delete(bases: BaseRegistry, store: KeyStore, name: str) -> None:
    await bases.delete(name)
    store.rename_base(name, None)


# ---- API ---------------------------------------------------------------------------------------


@router.get("/v1/bases")
async def list_bases(bases: Registry) -> Response:
    """List the bases with the numbers of their units, pictures and texts."""
    items = [
        {"name": base.name, "counts": await base.read(lambda kb: kb.stats().counts)}
        for base in bases
    ]
    return _json({"items": items})


@router.post("/v1/bases", status_code=201)
async def create_base(bases: Registry, body: BaseName) -> Response:
    """Create a base."""
    return _json({"name": (await bases.create(body.name)).name}, 201)


@router.patch("/v1/bases/{name}")
async def rename_base(bases: Registry, store: Store, name: str, body: BaseName) -> Response:
    """Rename a base."""
    await _rename(bases, store, name, body.name)
    return _json({"name": body.name})


@router.delete("/v1/bases/{name}")
async def delete_base(bases: Registry, store: Store, name: str) -> Response:
    """Delete a base with all files in its folder."""
    await _delete(bases, store, name)
    return _json({"deleted": name})


@router.get("/v1/keys")
async def list_keys(store: Store) -> Response:
    """List the keys that were created, without their secrets."""
    return _json({"items": [key.to_dict() for key in store.list_keys()]})


@router.post("/v1/keys", status_code=201)
async def create_key(bases: Registry, store: Store, body: NewKey) -> Response:
    """Create a key; the response is the only one that has its secret."""
    return _json({"name": body.name, "secret": _create_key(bases, store, body)}, 201)


@router.delete("/v1/keys/{name}")
async def revoke_key(store: Store, name: str) -> Response:
    """Revoke a key."""
    store.revoke(name)
    return _json({"deleted": name})


@router.get("/v1/changes")
async def list_changes(
    store: Store, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
) -> Response:
    """List the latest changes, newest first: time, key, base, request and status."""
    return _json({"items": store.changes(limit)})


# ---- page --------------------------------------------------------------------------------------


@router.get("/bases", include_in_schema=False)
async def show_bases(request: Request, bases: Registry, store: Store) -> Response:
    """Return the page of bases, keys and changes."""
    return await _page(request, bases, store)


@router.post("/bases", include_in_schema=False)
async def change_bases(
    request: Request,
    bases: Registry,
    store: Store,
    action: Annotated[str, Form()],
    name: Annotated[str, Form()] = "",
    new_name: Annotated[str, Form()] = "",
    role: Annotated[Role, Form()] = "read",
    base: Annotated[tuple[str, ...], Form()] = (),
    days: Annotated[str, Form()] = "",
) -> Response:
    """Do what a form of the page says, and return the page with the result."""

    async def create_key() -> str:
        lasts = float(days) if days.strip() else None
        key = NewKey(name=name.strip(), role=role, bases=[*base], days=lasts)
        return _create_key(bases, store, key)

    async def delete() -> None:
        if new_name != name:
            raise BadInput(f"type {name} to delete it: nothing was deleted")
        await _delete(bases, store, name)

    async def revoke() -> None:
        store.revoke(name)

    actions: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: bases.create(name.strip()),
        "rename": lambda: _rename(bases, store, name, new_name.strip()),
        "delete": delete,
        "create key": create_key,
        "revoke": revoke,
    }
    request.state.action = action
    if action not in actions:
        raise BadInput(f"action is {action[:80]!r}: expected one of {', '.join(actions)}")
    try:
        result = await actions[action]()
    except (KuError, ValueError) as error:
        problem = describe(error) if isinstance(error, KuError) else {"detail": str(error)}
        return await _page(request, bases, store, problem=problem["detail"])
    secret = result if isinstance(result, str) else ""
    return await _page(request, bases, store, secret=secret)


async def _page(
    request: Request,
    bases: BaseRegistry,
    store: KeyStore,
    **values: Any,  # noqa: ANN401
) -> Response:
    counts = {base.name: await base.read(lambda kb: kb.stats().counts) for base in bases}
    listed: dict[str, Any] = {
        "counts": counts,
        "keys": store.list_keys(),
        "changes": store.changes(_SHOWN),
    }
    first = next(iter(bases))
    return render_page(request, first, "bases.html", **listed, **values)
