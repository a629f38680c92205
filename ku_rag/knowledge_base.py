"""`KnowledgeBase`: everything that a user does with a knowledge base, except with its graph."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag import arguments, manifest, papers, pictures, plugins
from ku_rag.answering import pipeline
from ku_rag.answering.pipeline import QueryEvent
from ku_rag.encoders import load_encoder, sides
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.errors import BadInput, KuError, Locked, NotFound, Refused
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.cache import ReplyCache
from ku_rag.reading.examples import Example, examples
from ku_rag.regions.base import Segmenter
from ku_rag.rerankers.base import Reranker
from ku_rag.session import Session
from ku_rag.settings import Settings
from ku_rag.store import compaction, facets, facts, history, table_rows, unit_records
from ku_rag.store.database import Database
from ku_rag.store.facets import Facets
from ku_rag.store.facts import Fact
from ku_rag.store.filters import UnitFilter, Where
from ku_rag.store.history import UnitChange
from ku_rag.store.layout import Layout
from ku_rag.store.schema import SCHEMA
from ku_rag.store.stored_answers import StoredAnswers
from ku_rag.store.unit_records import UnitRecord, UnitSummary
from ku_rag.types import (
    Added,
    Answer,
    Compacted,
    Deleted,
    FolderChange,
    IndexSync,
    IngestReport,
    Progress,
    Relation,
    SearchResult,
    Stats,
    Table,
    Unit,
)

# A question is answered sooner without the imports that only other methods need.
if TYPE_CHECKING:
    from ku_rag.answering.calibration import ConfidenceTuning
    from ku_rag.graph_view import GraphView
    from ku_rag.indexes.tuning import Tuning
    from ku_rag.ingest.extraction import Extraction
    from ku_rag.ingest.pipeline import Item
    from ku_rag.ingest.reindexing import Reindexed
    from ku_rag.ingest.upgrading import Upgraded
    from ku_rag.ingest.verification import IntegrityReport
    from ku_rag.papers.cogplanner.plan import Plan, PlanSettings
    from ku_rag.papers.cogplanner.rounds import PlanRun
    from ku_rag.papers.cogplanner.searchers import Searchers
    from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
    from ku_rag.retrieval.text_weight import TextTuning
    from ku_rag.transfer.increment import Applied
    from ku_rag.transfer.parquet_export import Exported
    from ku_rag.transfer.snapshot import Snapshot

_MOST_FOUND = 100_000


class QueryOptions(TypedDict, total=False):
    """Options of `KnowledgeBase.query`.

    Attributes:
        k: most chunks of evidence and most units that the picture may match, 1 to 100,000; by
            default the settings `k_chunks` and `k_units`.
        passage: PNG file to write the multimodal passage to; further pages get a number.
        report: HTML file that shows how the question was answered.
        kcc: False asks a model once, with the evidence (KU-RAG, section 4.5, "w/o KCC").
        units: False searches texts alone, by question and caption of the picture ("w/o KU").
        graph: False leaves out the graph's paths from the matched units.
        strict: a published method that answers alone, a key of `ku_rag.papers.STRICT`; see
            docs/reproduction.md.
        method: "evidence", see `GraphView.evidence`; "model-only", without evidence; or "".
        construction: how that graph is built.
        plan: "parallel" or "sequential", or more settings: searches in rounds, see
            `KnowledgeBase.plan`; or a plan whose decisions are carried out.
        searchers: names of installed searchers, or searchers by name, that a plan may ask.
        kind: only units of this kind count.
        where: only units with such metadata count, as in `KnowledgeBase.list`.
        unit: id or unique name of the unit that the question is about, such as one of those that
            an answer with the outcome "unsure" lists.
    """

    k: int | None
    passage: str | Path | None
    report: str | Path | None
    kcc: bool
    units: bool
    graph: bool
    strict: str
    method: str
    construction: EvidenceSettings | None
    plan: str | PlanSettings | Plan | None
    searchers: Searchers
    kind: str | None
    where: Where
    unit: str | None


def _deprecated(name: str) -> Callable[..., Any]:
    """Return a method that warns and calls the function of `ku_rag.evaluation` with its name."""

    def method(kb: KnowledgeBase, *values: object, **options: object) -> object:
        from ku_rag import evaluation

        message = f"KnowledgeBase.{name}(...) is deprecated: call ku_rag.evaluation.{name}(kb, ...)"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(evaluation, name)(kb, *values, **options)

    method.__doc__ = f"Deprecated: call `ku_rag.evaluation.{name}` with this base."
    return method


class KnowledgeBase:
    """A folder that holds knowledge units and answers questions from them.

    `KnowledgeBase.open` makes one; it is a context manager. Any number of processes may read a
    knowledge base while one writes to it. One object may be used by many threads: each read sees
    one state of the base, and writes wait for each other.

    Every method raises `Closed` after `close`, `Corrupt` where a row fails its checksum,
    `NotFound` where a file, a folder or a unit that is named does not exist, `BadInput` where an
    argument is not what its description says, several units have a name, or a file cannot be read,
    and `MissingExtra` where a package that it needs is not installed. Every method that writes
    raises `ReadOnly` where the base or a folder cannot be written to, `Locked` while another
    process writes, and `Mismatch` if another process has changed the encoder that this one has
    named.

    Attributes:
        settings: how the base works.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.settings: Settings = session.settings

    @classmethod
    def open(
        cls,
        path: str | Path = "kb",
        *,
        create: bool = False,
        read_only: bool = False,
        as_made: bool = False,
        encoder: str | Encoder | None = None,
        segmenter: str | Segmenter | None = None,
        reranker: str | Reranker | None = None,
        mllm: str | MLLM | None = None,
        **options: object,
    ) -> Self:
        """Open a knowledge base.

        Args:
            path: its folder.
            create: make it if it does not exist.
            read_only: never write.
            as_made: use the encoder that the base was made with, whatever the settings name, and
                load it only when something is encoded; `reindex` and `export` need no more.
            encoder: see `ku_rag.load_encoder`, or an object with the `Encoder` protocol; by
                default the one that the base was made with.
            segmenter: see `ku_rag.load_segmenter`, or an object with the `Segmenter` protocol.
            reranker: see `ku_rag.load_reranker`, or an object with the `Reranker` protocol; "" for
                none; by default the one that the settings name, if any.
            mllm: the multimodal model that answers, by the name that its endpoint knows, or an
                object with the `MLLM` protocol; by default the one that the settings name, if any.
            **options: further settings, see `ku_rag.settings.Settings`.

        Raises:
            NotFound: there is no knowledge base, or no encoder of that name.
            Outdated: an earlier version made the base, and it is opened read-only, or is a copy
                made by `snapshot`; see `upgrade`.
            Mismatch: the base was made with another encoder or by a later version, or the folder
                holds something else.
            ReadOnly: it cannot be written to, and `read_only` was not given.
        """
        return cls(
            Session(
                path,
                create=create,
                read_only=read_only,
                as_made=as_made,
                encoder=encoder,
                segmenter=segmenter,
                reranker=reranker,
                mllm=mllm,
                options=options,
            )
        )

    def close(self) -> None:
        """Close the knowledge base; it cannot be used afterwards."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @cached_property
    def graph(self) -> GraphView:
        """The entities and relations."""
        from ku_rag.graph_view import GraphView

        return GraphView(self._session)

    @property
    def answers(self) -> StoredAnswers:
        """The stored answers, and feedback on them."""
        return self._session.answers

    @property
    def path(self) -> Path:
        """The folder."""
        return self._session.layout.root

    @property
    def upload_root(self) -> str:
        """The path that names of uploaded sources begin with.

        It is that of the folder of uploads at the first upload, also after the base was moved.
        """
        with self._session.use() as database:
            return str(database.meta("upload_root") or self._session.layout.uploads)

    @property
    def encoder(self) -> Encoder:
        """The encoder that makes vectors."""
        return self._session.encoding.encoder

    @property
    def segmenter(self) -> Segmenter:
        """The segmenter that proposes regions of a picture; made at its first use."""
        return self._session.segmenter()

    @property
    def mllm(self) -> MLLM | None:
        """The multimodal model that answers, if there is one; made at its first use."""
        return self._session.mllm()

    @property
    def prompts(self) -> Path | None:
        """The folder of the setting `prompts`; None without one."""
        return self._session.prompts

    @property
    def commits(self) -> int:
        """The number of the last commit, which names the state of the base."""
        with self._session.use() as database:
            return int(database.meta("commits") or 0)

    # ---- questions -----------------------------------------------------------------------------

    def query(
        self,
        image: str | Path | bytes | Image | None,
        question: str,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question about a picture.

        Args:
            image: a picture file, its content, or a picture in memory; None asks without one.
            question: a sentence.
            **options: see `QueryOptions`.

        Raises:
            ModelFailed, BudgetSpent: the multimodal model did not answer.
        """
        *_, last = self.query_events(image, question, **options)
        return cast(Answer, last.answer)

    def query_events(
        self,
        image: str | Path | bytes | Image | None,
        question: str,
        **options: Unpack[QueryOptions],
    ) -> Iterator[QueryEvent]:
        """Answer a question, and yield each step when it has ended; the last one has the answer.

        Arguments and errors are those of `query`.
        """
        if unknown := options.keys() - QueryOptions.__annotations__.keys():
            raise TypeError(f"query() got an unexpected keyword argument {min(unknown)!r}")
        session, picture = self._session, pictures.check_picture(image)
        k = options.get("k")
        steps = papers.load_steps(options)
        if steps and steps.needs_model and session.mllm() is None:
            strict = options["strict"]
            raise NotFound(f"strict={strict!r} asks a model: name one with --mllm")
        k_units, k_chunks = self._most(k, steps.most if steps else None)
        query = pipeline.QueryInput(
            arguments.text(question, "the question"),
            image=picture,
            k_units=k_units,
            k_chunks=k_chunks,
            sent_chunks=session.settings.mllm_chunks,
            identify=session.settings.identify,
            passage=_output(options.get("passage"), "the passage", picture),
            report=_output(options.get("report"), "the report", picture),
            kcc=options.get("kcc", True),
            with_units=options.get("units", True),
            with_paths=options.get("graph", True),
            prompts=session.prompts,
            method=arguments.text(options.get("method", ""), "the method"),
            construction=options.get("construction"),
            unit=arguments.text(options.get("unit") or "", "unit"),
            page_image=self.page_image,
        )
        plan = options.get("plan") or ("sequential" if steps and steps.actions else None)
        if plan and (query.method or query.unit or not query.with_units):
            raise BadInput(
                "plan cannot be combined with method, unit or units=False: leave out one of them"
            )
        if query.construction is not None and steps is None:
            raise BadInput(
                "options of an evidence graph, such as --no-table-mining (construction), need "
                'method="evidence" or strict="graphrag": add one, or leave them out'
            )
        chosen = UnitFilter.parse(options.get("kind"), options.get("where", ()))
        with session.use():
            if picture is not None:
                session.encoding.images.refresh()
            run = None
            if plan:
                searchers = options.get("searchers", ())
                run = self._plan_run(query, plan, searchers, chosen, steps)
                for step in run.rounds():
                    yield pipeline.QueryEvent("round", step.to_dict())
            base, planned = session.retrieval(chosen), run.planned(k) if run else None
            models = session.mllm(), planned, session.mllm("vision_mllm")
            yield from pipeline.ask(base, query, *models, steps)

    def plan(
        self,
        image: str | Path | bytes | Image | None,
        question: str,
        plan: str | PlanSettings | Plan = "sequential",
        *,
        searchers: Searchers = (),
        kind: str | None = None,
        where: Where = (),
        strict: str = "",
    ) -> Plan:
        """Plan a question: reformulate it and search in rounds, without answering it (CogPlanner).

        In each round, the base's model reformulates the query or decomposes it, and takes one
        action; see `ku_rag.papers.cogplanner.plan.ACTIONS`. Without a model, the embedded planner
        does so.

        Args:
            image: see `query`.
            question: see `query`.
            plan: "parallel" or "sequential", or more settings; or a plan, such as one that was
                edited, whose decisions are carried out.
            searchers: names of installed searchers, or searchers by name, that may be asked.
            kind: see `query`.
            where: see `query`.
            strict: "cogplanner" for the published actions, by a model; "" for all.
        """
        steps = papers.load_steps({"strict": strict})
        if steps and not steps.actions:
            raise BadInput(
                f'strict={strict!r} makes no plan: expected "cogplanner", or leave it out'
            )
        query = pipeline.QueryInput(
            arguments.text(question, "the question"),
            image=pictures.check_picture(image),
            prompts=self._session.prompts,
        )
        with self._session.use():
            if query.image is not None:
                self._session.encoding.images.refresh()
            run = self._plan_run(query, plan, searchers, UnitFilter.parse(kind, where), steps)
            for _ in run.rounds():
                pass
            return run.plan()

    def _plan_run(
        self,
        query: pipeline.QueryInput,
        plan: str | PlanSettings | Plan,
        searchers: Searchers,
        units: UnitFilter,
        steps: type[pipeline.QuerySteps] | None,
    ) -> PlanRun:
        from ku_rag.papers.cogplanner.rounds import start

        session, actions = self._session, steps.actions if steps else ()
        retrieve = partial(session.retrieval, units)
        return start(retrieve, query, plan, searchers, session.mllm(), actions)

    def _most(self, k: int | None, published: int | None) -> tuple[int, int]:
        """Return the maximum numbers of units and of chunks of a query: chosen, or published."""
        settings = self._session.settings
        if k is not None:
            k = arguments.count(k, "k", least=1, most=_MOST_FOUND)
        if published:
            return min(published, settings.k_units), k or min(published, settings.k_chunks)
        return k or settings.k_units, k or settings.k_chunks

    def search(
        self,
        *,
        image: str | Path | bytes | Image | None = None,
        text: str = "",
        vector: NDArray[np.float32] | None = None,
        k: int = 10,
        kind: str | None = None,
        where: Where = (),
    ) -> SearchResult:
        """Find units and chunks for a picture, a text, or both; or chunks for a vector.

        Args:
            image: a picture file, its content, or a picture in memory.
            text: words to look for.
            vector: float32[dim] of length 1: finds the nearest chunks, without picture and text.
            k: most units, and most chunks, 1 to 100,000.
            kind: only units of this kind count.
            where: only units with such metadata count, as in `list`.
        """
        session, picture = self._session, pictures.check_picture(image)
        chosen = UnitFilter.parse(kind, where)
        encoding = session.encoding
        index = encoding.chunks if picture is None else encoding.images
        arguments.text(text, "the text")
        arguments.count(k, "k", least=1, most=_MOST_FOUND)
        query = None
        if vector is not None:
            if image is not None or text:
                raise BadInput("a vector is searched for by itself: leave out picture and text")
            shape = {"vector": (1, encoding.chunks.dim)}
            query = arguments.ready_vectors({"vector": [vector]}, expected=shape)["vector"]
        with session.use():
            # Before the state to be searched is chosen: index files may be of a later one by then.
            index.refresh()
            with session.read():
                base = session.retrieval(chosen)
                return pipeline.find(base, image=picture, text=text, vector=query, k=k)

    # ---- contents ------------------------------------------------------------------------------

    def list(
        self,
        *,
        kind: str | None = None,
        where: Where = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[UnitSummary]:
        """Units with counts, ordered by id.

        Args:
            kind: only units of this kind.
            where: only units that pass these conditions on metadata, such as "calories<100"; see
                `ku_rag.store.filters.UnitFilter.parse`.
            limit: most units, from 0 on; None for all.
            offset: units that are left out before the first.
        """
        chosen = UnitFilter.parse(kind, where)
        if limit is not None:
            arguments.count(limit, "limit", least=0)
        arguments.count(offset, "offset", least=0)
        with self._session.read() as database:
            return unit_records.list_units(database.connection, chosen, limit=limit, offset=offset)

    def kinds(self) -> dict[str, int]:
        """Return the number of units of each kind, the most frequent first."""
        with self._session.read() as database:
            return unit_records.kinds(database.connection)

    def facets(self, *, kind: str | None = None, where: Where = ()) -> Facets:
        """Return labels with few values, or with numbers, of the units that pass conditions.

        With conditions, the facets are those of all units of the kind, with the remaining values.

        Args:
            kind: see `list`.
            where: see `list`.
        """
        chosen, of_kind = UnitFilter.parse(kind, where), UnitFilter.parse(kind, ())
        with self._session.read() as database:
            unfiltered = facets.of_units(database.connection, of_kind)
            if chosen == of_kind:
                return unfiltered
            return facets.of_units(database.connection, chosen, unfiltered.facets)

    def examples(self, count: int = 4) -> builtins.list[Example]:
        """Return at most `count` example questions about the base."""
        count = arguments.count(count, "count", least=1)
        with self._session.read() as database:
            return examples(database.connection, count)

    def show(self, unit_id: str) -> UnitRecord:
        """One unit with its pictures, texts, relations and sources.

        Args:
            unit_id: its id, or a name that no other unit has.
        """
        unit_id = arguments.text(unit_id, "the id")
        with self._session.read() as database:
            return unit_records.read_unit(database.connection, self._session.layout, unit_id)

    def facts(self, unit_id: str) -> builtins.list[Fact]:
        """What is stated of a unit: in metadata, texts and tables, and by relations.

        Args:
            unit_id: its id, or a name that no other unit has.
        """
        unit_id = arguments.text(unit_id, "the id")
        with self._session.read() as database:
            return facts.of_unit(
                database.connection, unit_records.find_row(database.connection, unit_id)
            )

    def tables(self, unit_id: str) -> builtins.list[Table]:
        """The tables of a unit's own sources."""
        unit_id = arguments.text(unit_id, "the id")
        with self._session.read() as database:
            row = unit_records.known_row(database.connection, unit_id)
            return table_rows.of_unit(database.connection, row)

    def picture(self, digest: str) -> Path:
        """The file of a stored picture.

        Args:
            digest: SHA-256 of the file, 64 hexadecimal digits.
        """
        digest = arguments.text(digest, "the hash")
        with self._session.read() as database:
            return unit_records.picture_file(database.connection, self._session.layout, digest)

    def picture_hash(self, file: str | Path) -> str:
        """The SHA-256 of a stored picture, by the path that results name it by."""
        path = arguments.path(file, "the picture")
        with self._session.read() as database:
            return unit_records.picture_hash(database.connection, self._session.layout, path)

    def page_image(self, chunk: int, page: int, box: Sequence[float] | None = None) -> Image:
        """Return a page of the PDF file of a chunk, at 100 pixels an inch.

        Args:
            chunk: `chunk` of a piece of evidence.
            page: its `page`, from 1.
            box: its `box`, to be drawn: left, top, right and bottom in shares of the page.

        Raises:
            NotFound: there is no such chunk of a PDF file, or the file is gone.
            Mismatch: the file was changed after it was ingested.
        """
        from ku_rag.ingest import page_images

        arguments.count(chunk, "the chunk", least=1)
        arguments.count(page, "the page", least=1)
        with self._session.use() as database:
            return page_images.render(database.connection, self.settings, chunk, page, box)

    def stats(self) -> Stats:
        """The size of the base, and the models that it was made with."""
        session = self._session
        with session.read() as database:
            return Stats(
                counts=unit_records.counts(database.connection),
                bytes=session.layout.bytes(pictures=False)
                + unit_records.picture_bytes(database.connection),
                encoder=session.encoding.encoder.fingerprint,
                segmenter=session.segmenter_fingerprint(),
                recogniser=session.settings.recogniser or "none",
                pictures_read=unit_records.pictures_read(database.connection),
                indexes=tuple(index.describe() for index in session.encoding.indexes),
                schema=SCHEMA,
            )

    # ---- changes -------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make one change of several: all is committed at the end, or nothing after an error.

        What is read inside stays as it is until the end.
        """
        with self._session.write() as writer, writer.writer.change():
            yield

    def ingest(
        self,
        path: str | Path,
        *,
        uploaded: bool = False,
        read_pages: str | MLLM | None = None,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Ingest a folder, or a file of records, a table, a text or a document.

        Unchanged records are skipped. A changed record replaces what its source gave before.
        Another source that describes the same unit adds to it.

        Documents, tables, archives and long records are parsed in other processes, within the
        settings `parse_memory`, `parse_seconds` and `parse_output`; up to four documents of a
        folder at once. While they are awaited, `progress` is called five times a second: an
        exception that it raises ends them and the ingest at once. What was committed before stays.

        Args:
            path: the folder or file.
            uploaded: it is a folder of uploaded files: their sources are named by paths below
                `upload_root`, wherever it is.
            read_pages: the model that transcribes pages of PDF files without text, as `mllm` of
                `open`. A page is transcribed once by each; without one, transcriptions stay.
            progress: called with the number of records read so far.
        """
        from ku_rag.ingest.readers import folder
        from ku_rag.ingest.readers.parser import Parsing

        source = arguments.path(path, "the source").resolve()
        arguments.callback(progress, "progress")
        if read_pages and source.suffix.lower() not in (".pdf", ".zip") and source.is_file():
            raise BadInput(f"{source.name} has no pages to transcribe: leave out read_pages")
        parsing = Parsing.of(self._session.settings, progress)
        writing = self._session.write(read_pages)
        with writing as writer, closing(folder.read(source, parsing)) as read:
            items: Iterator[Item] = read
            if uploaded:
                root, database = self.upload_root, self._session.database
                if database.meta("upload_root") is None:
                    database.set_meta("upload_root", root)
                items = folder.renamed(read, source, root)
            report = writer.run(items, progress=progress)
            if units := self._session.stated.get("units"):
                manifest.record_setting(self._session.layout, "units", units)
        self._session.update_indexes()
        return report

    def extract(self, *, dry_run: bool = False, progress: Progress | None = None) -> Extraction:
        """Have the base's model read facts from texts, each with the sentence that states it.

        Facts whose words are not in the text are not stored. A chunk is read once by each model; an
        interrupted run continues. The conditions of searches (`where`) read these facts by
        "any:FIELD" alone.

        Args:
            dry_run: only count the chunks, and estimate the tokens.
            progress: called with the number of chunks read so far.

        Raises:
            NotFound: the base has no model.
        """
        from ku_rag.ingest import extraction
        from ku_rag.mllm.prompts import load_prompts

        session, mllm = self._session, self._session.mllm()
        if mllm is None:
            raise NotFound("there is no model to read facts with: name one with --mllm")
        arguments.callback(progress, "progress")
        model = session.settings.mllm or "model"
        prompt = load_prompts("ku_rag.ingest", session.prompts)["extraction"]
        with session.use():
            if dry_run:
                return extraction.estimate(session.database, model, prompt)
            return extraction.extract(session.database, mllm, model, prompt, progress=progress)

    def remove_extracted(self, model: str) -> int:
        """Delete the facts that a model has read from texts, and return how many they were."""
        from ku_rag.ingest import extraction

        with self._session.use():
            return extraction.remove(self._session.database, arguments.text(model, "the model"))

    def sync(
        self,
        path: str | Path,
        *,
        yes: bool = False,
        dry_run: bool = False,
        read_pages: str | MLLM | None = None,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Bring the base up to date with a folder: add, replace, delete.

        Contents from other sources stay.

        Args:
            path: the folder.
            yes: go on when it is absent or empty, or when over half of it would be deleted.
            dry_run: only report what would happen.
            read_pages: see `ingest`.
            progress: called with the number of records read so far.

        Raises:
            Refused: see `yes`.
        """
        from ku_rag.ingest import changes

        folder = arguments.path(path, "the folder").resolve()
        arguments.check(yes, "yes", bool)
        arguments.check(dry_run, "dry_run", bool)
        arguments.callback(progress, "progress")
        if dry_run and read_pages:
            raise BadInput("a dry run asks no model: leave out dry_run or read_pages")
        with self._session.write(read_pages) as writer:
            report = changes.sync(
                writer,
                self._session.database,
                folder,
                settings=self._session.settings,
                yes=yes,
                dry_run=dry_run,
                progress=progress,
            )
            if not dry_run and (units := self._session.stated.get("units")):
                manifest.record_setting(self._session.layout, "units", units)
        self._session.update_indexes()
        return report

    def watch(
        self, path: str | Path, *, stop: Event | None = None, yes: bool = False
    ) -> Iterator[FolderChange]:
        """Sync with a folder, and again after each change of a file in it.

        Changes within a second are one. What is moved or renamed keeps its vectors. It yields what
        each sync did, first that of the folder as it is. Close the iterator, or set `stop`, to end
        it.

        Args:
            path: the folder.
            stop: ends the iterator when it is set.
            yes: see `sync`.
        """
        folder = arguments.path(path, "the folder").resolve()
        if not folder.is_dir():
            raise BadInput(f"{folder} is no folder: name the folder to watch")
        watchfiles = plugins.extra("watch", "watchfiles")

        base = self.path.resolve()

        def is_watched(_: object, file: str) -> bool:
            names = Path(file).relative_to(folder).parts
            return not (
                any(name.startswith(".") for name in names) or Path(file).is_relative_to(base)
            )

        def sync(files: Sequence[str]) -> FolderChange:
            try:
                return FolderChange(tuple(files), self.sync(folder, yes=yes))
            except Refused as error:
                return FolderChange(tuple(files), IngestReport(), str(error))

        # The watch begins before the first sync, so that no change is missed.
        events = watchfiles.watch(
            folder,
            watch_filter=is_watched,
            stop_event=stop,
            yield_on_timeout=True,
            rust_timeout=100,
            debounce=1_000,
        )
        files, is_due = list[str](), True
        for event in events:
            files += (f"{change.name} {file}" for change, file in sorted(event))
            if is_due := is_due or bool(event):
                try:
                    change = sync(files)
                except Locked:  # it is tried again when the other process has written
                    continue
                yield change
                files, is_due = [], False

    def add(self, unit: Unit, *, vectors: Mapping[str, Vectors] | None = None) -> Added:
        """Add a unit; without an id it joins the unit that it matches, if there is one.

        Args:
            unit: what to add.
            vectors: ready-made vectors of length 1, "texts" float32[number of texts, dim] (each
                text is then one chunk) and/or "images" float32[number of images, dim].
        """
        from ku_rag.ingest import changes, preparation

        session = self._session
        chosen = _units((unit,))
        parts = preparation.split_vectors(chosen, vectors, session.encoding.encoder)
        with session.write() as writer:
            return changes.add(
                writer,
                session.database,
                unit,
                images=session.encoding.images,
                chunks=session.encoding.chunks,
                settings=session.settings,
                vectors=parts[0],
            )

    def add_many(
        self,
        units: Iterable[Unit],
        *,
        vectors: Mapping[str, Vectors] | None = None,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Add units that have ids, many in one commit; the fastest way to add units from a program.

        Args:
            units: what to add; all are held in memory, so pass some ten thousands at a time.
            vectors: ready-made vectors as in `add`, of all texts and/or all images, unit by unit.
            replace: delete units that have one of the ids, in one transaction with the rest;
                otherwise they are added to.
            progress: called with the number of units read so far.
        """
        from ku_rag.ingest import changes, preparation

        session = self._session
        chosen = _units(arguments.several(units, "units"))
        parts = preparation.split_vectors(chosen, vectors, session.encoding.encoder)
        arguments.check(replace, "replace", bool)
        arguments.callback(progress, "progress")
        with session.write() as writer:
            records = zip(chosen, parts, strict=True)
            return changes.add_many(writer, records, replace=replace, progress=progress)

    def update(
        self,
        unit_id: str,
        *,
        name: str | None = None,
        kind: str | None = None,
        aliases: Sequence[str] | None = None,
        images: Sequence[str | Path] | None = None,
        texts: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        relations: Sequence[Relation] | None = None,
        by: str = "",
    ) -> Added:
        """Replace the given fields of a unit; None leaves a field as it is.

        Tables stay, and kinds of targets of relations are ignored. `by` names in the history who
        makes the change.
        """
        from ku_rag.ingest import changes

        files = None if images is None else arguments.paths(images, "images")
        pictures.check_files(files or ())
        fields: dict[str, Any] = {
            "name": arguments.optional_text(name, "name"),
            "kind": arguments.optional_text(kind, "kind"),
            "aliases": None if aliases is None else arguments.texts(aliases, "aliases"),
            "images": files,
            "texts": None if texts is None else arguments.texts(texts, "texts"),
            "metadata": None if metadata is None else arguments.json_object(metadata, "metadata"),
        }
        unit_id, by = arguments.text(unit_id, "the id"), arguments.text(by, "by")
        with self._session.write() as writer, writer.writer.change() as connection:
            before = history.fields_of(connection, self._layout, unit_id)
            added = changes.update(writer, self._session.database, unit_id, **fields)
            if relations is not None:
                self._replace_relations(unit_id, relations)
            after = history.fields_of(connection, self._layout, unit_id)
            changed = {key: (before[key], after[key]) for key in after if before[key] != after[key]}
            history.add(connection, unit_id, changed, by=by, most=self.settings.history)
            return added

    def _replace_relations(self, unit_id: str, relations: Sequence[Relation]) -> None:
        def stored() -> set[Relation]:
            return {
                replace(relation, target_kind=None) for relation in self.show(unit_id).relations
            }

        removed = {(each.relation, each.target) for each in stored() - set(relations)}
        for word, target in removed:
            self.graph.delete(relation=(unit_id, word, target))
        left = stored()
        for new in relations:
            if new not in left:
                notes = {"information": new.information, "condition": new.condition}
                self.graph.add_relation(unit_id, new.relation, new.target, **notes)

    def history(self, unit_id: str) -> builtins.list[UnitChange]:
        """Return the changes of a unit by `update` and `undo`, the last first.

        So many are kept as the setting `history` says, until `compact` deletes them.
        """
        unit_id = arguments.text(unit_id, "the id")
        with self._session.read() as database:
            row = unit_records.known_row(database.connection, unit_id)
            return history.of_unit(database.connection, self._layout, row)

    def undo(self, unit_id: str, number: int | None = None, *, by: str = "") -> Added:
        """Set the fields of a change of a unit to their values before it, which is a change, too.

        Args:
            unit_id: id of the unit.
            number: of the change, see `history`; None for the last.
            by: see `update`.
        """
        with self.transaction():
            for change in self.history(unit_id):
                if number in (None, change.number):
                    return self.update(unit_id, **change.before(), by=by)
        raise NotFound(
            f"the history of {unit_id!r} has no such change: merges and `ku compact` delete it"
        )

    def merge(self, unit_id: str, other: str, *, dry_run: bool = False) -> UnitRecord:
        """Merge two units: all sources of `other` join `unit_id`, and `other` is deleted.

        Its names become aliases, and the history of both is deleted. Relations and links to it, and
        stored answers, lead to the merged unit. Ingesting the same files again keeps the merge.

        Args:
            unit_id: id, or a name that no other unit has, of the unit that stays.
            other: likewise, of the other one.
            dry_run: only return what the merged unit would be.
        """
        from ku_rag.ingest.changes import RollBack
        from ku_rag.ingest.merging import merge_units

        merged, second = self.show(unit_id), self.show(other)
        if merged.id == second.id:
            raise BadInput(f"{unit_id!r} and {other!r} are the same unit: name two units")
        if dry_run and self._database.connection.in_transaction:
            raise BadInput("a dry run cannot be part of kb.transaction(): make it before")
        with suppress(RollBack), self.transaction():
            merge_units(self._database.connection, merged.id, second.id)
            merged = self.show(merged.id)
            if dry_run:
                raise RollBack
            with suppress(KuError):  # of the file of answers
                self.answers.replace_unit(second.id, merged.id)
        return merged

    def delete(self, ids: str | Iterable[str]) -> Deleted:
        """Delete units by id, or single sources by uri, with all contents that no other source has.

        Args:
            ids: units or sources; one text is one of them.

        Raises:
            NotFound: one of them does not exist; then nothing is deleted.
        """
        from ku_rag.ingest import changes

        chosen = arguments.texts((ids,) if isinstance(ids, str) else ids, "ids")
        with self._session.write() as writer:
            return changes.delete(writer, chosen)

    # ---- maintenance ---------------------------------------------------------------------------

    def verify(self) -> IntegrityReport:
        """Check every row, picture, list and index file."""
        from ku_rag.ingest import verification

        session = self._session
        with session.use() as database:
            encoding = session.encoding
            return verification.verify(database, session.layout, encoding.rows, encoding.indexes)

    def compact(self, *, caches: bool = False) -> Compacted:
        """Free the space of what was deleted, and erase its content from disk.

        Meanwhile it takes up to twice the size of the base in free space, half of it in the
        temporary folder.

        Args:
            caches: also delete the replies of models that are cached for all bases of the user.

        Raises:
            Refused: the base is an unchanged copy, to which no increment would apply any more.
            Locked: another process is writing, or is reading an older state.
        """
        session = self._session
        with session.write():
            compaction.refuse_copy(session.database, session.layout)  # before an index syncs
            before = session.layout.bytes()
            if arguments.check(caches, "caches", bool):
                ReplyCache().clear()
            for index in session.encoding.indexes:
                index.compact()
            session.answers.compact()
            compaction.compact(session.database, session.layout)
            return Compacted(before, session.layout.bytes())

    def sync_index(
        self, *, rebuild: bool = False, progress: Progress | None = None
    ) -> tuple[IndexSync, ...]:
        """Bring the collections on the Milvus server up to date; see docs/scale.md.

        If a call is interrupted, the next one continues.

        Args:
            rebuild: create the collections anew.
            progress: called with the number of rows of one collection sent so far.

        Raises:
            Refused: the setting `index_engine` is not "milvus".
            IndexUnavailable: the server cannot be reached, or reports an error.
        """
        with self._session.use():
            indexes = self._session.encoding.indexes
            return tuple(index.sync(rebuild=rebuild, progress=progress) for index in indexes)

    def tune(self, *, recall: float = 0.99, kind: str | None = None) -> Tuning:
        """Choose the index of pictures and of texts by measuring them on the base's own vectors.

        Every kind of index is built and asked for the neighbours of some of the vectors. The
        fastest that finds enough of them is kept, and is used from then on.

        Args:
            recall: recall@10 against exact search that must be reached, above 0 up to 1.
            kind: only this kind: "flat", "rabitq", "ivf-sq8" or "ivf-rabitq".

        Raises:
            Refused: the kind that was named finds less.
        """
        from ku_rag.indexes import tuning

        session = self._session
        with session.write():
            images, chunks = session.encoding.indexes
            return tuning.tune_all(session.database, images, chunks, recall=recall, kind=kind)

    def tune_confidence(self, pictures: str | Path) -> ConfidenceTuning:
        """Set the confidence of matches by labelled pictures, a few dozen, and keep it.

        Without this the confidence of windows is that of the project's own test pictures, and that
        of regions of a model comes from the base's own pictures, 20 or more. What is set holds for
        this encoder and segmenter.

        Args:
            pictures: a file of JSON lines, {"image", "units", "question"?}: a picture by its path,
                absolute or from the file on, the ids of the units that it shows, and none for a
                thing that the base does not have. Questions for `ku eval` that lack one of both are
                skipped.

        Raises:
            BadInput: a record cannot be read, or the labels do not separate right matches from
                others; nothing was changed.
        """
        from ku_rag.answering.calibration import tune_confidence
        from ku_rag.ingest.readers.jsonl import read_objects

        what = "the file of labelled pictures"
        file = arguments.regular_file(arguments.path(pictures, what), what).resolve()
        with self._session.write():
            return tune_confidence(self._session.retrieval(), read_objects(file), file.parent)

    def tune_texts(self, questions: str | Path) -> TextTuning:
        """Set the weight of the encoder's cosines of texts beside keywords, and keep it.

        It holds for this encoder of texts. 0 searches by keywords alone.

        Args:
            questions: a file of JSON lines, {"question", "units"} as for `ku eval`, 20 or more;
                those with an image are skipped.

        Raises:
            BadInput: a record cannot be read, or too few have units; nothing was changed.
            NotFound: the base has no unit of an id.
        """
        from ku_rag.ingest.readers.jsonl import read_objects
        from ku_rag.retrieval.text_weight import tune_text_weight

        what = "the file of questions"
        file = arguments.regular_file(arguments.path(questions, what), what).resolve()
        with self._session.write():
            return tune_text_weight(self._session.retrieval(), read_objects(file))

    def reindex(
        self, encoder: str | Encoder = "", *, progress: Progress | None = None
    ) -> Reindexed:
        """Change the encoder: encode what has another one, then switch in one transaction.

        Then the recogniser reads the words in pictures that it has not read. Queries use the old
        vectors until the switch; the old weights are not needed. A call that was interrupted
        continues where it stopped. Other processes follow, unless they named one. An `encoder_url`
        that the base was opened with is recorded in ku.toml.

        Args:
            encoder: see `ku_rag.load_encoder`, or an object with the `Encoder` protocol; "" for the
                present one.
            progress: called with the number of chunks and images encoded so far.

        Raises:
            NotFound: there is no such encoder, or its weights are not installed.
            BadInput: stored pictures cannot be read.
        """
        from ku_rag.ingest import reindexing

        session, spec = self._session, None
        arguments.implementation(encoder, "encoder", "encode_texts", optional=False)
        arguments.callback(progress, "progress")
        with session.use() as database:
            encoder = encoder or session.settings.encoder or session.encoding.encoder
            if isinstance(encoder, str):
                spec = "+".join(sides(encoder))
                encoder = load_encoder(spec, settings=session.settings)
            present = session.encoding.encoder
            if reindexing.are_same(encoder, present):
                encoder = present
            work = reindexing.Reindexing(
                database,
                session.layout,
                old=present,
                new=encoder,
                spec=spec,
                max_tokens=min(
                    session.settings.max_tokens or encoder.max_tokens, encoder.max_tokens
                ),
                writing=database.writing,
                recogniser=session.recogniser(),
            )
            done = work.run(progress)
            for index in session.encoding.indexes:
                index.remove_files()
            session.use_encoder(encoder)
            with session.write():  # writes the index files
                if url := session.stated.get("encoder_url"):
                    manifest.record_setting(session.layout, "encoder_url", url)
                return done

    # ---- moving --------------------------------------------------------------------------------

    def export(self, folder: str | Path) -> Exported:
        """Write one state of the base as Parquet files and pictures; see docs/transfer.md.

        Args:
            folder: new, empty, or an earlier export, which is replaced when all is written.

        Raises:
            Refused: the folder holds something else.
        """
        from ku_rag.transfer import parquet_export

        target = arguments.path(folder, "the folder of the export")
        with self._session.use() as database:
            return parquet_export.export(
                database, self._session.layout, target, max_tokens=self.settings.max_tokens
            )

    def import_(
        self, folder: str | Path, *, partial: bool = False, progress: Progress | None = None
    ) -> IngestReport:
        """Import an export, shards, or Parquet files written by others; see docs/transfer.md.

        Unchanged units are skipped. Vectors of this base's encoder are kept; others are computed
        again.

        Args:
            folder: of the export, or of the shards of `ku encode`; or its address, such as
                s3://bucket/shards, whose files are downloaded first (extra "s3").
            partial: import the sound shards although others are missing, damaged or doubled.
            progress: called with the number of units read so far.

        Raises:
            BadInput: a table cannot be read, or has vectors of another length; a shard is not
                sound, and `partial` is not given.
            Mismatch: it has a later format, or shards are of another encoder.
        """
        from ku_rag.transfer.object_storage import is_address, local_copy
        from ku_rag.transfer.parquet_import import (
            ExportRecords,
            add_extracted,
            add_tuning,
            restore_renamed,
        )
        from ku_rag.transfer.parquet_reader import Export
        from ku_rag.transfer.shard_set import ShardSet, is_shard_set

        location = folder
        if not is_address(folder):
            location = arguments.path(folder, "the folder of the export")
        arguments.check(partial, "partial", bool)
        arguments.callback(progress, "progress")
        with local_copy(str(location)) as path, self._session.write() as writer:
            is_new = not self._session.database.connection.execute(
                "SELECT 1 FROM units LIMIT 1"
            ).fetchone()
            if is_shard_set(path):
                shards = ShardSet(path, writer, partial=partial)
                report = writer.run(shards, progress=progress)
            else:
                export = Export(path)
                records = ExportRecords(export, writer)
                if is_new:  # first, for the import may be interrupted and repeated
                    add_tuning(self._session.database, export)
                report = writer.run(records, progress=progress)
                report.quarantined.extend(add_extracted(self._session.database, export))
                restore_renamed(self._session.database, export)
        self._session.update_indexes()
        return report

    def snapshot(
        self, folder: str | Path, *, link: bool = False, since: str | Path | None = None
    ) -> Snapshot:
        """Copy the whole base as it is at one moment, while others read and write.

        Args:
            folder: new or empty; it appears when everything is copied, and opens as a base.
            link: link the pictures instead of copying them.
            since: an earlier snapshot; only what has changed since then is written, for
                `apply_increments`. The folder is not made if nothing has changed.

        Raises:
            Refused: the folder holds something.
            Mismatch: `since` is no copy of this base, or has changes of its own.
        """
        from ku_rag.transfer import increment, snapshot

        target = arguments.path(folder, "the folder of the snapshot")
        layout = self._session.layout
        with self._session.use() as database:
            if since is None:
                return snapshot.take(database, layout, target, link=link)
            earlier = arguments.path(since, "the earlier snapshot")
            return increment.write(database, layout, target, earlier, link=link)

    def apply_increments(self, folder: str | Path) -> Applied:
        """Apply increments of `snapshot(since=...)` to this copy, while others read it.

        Each increment is one transaction. Nothing else may change the copy.

        Args:
            folder: an increment, or a folder of consecutive increments; it may be empty.

        Raises:
            BadInput: one is incomplete or damaged; those before it were applied.
            Mismatch: one is missing, they are of another base, or the copy has changes of its own;
                those that follow the copy's commit were applied.
        """
        from ku_rag.transfer import increment

        path, indexes = arguments.path(folder, "the increments"), self._session.encoding.indexes
        with self._session.use() as database:
            return increment.apply(database, self._session.layout, indexes, path)

    @staticmethod
    def upgrade(path: str | Path = "kb", *, progress: Progress | None = None) -> Upgraded:
        """Upgrade a base that an earlier version made; `open` does so, too, unless `read_only`.

        All content is kept, nothing is encoded again. If the call is interrupted, the base is as
        before or upgraded in part, and the next call continues. A copy that follows its base by
        increments no longer does so.

        Args:
            path: folder of the base.
            progress: called with the number of chunks indexed so far.

        Raises:
            Mismatch: a later version made it.
            Locked: another process is writing, or uses a base of version 0.1.0.
        """
        from ku_rag.ingest import upgrading

        arguments.callback(progress, "progress")
        layout = Layout(arguments.path(path, "the knowledge base").absolute())
        settings = Settings.load(layout.settings)
        return upgrading.upgrade(layout, lock_wait_s=settings.lock_wait_s, progress=progress)

    @staticmethod
    def salvage(path: str | Path, folder: str | Path) -> Exported:
        """Write every readable row of a damaged base, for `import_` into a new one.

        The base is opened for reading. Nobody should write to it meanwhile.

        Args:
            path: folder of the damaged base.
            folder: of the export: new, empty, or an earlier export.

        Raises:
            Corrupt: the schema or the table of sources cannot be read.
            Refused: the folder holds something else.
        """
        from ku_rag.transfer import salvage

        layout = Layout(arguments.path(path, "the knowledge base").absolute())
        return salvage.salvage(layout, arguments.path(folder, "the folder of the export"))

    # ---- deprecated ----------------------------------------------------------------------------

    evaluate = _deprecated("evaluate")
    compare = _deprecated("compare")
    query_batch = _deprecated("query_batch")

    # ---- inside --------------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        return self._session.database

    @property
    def _layout(self) -> Layout:
        return self._session.layout


def _output(file: str | Path | None, what: str, picture: object) -> Path | None:
    return None if file is None else arguments.output_file(file, what, spare=picture)


def _units(items: Iterable[object]) -> builtins.list[Unit]:
    """Units to add, checked with their pictures."""
    units = []
    for unit in items:
        if not isinstance(unit, Unit):
            raise arguments.wrong(unit, "the unit", 'a Unit, such as Unit("Lamp")')
        if unit.id is not None:
            arguments.identity(unit.id, "the id")
        pictures.check_files(unit.images)
        units.append(unit)
    return units
