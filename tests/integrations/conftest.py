"""Skip tests of frameworks that are not installed; `make test-integrations` installs them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture

PACKAGES = {
    "test_langchain": ("langchain_tests",),
    "test_haystack": ("haystack",),
    "test_llamaindex": ("llama_index",),
    "test_integration_examples": ("langchain_core", "haystack", "llama_index"),
}

FRUITS = {
    "Mango": ("Peru", "sweet"),
    "Kiwi": ("Italy", "sour"),
    "Fig": ("Turkey", "sweet"),
    "Plum": ("Serbia", "sour"),
}


class _SkippedModule(pytest.Module):
    """A test module whose framework is not installed; it is not imported."""

    def collect(self) -> list[pytest.Item]:
        pytest.skip("needs the frameworks of `make test-integrations`", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip a module without importing it."""
    if all(find_spec(package) for package in PACKAGES.get(module_path.stem, ())):
        return None
    return _SkippedModule.from_parent(parent, path=module_path)


@pytest.fixture(scope="session")
def fruit_pictures(tmp_path_factory):
    """Pictures of two fruits by name."""
    root = tmp_path_factory.mktemp("pictures")
    return {name: picture(root / f"{name}.png", n) for n, name in enumerate(["mango", "kiwi"])}


@pytest.fixture(scope="session")
def fruits(tmp_path_factory, fruit_pictures):
    """A base of four fruits, two of them with pictures; it is not changed."""
    with KnowledgeBase.open(tmp_path_factory.mktemp("fruits") / "kb", create=True) as kb:
        for name, (country, taste) in FRUITS.items():
            image = fruit_pictures.get(name.lower())
            kb.add(
                Unit(
                    name,
                    id=name.lower(),
                    images=[image] if image else [],
                    texts=[f"The {name} comes from {country}."],
                    metadata={"taste": taste},
                )
            )
        yield kb
