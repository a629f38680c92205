import pytest

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture

GAMES = (
    ("Astro Bot", "Astro Bot is a platform game of 2024. It sold 1.5 million copies by November."),
    ("Black Myth Wukong", "Black Myth Wukong sold 20 million copies in its first month."),
    ("Luigi", "Luigi was arrested in Altoona on 9 December. A trial follows."),
    ("Altoona", "Altoona is a city in Pennsylvania."),
)


@pytest.fixture(scope="module")
def games_base(tmp_path_factory):
    """A base of four units; the first one and Luigi have pictures."""
    folder = tmp_path_factory.mktemp("games")
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        for seed, (name, text) in enumerate(GAMES):
            file = picture(folder / f"{name}.png", seed)
            kb.add(Unit(name, id=name, texts=(text,), images=(file,) if seed in (0, 2) else ()))
    return folder


@pytest.fixture
def games(games_base):
    with KnowledgeBase.open(games_base / "kb", read_only=True) as kb:
        yield kb


@pytest.fixture
def astro_bot(games_base):
    return games_base / "Astro Bot.png"


@pytest.fixture
def luigi(games_base):
    return games_base / "Luigi.png"
