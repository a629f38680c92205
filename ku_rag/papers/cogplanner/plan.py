"""Plans as documents: the rounds of a question, with what was decided, searched and found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.papers.cogplanner.plan_timeline import draw_timeline
from ku_rag.types import Box, Illustrated, Serializable

VERSION = 1
"""Version of the document."""
_MOST_PICTURES = 6
"""Pictures that a model is shown at once (CogPlanner, section 4.2.2)."""
MODELLINGS = ("parallel", "sequential")
"""Orders of the two decisions of a round (CogPlanner, eq. 7 and 8)."""
ACTIONS = ("text", "image", "region", "graph", "evidence-graph", "relevance", "none")
"""All actions except "searcher:NAME", which asks an installed searcher. "relevance" drops collected
evidence that a model judges irrelevant."""


@dataclass(frozen=True, slots=True)
class PlanSettings(Serializable):
    """How a question is planned. A limit of None is not applied.

    Args:
        modelling: "parallel" makes both decisions of a round from the last query, at the same
            time; "sequential" chooses the action for the reformulated query.
        max_rounds: maximum number of rounds; 0 searches nothing.
        max_calls: maximum number of model calls for decisions.
        max_tokens: tokens of these calls, after which no round begins.
        max_seconds: seconds after which no round begins and a search is abandoned.
        k: texts of a search, 1 or more (5 in the paper).
        images: units of a search by picture, 1 or more (3 to 6 in the paper).
        text_tokens: tokens that are kept of a text of a searcher, and of each text for the answer
            of strict="cogplanner" (800 in the paper, section 6.1.3).
        actions: those that may be chosen; () for all, and with strict="cogplanner" for the three
            published ones: "text", "image" and "none".
        last_round: whether an answer rests on the evidence of the last round alone.

    Raises:
        BadInput: a value is out of range.
    """

    modelling: str = "sequential"
    max_rounds: int = 3
    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    k: int = 5
    images: int = 3
    text_tokens: int = 800
    actions: tuple[str, ...] = ()
    last_round: bool = False

    @property
    def longest_text(self) -> int:
        """Characters of `text_tokens`: about four a token in English, as OpenAI estimates."""
        return 4 * self.text_tokens

    def __post_init__(self) -> None:
        """Check the values."""
        if self.modelling not in MODELLINGS:
            raise BadInput(f"modelling is {self.modelling!r}: expected {' or '.join(MODELLINGS)}")
        for name, least, most in (
            ("max_rounds", 0, 100),
            ("k", 1, 100),
            ("images", 1, 100),
            ("text_tokens", 1, 10**6),
        ):
            arguments.count(getattr(self, name), name, least=least, most=most)
        if unknown := [name for name in self.actions if name not in ACTIONS]:
            expected = ", ".join(ACTIONS)
            raise BadInput(f"the action is {unknown[0]!r}: expected some of {expected}")
        arguments.check(self.last_round, "last_round", bool)
        for name in ("max_calls", "max_tokens"):
            if (value := getattr(self, name)) is not None:
                arguments.count(value, name, least=0, most=10**9)
        seconds = self.max_seconds
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 <= seconds <= 10**6):
            raise arguments.wrong(seconds, "max_seconds", "0 to 1,000,000")


@dataclass(frozen=True, slots=True)
class Hit(Serializable):
    """A piece of evidence that a search found.

    Args:
        id: "chunk:ROW" of the store, "path:" and the text of a graph path, or
            "searcher:NAME:" and an address; equal ids are the same evidence.
        image: file of the picture of its unit, after a search by picture.
    """

    id: str
    title: str
    text: str
    image: str | None = None
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedSearch(Serializable):
    """A search for one query: its hits and the names of the matched units, best first."""

    query: str
    hits: tuple[Hit, ...] = ()
    units: tuple[str, ...] = ()
    error: str = ""
    milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Round(Serializable):
    """A round: the reformulated query, one of `ACTIONS` or "searcher:NAME", and its searches.

    The reasons in `why` are those for the queries and for the action, in this order.
    """

    queries: tuple[str, ...]
    action: str
    clear: bool = True
    region: Box | None = None
    why: tuple[str, str] = ("", "")
    searches: tuple[PlannedSearch, ...] = ()
    tokens: tuple[int, int] = (0, 0)
    milliseconds: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan(Illustrated):
    """The plan of a question."""

    question: str
    rounds: tuple[Round, ...]
    image: str | None = None
    settings: PlanSettings = field(default_factory=PlanSettings)
    planner: str = ""
    stopped: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    milliseconds: float = 0.0
    accepted: bool | None = None
    version: int = VERSION

    def to_html(self) -> str:
        """The rounds in their order."""
        return draw_timeline(self.to_dict())

    @property
    def queries(self) -> tuple[str, ...]:
        """The last queries, Q_T."""
        return self.rounds[-1].queries if self.rounds else (self.question,)

    def pictures(self) -> dict[str, str]:
        """Return the files of the pictures that searches found, at most six, with captions."""
        searched = [round_ for round_ in self.rounds if round_.searches]
        rounds = searched[-1:] if self.settings.last_round else searched
        hits = [hit for round_ in rounds for s in round_.searches for hit in s.hits]
        return pictures_of(hits)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of all decisions, and the sum of each round's greater one (CogPlanner, 6.3.2)."""
        every = [round_.tokens for round_ in self.rounds]
        total = sum(map(sum, every))
        return total, sum(map(max, every)) if self.settings.modelling == "parallel" else total

    @classmethod
    def from_dict(cls, document: object) -> Plan:
        """Restore a plan from a document, which may have been edited; check it."""
        plan: Plan = _restore(cls, document, "the plan")
        if plan.version != VERSION:
            raise BadInput(f"the plan has version {plan.version}: expected {VERSION}")
        numbers: dict[object, int] = {}
        for n, round_ in enumerate(plan.rounds, 1):
            where = f"round {n} of the plan"
            if round_.action not in ACTIONS and not round_.action.startswith("searcher:"):
                raise BadInput(
                    f"{where} has the action {round_.action!r}: expected one of "
                    f'{", ".join(ACTIONS)}, "searcher:NAME"'
                )
            if not round_.queries or not all(query.strip() for query in round_.queries):
                raise BadInput(
                    f"{where} has no query, or an empty one: add a query, or remove the round"
                )
            if round_.action == "region" and round_.region is None:
                raise BadInput(f'{where} searches a region: add "region", [x0, y0, x1, y1]')
            same = numbers.setdefault((frozenset(round_.queries), round_.action, round_.region), n)
            if same != n and round_.action not in ("none", "relevance"):
                raise BadInput(f"{where} repeats round {same}: remove one of them")
        return plan

    @classmethod
    def read(cls, file: Path) -> Plan:
        """Read a plan from a JSON file; `BadInput` if it is invalid."""
        data = arguments.regular_file(file, "the plan").read_bytes()
        document = decode_object(data, str(file))
        # `ku query --plan --json` prints the plan inside an answer.
        return cls.from_dict(document.get("plan", document))


