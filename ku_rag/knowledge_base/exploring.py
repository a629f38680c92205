"""The graph, searched by agents for the paths that answer a question (MH-MMKG)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from ku_rag import arguments, pictures
from ku_rag.errors import BadInput, NotFound
from ku_rag.knowledge_base.asking import Asking
from ku_rag.knowledge_base.graphing import Graphing
from ku_rag.store.database import snapshot
from ku_rag.types import IngestReport

if TYPE_CHECKING:
    from ku_rag.graph.model import Entity, Graph
    from ku_rag.graph.search_types import Query
    from ku_rag.ingest.pipeline import Progress

_MOST_PATHS = 100
_MOST_ROUNDS = 20
_MOST_ENTITIES = 1_000_000
_SEEN = 3
"""So many units that a picture looks like may be what a search starts from."""


class Exploring(Graphing, Asking):
    """What is asked of the graph."""

    def graph_search(
        self,
        question: str,
        *,
        images: Sequence[str | Path | Image] = (),
        topic: str | None = None,
        hints: str = "",
        perception: str = "",
        setting: str | None = None,
        most: int = 5,
        rounds: int = 6,
        depth_first: bool = False,
    ) -> dict[str, Any]:
        """Find the paths of the graph that answer a question, and the answer if a model is at hand.

        A model, where the base has one, is perceiver, agents and summariser in one. Without one the
        embedded agents search, and there is no answer in words.

        Args:
            question: a sentence.
            images: pictures that it is about, files or RGB.
            topic: id or name of the entity to start from; None looks for it.
            hints: what pictures do not show, such as the state that things are in.
            perception: what the pictures show, in the words of people.
            setting: what the model is given, as in table 2 of MH-MMKG: "vanilla", "vanilla+",
                "perceptive", "unaided-offline" or "unaided-online"; by default "perceptive" where
                there is a perception, else "unaided-online". "embedded" asks no model.
            most: paths, 1 to 100.
            rounds: no path is longer than so many relations, 0 to 20.
            depth_first: follow each path to its end before the one beside it.

        Returns:
            "setting", "answer", "failed", "perception", "paths" (texts), "found" (the sub-graph,
            or None where the setting searches none), "trace" and "usage".

        Raises:
            NotFound: there is no such entity, or a picture is not there.
            BadInput: something given is not as said, or the setting does not fit.
            ModelFailed, BudgetSpent: a model did not reply, and nothing was found that would be
                lost.
        """
        from ku_rag.graph import search_settings
        from ku_rag.graph.search_types import Query

        graph = self._graph
        query = Query(
            question=arguments.text(question, "the question"),
            pictures=tuple(map(_picture, arguments.several(images, "images"))),
            hints=arguments.text(hints, "the hints"),
            perception=arguments.text(perception, "the perception"),
        )
        if not query.question.strip():
            raise BadInput('the question is empty: ask something, such as "What follows?"')
        start = None
        if topic is not None:
            start = graph.one(arguments.text(topic, "the topic"))
        most = arguments.count(most, "most", least=1, most=_MOST_PATHS)
        rounds = arguments.count(rounds, "rounds", least=0, most=_MOST_ROUNDS)
        depth_first = arguments.flag(depth_first, "depth_first")
        setting = arguments.optional_text(setting, "the setting")
        mllm = None if setting == "embedded" else self._models.mllm
        if mllm is None:
            return self._searched(graph, query, start, setting, most, rounds, depth_first)
        found = search_settings.answer(
            graph,
            query,
            setting or ("perceptive" if query.perception else "unaided-online"),
            mllm,
            topic=start,
            most_paths=most,
            max_rounds=rounds,
            depth_first=depth_first,
            captioner=self.settings.mllm or "",
        )
        return found.to_dict()

    def _searched(
        self,
        graph: Graph,
        query: Query,
        start: Entity | None,
        setting: str | None,
        most: int,
        rounds: int,
        depth_first: bool,
    ) -> dict[str, Any]:
        """What the embedded agents find."""
        from ku_rag.graph.agent_search import explore
        from ku_rag.graph.embedded_agents import EmbeddedAgents

        if setting not in (None, "embedded"):
            raise BadInput(
                f"the setting {setting} asks a model, and there is none: name one with --mllm, or "
                "leave the setting out to have the embedded agents search"
            )
        agents = EmbeddedAgents(graph, self.encoder, most=most, sight=partial(self._seen, graph))
        if query.pictures:
            self._images.refresh()
        with snapshot(self._database.connection):
            found = explore(
                graph,
                query,
                agents,
                topic=start,
                max_paths=most,
                max_rounds=rounds,
                depth_first=depth_first,
            )
        told = found.to_dict()
        return {
            "setting": "embedded",
            "answer": "",
            "failed": "",
            "perception": query.perception,
            "paths": [path.text for path in found.best(most)],
            "found": {k: v for k, v in told.items() if k not in ("trace", "usage")},
            "trace": told["trace"],
            "usage": told["usage"],
        }

    def graph_draw(self, name: str, svg: str | Path, *, hops: int = 1, most: int = 60) -> Path:
        """Draw an entity and what lies around it; returns the file that was written.

        Args:
            name: id, name or alias of the entity.
            svg: the file, which ends in .svg.
            hops: how many relations away an entity may lie, 1 or 2, either way along a relation.
            most: entities that are drawn, up to 200; the picture says how many had no room.

        Raises:
            NotFound: there is no such entity.
            BadInput: several are called so, a number is out of range, or the file cannot
                be written.
        """
        from ku_rag.graph.drawing import draw

        file = arguments.output_file(svg, "the svg")
        graph = self._graph
        with snapshot(self._database.connection):
            drawn = draw(graph, graph.one(arguments.text(name, "the name")), hops=hops, most=most)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drawn, encoding="utf-8")
        return file

    def graph_caption(
        self, names: Sequence[str] = (), *, progress: Progress | None = None
    ) -> IngestReport:
        """Have the base's model caption the pictures of entities, once each ("unaided-offline").

        Captions are kept apart from what people wrote, by the model's name.

        Args:
            names: ids or names of entities; none means all that have pictures.
            progress: called with the number of captions so far.

        Raises:
            NotFound: there is no such entity, or no model.
            Locked: another process is writing.
        """
        from ku_rag.graph.captioning import caption

        arguments.check_callable(progress, "progress")
        mllm = self._models.mllm
        if mllm is None:
            raise NotFound("there is no model to caption with: name one with --mllm")
        graph = self._graph
        chosen = [graph.one(name) for name in arguments.texts(names, "names")]
        started = time.monotonic()
        with self._write() as pipeline:
            entities = chosen or graph.with_pictures(_MOST_ENTITIES)
            made = caption(graph, mllm, entities, model=self.settings.mllm or "model")
            report = pipeline.run(made, progress=progress)
        report.seconds = time.monotonic() - started
        return report

    def _seen(self, graph: Graph, shown: Sequence[Image]) -> list[Entity]:
        """The entities among the units that pictures look like, best first."""
        from ku_rag.answering import evidence_retrieval

        base = self._retrieval()
        found = [evidence_retrieval.matched(base, picture, "", _SEEN) for picture in shown]
        return graph.of_units([one.unit for matched in found for one in matched.rows])


def _picture(image: str | Path | Image) -> Image:
    given = pictures.given(image)
    if given is None:
        raise BadInput("a picture is None: expected a file or an RGB picture")
    return pictures.load_picture(given) if isinstance(given, Path) else given
