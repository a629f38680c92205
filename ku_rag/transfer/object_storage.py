"""Sources and shards in object storage, such as s3://bucket/folder, by fsspec.

Sources are downloaded before they are read, and each shard is uploaded when it is written.
Credentials are those of the environment. fsspec retries what a server refuses for the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from ku_rag.errors import BadInput, KuError, NotFound, reason
from ku_rag.ingest.readers.folder import renamed
from ku_rag.plugins import extra
from ku_rag.types import Quarantined


@dataclass(frozen=True, slots=True)
class StagedSource:
    """A file or folder on the local disk; records name files of `folder` as files of `root`."""

    path: Path
    folder: Path
    root: str

    @property
    def name(self) -> str:
        """The path, or the address from which it was downloaded."""
        return self.root + self.path.as_posix().removeprefix(self.folder.as_posix())

    def report(self, problems: Iterable[Quarantined]) -> list[Quarantined]:
        """Return what was left out of the source, by the names of its files."""
        items = renamed(iter(problems), self.folder, self.root)
        return [item for item in items if isinstance(item, Quarantined)]


def is_address(location: object) -> bool:
    """Return whether sources or shards are in object storage."""
    return isinstance(location, str) and "://" in location


@contextmanager
def local_copy(location: str) -> Iterator[Path]:
    """Yield the path of a folder; one in object storage is downloaded for the block."""
    if not is_address(location):
        yield Path(location)
        return
    with TemporaryDirectory(prefix="ku-import-") as temporary:
        name = location.rstrip("/").rpartition("/")[2]
        folder = Path(temporary, name if name.strip(".") else "copy")
        RemoteFolder(location).download(folder)
        yield folder


class RemoteFolder:
    """A file, or everything below a prefix, in object storage; `KuError` if it cannot be used."""

    def __init__(self, address: str) -> None:
        if "@" in urlsplit(address).netloc:
            raise BadInput("an address names a user: name credentials in the environment only")
        self.address = address.rstrip("/")
        fsspec = extra("s3", "fsspec")
        with self._access():
            self._files, self._root = fsspec.url_to_fs(self.address)

    def download(self, target: Path) -> None:
        """Download to a file, or what is below a prefix to a folder; `NotFound` if it is empty."""
        with self._access():
            self._files.invalidate_cache()
            keys = self._files.find(self._root)
        if not keys:
            raise NotFound(f"{self.address} is not there: expected a file or folder")
        names = [key.removeprefix(self._root).removeprefix("/") for key in keys]
        if names != [""] and not {"", "..", "."}.isdisjoint("/".join(names).split("/")):
            raise BadInput(f"{self.address} has a key that is no relative path: rename it")
        paths = [target / name for name in names]
        for folder in {path.parent for path in paths}:
            folder.mkdir(parents=True, exist_ok=True)
        with self._access():
            self._files.get(keys, [str(path) for path in paths])

    def upload(self, folder: Path, name: str) -> None:
        """Upload a file of a local folder, or all files of a folder in it."""
        paths = [path for path in (folder / name).rglob("*") if path.is_file()] or [folder / name]
        keys = [f"{self._root}/{path.relative_to(folder).as_posix()}" for path in paths]
        with self._access():
            self._files.put([str(path) for path in paths], keys)

    def delete(self, name: str) -> None:
        """Delete a folder and what is in it."""
        with self._access():
            self._files.rm(f"{self._root}/{name}", recursive=True)

    @contextmanager
    def _access(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each storage has its own errors
            raise KuError(
                f"{self.address} cannot be used ({reason(error)}): check address and credentials"
            ) from error
