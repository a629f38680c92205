"""What the clauses of a sentence say of its subject, such as "is made of oak and weighs 2 kg".

What is negated, hedged or approximate is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ku_rag.text.question import HEDGES
from ku_rag.text.tokens import stop_words, words
from ku_rag.text.values import DATE, DIMENSIONS, MONEY, amounts

LabelledValues = list[tuple[str, str]]
"""Pairs of a label and a value."""
AMOUNT = r"(?:[$€£] ?)?\d(?:[\d., \xa0]*\d)?(?: ?(?:[^\W\d_]+[²³]?|[€$£%]))?"
WORD = r"[^\W\d_A-Z][\w’'-]*"
FINITE = (
    "(?:is|are|was|were|has|have|had|costs|weighs|comes|came|stands|"
    "measures|can|sells|hangs|lies|dates|grows|needs|makes|takes|does)"
)
SMALL = "(?:and|or|in|on|at|by|for|from|of|with|to|as|that|which|who|when|while|where|but|since)"
_NOUNS = rf"(?!{FINITE}\b|{SMALL}\b){WORD}(?: (?!{FINITE}\b|{SMALL}\b){WORD}){{0,2}}"
_IRREGULAR = (
    "(?:built|made|cast|woven|sewn|written|drawn|bought|sold|found|given|sung|bred|grown|won|"
    "struck|cut|thrown|blown|wound|kept|held|hung|left|lent|taken|stolen|shown|driven|spun|bound|"
    "sent|shot|laid|lost|dug|broken|worn)"
)
_PAST = rf"(?:(?!(?:called|named|based|located|used|supposed|red)\b)\w+ed|{_IRREGULAR})"
CAPITALISED = r"(?:(?:[A-Z]|Mrs?|Ms|Dr|St|Col|Rev|Gen|Capt)\.|[A-Z][\w’'-]+)"
_NAMES = (
    rf"{CAPITALISED}(?:,? (?:(?:of|the|de|van|von|der|la|le|du|and|&) ){{0,2}}"
    rf"(?:{CAPITALISED}|\d+\b))*"
)
_OF_NO_AGENT = f"(?:{SMALL}|behind|near|under|between|around|about|called|named)"
AGENT = (
    rf"(?:[Tt]he {_NAMES}(?: (?:family|workshop|company|brothers|firm|museum))?|"
    rf"(?:(?:the|an?) (?:(?!{_OF_NO_AGENT}\b)[\w-]+ ){{0,3}}?"
    rf"(?!{_OF_NO_AGENT}\b){WORD} (?=[A-Z]))?{_NAMES}|"
    rf"(?:an?|the) {WORD}(?: (?!{_PAST}\b){WORD}){{0,2}}?)"
)
_REDUCED = rf"(?:{_IRREGULAR}|\w+ed)(?= {SMALL}\b| [A-Z\"“]|[,.;]|$)"
"""A participle that begins a clause, "a vase painted by Roe", not "a painted vase"."""
_DESCRIBED = re.compile(rf"^(?:[Tt]he|[Aa]n?) (?:[\w-]+ ){{0,3}}?{WORD} (?=[A-Z])")
"""Before a name, what it is: "the Dutch painter Jan Steen"."""
_PARTICIPLE = (
    rf"(?:(?:originally|first|last|later|then|recently|carefully|completely) )?(?P<verb>{_PAST})\b"
)
_MAKING = frozenset(words("made built cast carved woven sewn created produced constructed"))
_DATED = _MAKING | frozenset(words("written painted printed drawn"))
"""Participles of which someone has made the thing, and those whose date is its year."""
_LIST = rf"{_NOUNS}(?:, (?!and\b){_NOUNS})*(?:,? and (?!{_PAST}\b|it\b){_NOUNS})?"
END = rf"(?=[,.;:]|$| (?:(?!or\b|to \d){SMALL}|around|about|during|after|before|until)\b)"
_LAST = rf"(?=\.?$|[,;]? (?:and|but) (?:it )?{FINITE}\b|;)"
_BE = r" (?:is|are|was|were|has been|have been)"
_ONLY = "(?: only| just| exactly)?"
_MEASURES = {
    **dict.fromkeys(("tall", "high", "in height"), "height"),
    **dict.fromkeys(("long", "in length"), "length"),
    **dict.fromkeys(("wide", "in width"), "width"),
    **dict.fromkeys(("deep", "in depth"), "depth"),
    **dict.fromkeys(("thick", "in thickness"), "thickness"),
    **dict.fromkeys(("across", "in diameter"), "diameter"),
    "old": "age",
    "heavy": "weight",
}
_DIMENSIONS = dict.fromkeys(_MEASURES.values(), frozenset({"length"})) | {
    "age": frozenset({"time"}),
    "weight": frozenset({"mass"}),
    "price": MONEY,
    "amount": DIMENSIONS,
}
"""Labels, and the dimensions of their amounts; of other labels, any."""
_MEASURE = rf"(?P<measured>{AMOUNT}) (?P<measure>{'|'.join(_MEASURES)})\b"
_CLAUSES = (
    # A class, with its adjectives, and a place, maker or date that follows.
    rf"{_BE} an? (?P<modifiers>"
    rf"(?:(?!(?:of|former|about|an?|the|bit|little|not|no|less|more|once|barely|hardly|never|longer|"
    rf"\w+ly)\b){WORD},? ){{0,4}}?)"
    rf"(?P<is_a>(?!(?:{SMALL}|{_IRREGULAR}|known|seen|hour|minute|mile|not|no|less|once|barely)\b|"
    rf"\w+ly (?:\w+ed|{_IRREGULAR})\b|"
    rf"(?:kind|sort|type|piece|set|pair|part|member|copy) of\b){WORD})"
    rf"(?= (?:(?!of\b|to\b){SMALL}\b|{_REDUCED})|\.?$|"
    rf"[,;] (?:(?:{SMALL}|{FINITE})\b|{_REDUCED})| of (?!the\b|an?\b))",
    rf"{_BE} (?P<availability>(?:not )?(?:in stock|out of stock|sold out))(?=\W|$)",
    rf"{_BE} (?P<no>not )?(?P<flag>{WORD}){_LAST}",
    rf"(?:{_BE})? made (?:of|from|out of) (?P<material>{_LIST}){END}",
    r" (?:stands|lies|hangs|sits|(?:is|can be|are) (?:shown|kept|displayed|seen|exhibited|"
    rf"on show|on display))[^,.;]*? (?:in|at) (?P<location>(?:the )?{_NAMES}){END}",
    rf"(?:{_BE})? {_PARTICIPLE}(?= (?:by|in|on|at|to|for|from|since)\b)",
    r" (?:costs|sells for|retails at|is (?:priced|sold|listed|offered) (?:at|for))"
    rf"{_ONLY} (?P<price>{AMOUNT}){END}",
    rf" weighs{_ONLY} (?P<weight>{AMOUNT}){END}",
    r" (?:is|are|stands|measures|reaches|becomes|rises|grows(?: up)?(?: to)?)"
    rf"{_ONLY} (?={_MEASURE})",
    rf" (?:reaches|grows(?: up)? to) (?P<height>{AMOUNT}){END}",
    rf" (?:has|have|with) (?:an?|the) (?P<label>{WORD}(?: {WORD})?) of "
    rf"(?P<value>{AMOUNT}){END}",
    rf" (?:has|have|with) an? (?P<adjective>{WORD}) (?P<part>(?!of\b|{_PAST}\b){WORD}){END}",
    rf" (?:has|have) (?P<count>\d[\d,]*) (?P<counted>{WORD}){END}",
    r" (?:comes|is available) in "
    rf"(?P<available_in>(?!(?:one|two|three|four|five|six|several|many)\b){_LIST}){END}",
    rf" (?:comes|originates|is|was) from (?P<origin>{_NAMES}){END}",
    rf" (?:belongs|belonged) to (?P<owner>{AGENT}){END}",
    rf" (?:dates from|dates back to) (?:the )?(?P<year>{DATE.pattern}){END}",
    rf" (?P<does>(?!is\b)[a-z]+s) (?P<done>{AMOUNT})(?! by\b){END}",
    rf" (?P<past>[a-z]+ed) in (?P<when>{DATE.pattern}){END}",
)
"""Each begins after a subject. The name of a group is the label, but for those that are read."""
_AND = re.compile(rf"(?:[,;]? (?:and|but)|[,;])(?: it)?(?= )(?! (?:{_NAMES}|the|its|an?)\b)")
_ON = re.compile(r"(?= (?:with|\w+ed|made|built|cast)\b)| (?:that|which)(?= )")
_MORE = re.compile(rf"(?:,? and|,| by) {_MEASURE}")
_SKIPPED = re.compile(rf"[^,;]*?(?:[,;]|,? and|,? but)(?: it)?(?= (?:{FINITE}|made) )")
_OTHER = re.compile(r"\b(?:who|which|that|whose|where|when|while)\b")
_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_ADJUNCTS = re.compile(
    rf" (?:by (?P<by>{AGENT})|(?:in|on|since) (?:the )?(?P<when>{DATE.pattern})(?! and \d)"
    rf"|(?:in|at|on) (?P<where>(?!{_DAY}){_NAMES})"
    r"|(?:to|for|from|with|(?:in|at) (?=[a-z])) ?(?:(?:the|an?|its|our|his|her|their) )?"
    rf"{WORD}(?: {WORD})?(?= (?:in|on|by|at|since)\b)){END}"
)


def read_clauses(clauses: str, when: str = "") -> Iterator[tuple[str, str]]:
    """Yield the labels and values of clauses without their subject: " is made of oak"."""
    at = 0
    while at < len(clauses):
        matches = (m for pattern in _clause_patterns() if (m := pattern.match(clauses, at)))
        facts, end = next((read for m in matches if (read := _of_clause(m, when))[0]), ([], at))
        yield from facts
        # "A lamp [made of brass]" goes on; of a clause that is not read, the next may be.
        joint = facts and (
            (facts[0][0] == "is a" and _ON.match(clauses, end)) or _AND.match(clauses, end)
        )
        joint = joint or _SKIPPED.match(clauses, end)
        if not joint or (joint.re is _SKIPPED and _OTHER.search(joint[0])):
            return
        at = joint.end()


@cache
def _clause_patterns() -> tuple[re.Pattern[str], ...]:
    """Return `_CLAUSES`, compiled at the first use: it would slow each start."""
    return tuple(map(re.compile, _CLAUSES))


def _of_clause(match: re.Match[str], when: str) -> tuple[LabelledValues, int]:
    """Return the labels and values of a clause, and its end."""
    end, groups = match.end(), {label: value for label, value in match.groupdict().items() if value}
    facts: LabelledValues = []
    if "verb" in groups:
        return read_adjuncts(match.string, end, groups["verb"], when)
    if "material" in groups:
        facts, end = read_adjuncts(match.string, end, "made", when)
        return [("material", groups["material"]), *facts], end
    if "measure" in groups:
        more: re.Match[str] | None = match
        while more:
            facts.append((_MEASURES[more["measure"]], more["measured"]))
            end = more.end("measure")
            more = _MORE.match(match.string, end)
    elif "flag" in groups:
        facts = [(groups["flag"], "no" if "no" in groups else "yes")]
    elif "is_a" in groups:
        modifiers = re.split(r",? ", groups.get("modifiers", ""))
        facts = [("is a", groups["is_a"])]
        facts += [("is", word) for word in modifiers if word not in stop_words() | {""}]
    elif "done" in groups:
        facts = [(groups["does"], groups["done"])] if is_fit("amount", groups["done"]) else []
    else:
        pairs = (("label", "value"), ("counted", "count"), ("part", "adjective"), ("past", "when"))
        facts = [(groups[a], groups[b]) for a, b in pairs if a in groups]
        facts = facts or [(label.replace("_", " "), value) for label, value in groups.items()]
    barred = HEDGES | stop_words() - {"is"}
    return [fact for fact in facts if fact[0] not in barred and is_fit(*fact)], end


def read_adjuncts(clauses: str, at: int, verb: str, when: str = "") -> tuple[LabelledValues, int]:
    """Return the agent, date and place of a participle, and their end."""
    labels = {"when": "year" if verb in _DATED else verb, "where": f"{verb} in"}
    facts = [(labels["when"], when)] if when else []
    while match := _ADJUNCTS.match(clauses, at):
        if match["by"]:
            facts += agent_labels(verb, match["by"])
        elif match.lastgroup:
            facts.append((labels[match.lastgroup], match[match.lastgroup]))
        at = match.end()
    return facts, at


def agent_labels(verb: str, agent: str) -> LabelledValues:
    """Return the agent of a participle: "built by", and "made by" where it means the same."""
    labels = dict.fromkeys((f"{verb} by", "made by" if verb in _MAKING else f"{verb} by"))
    return [(label, _DESCRIBED.sub("", agent)) for label in labels]


def is_fit(label: str, value: str) -> bool:
    """Whether a value has a dimension of its label, if that is one of amounts."""
    if label not in _DIMENSIONS:
        return True
    stated = amounts(value)
    return len(stated) == 1 and stated[0].unit in _DIMENSIONS[label]
