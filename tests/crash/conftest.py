from __future__ import annotations

import pytest

from tests.crash.trials import Player, Story


@pytest.fixture(scope="session")
def story(tmp_path_factory):
    with Player() as player:
        yield Story.tell(player, tmp_path_factory.mktemp("crash"))