def pictures_of(hits: Iterable[Hit]) -> dict[str, str]:
    """Return the files of the pictures of hits, at most six, with what they show."""
    pictures: dict[str, str] = {}
    for hit in hits:
        if hit.image and len(pictures) < _MOST_PICTURES:
            pictures.setdefault(hit.image, hit.title)
    return pictures


def decode_object(data: bytes, what: str) -> Mapping[str, Any]:
    """Return the JSON object in a file or line; `BadInput` for anything else, or repeated keys."""
    try:
        document = arguments.STRICT_JSON.decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what} is not a JSON document ({error}): check its syntax") from error
    return arguments.json_object(document, what)


def _restore(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - of any kind
    """Return a JSON value as an object of a type, and check it."""
    if isinstance(kind, UnionType):
        return None if value is None else _restore(get_args(kind)[0], value, where)
    if is_dataclass(kind) and isinstance(kind, type):
        fields, parameters = arguments.json_object(value, where), signature(kind).parameters
        if unknown := [key for key in fields if key not in parameters]:
            expected = f"expected some of {', '.join(parameters)}"
            raise BadInput(f"{where} has the field {unknown[0]!r}: {expected}")
        required = [name for name, p in parameters.items() if p.default is p.empty]
        if lacking := [name for name in required if name not in fields]:
            raise BadInput(f"{where} lacks the field {lacking[0]!r}: add it")
        hints = get_type_hints(kind)
        return kind(**{k: _restore(hints[k], v, f"{where}, {k}") for k, v in fields.items()})
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if not isinstance(value, list):
            raise arguments.wrong(value, where, "a list")
        if kinds[-1] is ...:
            kinds = kinds[:1] * len(value)
        if len(kinds) != len(value):
            raise BadInput(f"{where} has {len(value)} items: expected a list of {len(kinds)}")
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(_restore(k, v, f"{where}[{n}]") for n, (k, v) in pairs)
    if get_origin(kind) is not None:
        return dict(arguments.json_object(value, where))
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise arguments.wrong(value, where, kind.__name__)
    return value
