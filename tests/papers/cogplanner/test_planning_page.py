"""The page on planning: its fields exist, and its searcher and its plan work."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlparse

import pytest

from ku_rag.papers.cogplanner.plan import ACTIONS, Hit, Plan, PlannedSearch, PlanSettings, Round

PAGE = (Path(__file__).parents[3] / "docs" / "planning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [Plan, PlanSettings, Round, PlannedSearch, Hit])
def test_every_field_of_the_document_is_described(kind):
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in PAGE] == []


def test_every_action_is_described():
    assert [action for action in ACTIONS if f"| `{action}` |" not in PAGE] == []


def test_the_plan_of_the_page_can_be_carried_out(games, luigi):
    [written] = [
        block for block in re.findall(r"```json\n(.*?)```", PAGE, re.S) if "rounds" in block
    ]
    plan = Plan.from_dict(json.loads(written))
    assert [round_.action for round_ in games.plan(luigi, plan.question, plan).rounds] == [
        "image",
        "text",
    ]


class SearxngHandler(BaseHTTPRequestHandler):
    """Replies as SearXNG does: two results for any query."""

    def do_GET(self):
        query = parse_qs(urlparse(self.path).query)["q"][0]
        results = [
            {"url": f"https://one.example/{n}", "title": f"About {query}", "content": "Visby."}
            for n in range(2)
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"results": results}).encode())

    def log_message(self, *_):
        """Write no log."""


def test_the_searcher_of_the_page_searches(games, monkeypatch):
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names = {}
    exec(code, names)
    plan = Plan.from_dict(
        {"question": "Where?", "rounds": [{"queries": ["Gotland"], "action": "searcher:web"}]}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), SearxngHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("SEARXNG_URL", f"http://127.0.0.1:{server.server_port}")
        answer = games.query(None, "Where?", plan=plan, searchers={"web": names["WebSearcher"]()})
        server.shutdown()
    [search] = answer.plan.rounds[0].searches
    assert (search.error, [hit.id for hit in search.hits]) == (
        "",
        [f"searcher:web:https://one.example/{n}" for n in range(2)],
    )
    assert [chunk.text for chunk in answer.chunks] == ["Visby.", "Visby."]
