"""`GraphView`: everything that a user does with the graph of a knowledge base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

from PIL.Image import Image

from ku_rag import arguments, pictures
from ku_rag.errors import BadInput, NotFound
from ku_rag.graph.model import CAPTION, TOPIC, Direction, Entity, Graph
from ku_rag.graph.model import Path as GraphPath
from ku_rag.retrieval.matching import match
from ku_rag.session import Session
from ku_rag.types import Deleted, IngestReport, Progress, Relation, Unit

# A question is answered sooner without the imports that only other methods need.
if TYPE_CHECKING:
    from ku_rag.graph.drawing import Link
    from ku_rag.graph.entity_view import EntityView, RelationSchema
    from ku_rag.graph.neighbourhood import Neighbourhood
    from ku_rag.graph.overview import Overview
    from ku_rag.graph.search_types import Query, SearchLimits
    from ku_rag.ingest.graph_changes import EntityAdded, RelationAdded
    from ku_rag.ingest.graph_import import GraphReport
    from ku_rag.papers.graphrag.construction import EvidenceSearch
    from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
    from ku_rag.papers.mhmmkg.search_settings import GraphAnswer
    from ku_rag.transfer.graph_export import GraphExport

Statement = tuple[str, str, str]
"""Head, relation and tail; head and tail are ids or names of entities."""

_MOST = 1_000_000
_LONGEST = 20
_MOST_PATHS = 100
_MOST_ROUNDS = 20
_SEEN = 3
"""A search may start from this many of the units that a picture matches."""


class GraphView:
    """The graph of a knowledge base, reached as `KnowledgeBase.graph`.

    An entity is named by its id, its name or an alias. Methods raise `NotFound` for a name that
    no entity has, and `BadInput` for a name that several have, beside what `KnowledgeBase` says.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    # ---- changes -------------------------------------------------------------------------------

    def add_entity(
        self,
        name: str,
        *,
        id: str | None = None,
        kind: str | None = None,
        topic: bool = False,
        caption: str = "",
        texts: Sequence[str] = (),
        images: Sequence[str | Path] = (),
        aliases: Sequence[str] = (),
        unit: str | None = None,
    ) -> EntityAdded:
        """Add an entity, or add to what was added of it before.

        Without an id an entity joins the unit that has its name, if there is one.

        Args:
            name: of the entity.
            id: its identity; by default its name.
            kind: monster, attack …
            topic: whether a question may be about it as a whole.
            caption: of its pictures, by people.
            texts: what else is known.
            images: picture files.
            aliases: further names.
            unit: id or name of the unit that it is.
        """
        from ku_rag.ingest import graph_changes
        from ku_rag.ingest.readers.decoding import clean_name
        from ku_rag.ingest.readers.graph_records import named

        files = arguments.paths(images, "images")
        caption = arguments.text(caption, "the caption")
        topic = arguments.check(topic, "topic", bool)
        described = Unit(
            named(arguments.text(name, "the name"), "the name"),
            id=None if id is None else named(arguments.text(id, "the id"), "the id"),
            kind=clean_name(arguments.optional_text(kind, "the kind") or "") or None,
            aliases=tuple(filter(None, map(clean_name, arguments.texts(aliases, "aliases")))),
            images=files,
            texts=arguments.texts(texts, "texts"),
            metadata=({TOPIC: True} if topic else {}) | ({CAPTION: caption} if caption else {}),
            match=topic,
        )
        same_as = arguments.optional_text(unit, "the unit")
        pictures.check_files(files)
        with self._session.write() as writer:
            return graph_changes.add_entity(writer, self._graph(), described, same_as)

    def add_relation(
        self,
        head: str,
        relation: str,
        tail: str,
        *,
        information: str | None = None,
        condition: str | None = None,
    ) -> RelationAdded:
        """Add a relation between two entities.

        A head that is new is added as an entity. A tail may be a name that no entity has.

        Args:
            head: where it starts.
            relation: the word for it, such as "borders".
            tail: where it ends.
            information: more about the relation.
            condition: when it holds.
        """
        from ku_rag.ingest import graph_changes

        head, relation, tail = _statement((head, relation, tail))
        stated = Relation(relation, tail, information=information, condition=condition)
        with self._session.write() as writer:
            return graph_changes.add_relation(writer, self._graph(), stated, head)

    def delete(
        self,
        name: str | None = None,
        *,
        relation: Statement | None = None,
        condition: str | None = None,
    ) -> Deleted:
        """Delete an entity with all that only it brought and every relation of it, or a relation.

        What a file states comes back when the file is imported again.

        Args:
            name: the entity.
            relation: (head, relation, tail) instead: every relation that is stated so. Where
                several entities have the name of the tail, only those with exactly this text.
            condition: of the relation: only those that hold under it.
        """
        from ku_rag.ingest import graph_changes

        if (name is None) == (relation is None):
            raise BadInput("expected the name of an entity, or a relation: give one of them")
        condition = arguments.optional_text(condition, "condition")
        if name is not None:
            if condition is not None:
                raise BadInput("condition belongs to a relation: leave it out")
            entity = arguments.text(name, "the name")
            with self._session.write() as writer:
                return graph_changes.delete_entity(writer, self._graph(), entity)
        head, word, tail = _statement(relation)
        with self._session.write() as writer:
            return graph_changes.delete_relation(writer, self._graph(), head, word, tail, condition)

    def caption(
        self, names: Sequence[str] = (), *, progress: Progress | None = None
    ) -> IngestReport:
        """Have the base's model caption the pictures of entities, once each.

        Captions by a model are stored apart from those that people wrote.

        Args:
            names: entities; none means all that have pictures.
            progress: called with the number of captions so far.

        Raises:
            NotFound: the base has no model.
        """
        from ku_rag.mllm.prompts import load_prompts
        from ku_rag.papers.mhmmkg import captioning

        chosen, session = arguments.texts(names, "names"), self._session
        mllm = session.mllm()
        if mllm is None:
            raise NotFound("there is no model to caption with: name one with --mllm")
        arguments.callback(progress, "progress")
        with session.write() as writer:
            graph = self._graph()
            entities = [graph.entity(name) for name in chosen] or graph.with_pictures(_MOST)
            model = session.settings.mllm or "model"
            prompts = load_prompts("ku_rag.papers.mhmmkg", session.prompts)
            captions = captioning.caption(graph, mllm, entities, model=model, prompts=prompts)
            return writer.run(captions, progress=progress)

    def captions(self) -> list[tuple[str, str, Mapping[str, str]]]:
        """Entities with captions by people and by models: name, caption, model → caption."""
        with self._session.read():
            graph = self._graph()
            read = ((e.name, graph.attributes(e)) for e in graph.with_pictures(_MOST))
            return [(name, a.caption, a.captions) for name, a in read if a.caption and a.captions]

    # ---- questions -----------------------------------------------------------------------------

    def show(self, name: str, *, most: int = 100) -> EntityView:
        """What is known of an entity, and its relations in both directions.

        Args:
            name: the entity.
            most: relations listed in each direction, 0 to 1,000,000; "counts" has the number of
                all.
        """
        from ku_rag.graph import entity_view

        name = arguments.text(name, "the name")
        arguments.count(most, "most", least=0, most=_MOST)
        with self._session.read():
            graph = self._graph()
            return entity_view.show(graph, graph.entity(name), most=most)

    def schema(self) -> list[RelationSchema]:
        """The words of the relations, with kinds of entities and counts, most frequent first."""
        from ku_rag.graph import entity_view

        with self._session.read() as database:
            return entity_view.schema(database.connection)

    def paths(
        self,
        start: str,
        end: str | None = None,
        *,
        most: int = 10,
        longest: int = 4,
        direction: Direction = "out",
    ) -> list[GraphPath]:
        """The shortest paths between two entities, or all from one, shortest first.

        Args:
            start: the entity where they begin.
            end: where they end; None for anywhere.
            most: number of paths, 1 to 1,000,000.
            longest: relations of a path, 1 to 20.
            direction: "out" follows relations to their tails, "in" to their heads, "both" either.
        """
        from ku_rag.graph.traversal import shortest_paths

        first = arguments.text(start, "the start")
        last = arguments.optional_text(end, "the end")
        arguments.count(most, "most", least=1, most=_MOST)
        arguments.count(longest, "longest", least=1, most=_LONGEST)
        if direction not in ("out", "in", "both"):
            raise BadInput(f"direction is {direction!r}: expected out, in or both")
        with self._session.read():
            graph = self._graph()
            return shortest_paths(
                graph,
                graph.entity(first),
                None if last is None else graph.entity(last),
                most=most,
                longest=longest,
                direction=direction,
            )

    def neighbourhood(self, name: str, *, hops: int = 1, most: int = 60) -> Neighbourhood:
        """The entities around an entity, and the relations between them.

        Args:
            name: the entity.
            hops: relations, in either direction, from it to the farthest entity: 1 or 2.
            most: entities, up to 200.
        """
        from ku_rag.graph.neighbourhood import neighbourhood

        name = arguments.text(name, "the name")
        with self._session.read():
            graph = self._graph()
            return neighbourhood(graph, graph.entity(name), hops=hops, most=most)

    def search(
        self,
        question: str,
        *,
        images: Sequence[str | Path | bytes | Image] = (),
        topic: str | None = None,
        hints: str = "",
        perception: str = "",
        setting: str | None = None,
        gold: Sequence[Sequence[str]] = (),
        most: int = 5,
        rounds: int = 6,
        depth_first: bool = False,
    ) -> GraphAnswer:
        """Find the paths that answer a question, and the answer if the base has a model (MH-MMKG).

        A model perceives, selects the topic, expands, validates and answers. Without one,
        facts and relations are walked, and there is no answer in words.

        Args:
            question: a sentence.
            images: pictures that it is about, files or RGB.
            topic: the entity to start from; None selects it.
            hints: what pictures do not show, such as a state.
            perception: what the pictures show, in the words of people.
            setting: what the model is given, as in table 2 of MH-MMKG: "vanilla", "vanilla+",
                "knowledgeable", "perceptive", "unaided-offline" or "unaided-online"; by default
                "perceptive" where there is a perception, else "unaided-online". "embedded" asks no
                model.
            gold: annotated paths for "knowledgeable", the names of the entities of each.
            most: paths, 1 to 100.
            rounds: relations of a path, 0 to 20.
            depth_first: follow each path to its end before the next.

        Raises:
            ModelFailed, BudgetSpent: a model did not reply before anything was found.
        """
        from ku_rag.graph.search_types import Query, SearchLimits

        query = Query(
            question=arguments.text(question, "the question"),
            pictures=tuple(map(_picture, arguments.several(images, "images"))),
            hints=arguments.text(hints, "the hints"),
            perception=arguments.text(perception, "the perception"),
        )
        limits = SearchLimits(
            max_paths=arguments.count(most, "most", least=1, most=_MOST_PATHS),
            max_rounds=arguments.count(rounds, "rounds", least=0, most=_MOST_ROUNDS),
            depth_first=arguments.check(depth_first, "depth_first", bool),
        )
        topic = arguments.optional_text(topic, "the topic")
        setting = arguments.optional_text(setting, "the setting")
        if not query.question.strip():
            raise BadInput('the question is empty: ask something, such as "What follows?"')
        routes = [arguments.texts(names, "gold") for names in gold]
        return self._search(query, limits, topic, setting, routes)

    def evidence(
        self,
        question: str,
        *,
        image: str | Path | bytes | Image | None = None,
        construction: EvidenceSettings | None = None,
    ) -> EvidenceSearch:
        """Build the evidence graph of a question from texts, tables and pictures of the base.

        No graph has to exist beforehand (Query-Driven Multimodal GraphRAG). The base's model
        names what the graph must contain, takes it from retrieved texts, reads tables and
        pictures that bear on the question, and judges when the graph is enough. Without a model,
        the graph consists of relations, labelled lines and cells that the question asks for.

        Args:
            question: a sentence.
            image: a picture that it is about; see `KnowledgeBase.query`.
            construction: how the graph is built; see `EvidenceSettings`.

        Raises:
            ModelFailed, BudgetSpent: the model did not reply with a pattern.
        """
        from ku_rag.papers.graphrag import graph_evidence

        session, question = self._session, arguments.text(question, "the question")
        if not question.strip():
            raise BadInput('the question is empty: ask something, such as "Who sang it?"')
        picture = None if image is None else _picture(image)
        with session.use():
            if picture is not None:
                session.encoding.images.refresh()
            base = session.retrieval()
            with session.read():
                matched = match(base, picture, question, session.settings.k_units)
            return graph_evidence.build_graph(
                base, question, matched, session.mllm(), session.prompts, construction
            )

    def _search(
        self,
        query: Query,
        limits: SearchLimits,
        topic: str | None,
        setting: str | None,
        gold: Sequence[Sequence[str]],
    ) -> GraphAnswer:
        """Search by a model if there is one and the setting allows it, else by facts."""
        from ku_rag.graph.traversal import named_path
        from ku_rag.mllm.prompts import load_prompts
        from ku_rag.papers.mhmmkg import search_settings
        from ku_rag.reading.path_search import search_without_model

        session = self._session
        embedded = search_settings.EMBEDDED
        mllm = None if setting == embedded else session.mllm()
        with session.use():
            graph = self._graph()
            if mllm is not None:
                return search_settings.answer(
                    graph,
                    query,
                    setting or ("perceptive" if query.perception else "unaided-online"),
                    mllm,
                    limits,
                    topic=None if topic is None else graph.entity(topic),
                    gold=[named_path(graph, names) for names in gold],
                    captioner=session.settings.mllm or "",
                    prompts=load_prompts("ku_rag.papers.mhmmkg", session.prompts),
                )
            if setting not in (None, embedded):
                raise BadInput(
                    f"the setting {setting} asks a model, and there is none: name one with "
                    "--mllm, or leave the setting out to walk facts and relations"
                )
            if query.pictures:
                session.encoding.images.refresh()
            with session.read():
                start = None if topic is None else graph.entity(topic)
                result = search_without_model(graph, query, limits, sight=self._match, topic=start)
                return search_settings.GraphAnswer(
                    embedded, "", "", query.perception, result.paths, result, result.trace
                )

    # ---- files ---------------------------------------------------------------------------------

    def import_file(self, path: str | Path, *, progress: Progress | None = None) -> GraphReport:
        """Import a graph: JSON lines, GraphML, or a folder of workbooks; see docs/graph.md.

        What the same file said before is replaced. A file that could not be read completely
        deletes nothing. Of a video that is named without keyframes, ten frames are taken.

        Args:
            path: the file or folder.
            progress: called with the number of entities and relations read, then of units read.
        """
        from ku_rag.ingest import graph_import
        from ku_rag.ingest.readers.parser import Limits

        session, source = self._session, arguments.path(path, "the graph")
        # Linked pictures stay where they are, so keyframes must stay too.
        frames = session.layout.root / "frames" if session.settings.images == "link" else None
        arguments.callback(progress, "progress")
        with session.write() as writer:
            return graph_import.import_graph(
                writer,
                session.database,
                source,
                limits=Limits.of(session.settings),
                frames=frames,
                progress=progress,
            )

    def export(self, path: str | Path) -> GraphExport:
        """Write the graph, every unit an entity, so that `import_file` makes the same of it.

        Args:
            path: a file that ends in .jsonl or .graphml, beside which a folder of its pictures is
                made; or, without an ending, a new folder of workbooks.

        Raises:
            Refused: the folder holds something, or that of pictures exists without the file, or
                it is inside the knowledge base.
        """
        from ku_rag.transfer.graph_export import export_graph

        target = arguments.path(path, "the graph").absolute()
        with self._session.use() as database:
            return export_graph(database.connection, self._session.layout, target)

    def draw(self, name: str, svg: str | Path, *, hops: int = 1, most: int = 60) -> Path:
        """Draw an entity and its surroundings; returns the file that was written.

        Args:
            name: the entity.
            svg: the file, which ends in .svg.
            hops: relations, in either direction, from it to the farthest entity: 1 or 2.
            most: entities that are drawn, up to 200; the picture says how many were left out.
        """
        file = arguments.output_file(svg, "the svg")
        drawn = self.drawing(name, hops=hops, most=most)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drawn, encoding="utf-8")
        return file

    def drawing(self, name: str, *, hops: int = 1, most: int = 60, link: Link | None = None) -> str:
        """The SVG document of `draw`; `link` gives the address that an entity links to."""
        from ku_rag.graph.drawing import draw

        name = arguments.text(name, "the name")
        with self._session.read():
            graph = self._graph()
            return draw(graph, graph.entity(name), hops=hops, most=most, link=link)

    def overview(
        self, *, relation: str = "", include: Sequence[Entity] = (), most: int = 500
    ) -> Overview:
        """The entities with the most relations, and the relations between them, to be drawn.

        Args:
            relation: the name of the only relations that count; "" for all.
            include: entities that are selected in any case.
            most: greatest number of entities, 1 to 500.
        """
        from ku_rag.graph.overview import overview

        relation = arguments.text(relation, "the relation")
        with self._session.read():
            return overview(self._graph(), relation=relation, include=include, most=most)

    # ---- inside --------------------------------------------------------------------------------

    def _graph(self) -> Graph:
        return Graph(self._session.database.connection, self._session.layout)

    def _match(self, images: Sequence[Image]) -> list[Entity]:
        """The entities among the units that pictures match, best first."""
        base, graph = self._session.retrieval(), self._graph()
        matches = [match(base, image, "", _SEEN) for image in images]
        entities = graph.of_units([unit.row for matched in matches for unit in matched.units])
        return [entity for entity in entities if entity.has_relations]


def _picture(image: str | Path | bytes | Image) -> Image:
    """Return a picture argument in the size that is matched with pictures of units."""
    picture = pictures.check_picture(image)
    if picture is None:
        raise arguments.wrong(image, "a picture", "a file or an RGB picture")
    return pictures.fit_picture(picture)[0]


def _statement(relation: object) -> Statement:
    from ku_rag.ingest.readers.graph_records import named

    if isinstance(relation, Set):
        raise BadInput("relation is a set, which has no order: expected (head, relation, tail)")
    parts = arguments.texts(relation, "relation")
    if len(parts) != 3:
        raise BadInput(f"relation has {len(parts)} parts: expected (head, relation, tail)")
    head, word, tail = parts
    return named(head, "the head"), named(word, "the relation"), named(tail, "the tail")
