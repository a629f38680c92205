"""Answers that the reader states from evidence, abstentions, and the closest sentence."""

from dataclasses import replace

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.reading.prose import read
from ku_rag.types import Evidence, Match
from tests.conftest import picture

LAMP = """Found in: North Hall
Country: Peru
Price: 49 euros
Color: red
Weight (kg): 3
Made by: Ana Reyes
Built: 1851
Population: 12,000
Waterproof: no
The Aurora lamp was designed by Ben Hall in 1964. It is made of brass. It isn't dimmable.
It is 32 cm high."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Open bases of one unit with a picture, by text and name of the unit."""
    opened = {}
    yield opened, tmp_path_factory
    for base, _ in opened.values():
        base.close()


@pytest.fixture
def ask(bases):
    opened, folders = bases

    def reading(question, text=LAMP, name="Aurora lamp"):
        if (text, name) not in opened:
            folder = folders.mktemp("base")
            photo = picture(folder / "shown.png", 3)
            base = KnowledgeBase.open(folder / "kb", create=True)
            base.add(Unit(name, id="u", texts=(text,), images=(photo,)))
            opened[text, name] = base, photo
        base, photo = opened[text, name]
        return base.query(photo, question, k=1).reading

    return reading


def read_one(question, text=LAMP, name="Aurora lamp", owners=("u",), image=None):
    piece = Evidence("E1", 1, ("u",), "/things.jsonl#u", text, 1.0, owners)
    return read(question, [piece], [Match("u", name, 0.9, image=image)])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where is it found?", "North Hall"),
        ("Which country does it come from?", "Peru"),
        ("Where does the lamp come from?", "Peru"),
        ("What is the price of the Aurora lamp?", "49 euros"),
        ("How much does it cost?", "49 euros"),
        ("What color is it?", "red"),
        ("What colour is the lamp?", "red"),
        ("How heavy is this?", "3 kg"),
        ("What does this cost?", "49 euros"),
        ("Who made it?", "Ana Reyes"),
        ("When was it built?", "1851"),
        ("How many people live in it?", "12,000"),
        ("Who built it?", ""),
        ("Where was it built?", ""),
        ("How wide is it?", ""),
        ("Who is the president?", ""),
        ("Which country was it not made in?", ""),
    ],
)
def test_labelled_lines(ask, question, answer):
    assert ask(question).answer == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who designed it?", "Ben Hall"),
        ("When was it designed?", "1964"),
        ("How high is it?", "32 cm"),
        ("Who stole it?", ""),
        ("When was it not designed?", ""),
    ],
)
def test_the_one_value_of_a_sentence(ask, question, answer):
    assert ask(question).answer == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is the lamp waterproof?", "no"),
        ("Isn't it waterproof?", "no"),
        ("Is it red?", "yes"),
        ("Is its colour blue?", "no"),
        ("Is it dimmable?", "no"),
        ("Is it made of brass?", "yes"),
        ("Is it heavier than a chair?", ""),
        ("Is it foldable?", ""),
    ],
)
def test_yes_or_no(ask, question, answer):
    assert ask(question).answer == answer


def test_names_and_descriptions(ask):
    assert ask("What is this?").answer == "Aurora lamp"
    assert ask("Whose lamp is this?").answer == "Aurora lamp"
    described = ask("What is the Aurora lamp?")
    assert described.answer == "The Aurora lamp was designed by Ben Hall in 1964."
    assert described.spans == ((LAMP.index("The Aurora"), LAMP.index(" It is made")),)
    assert ask("Describe this.").answer == described.answer


def test_an_answer_cites_its_line(ask):
    reading = ask("What is the price?")
    ((start, end),) = reading.spans
    assert (reading.citations, LAMP[start:end]) == (("E1",), "Price: 49 euros")
    assert reading.closest is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the bridge opened?", "1964"),
        ("In which year was the bridge repaired?", "1991"),
        ("When was the bridge painted?", ""),
        ("When was the bridge not opened?", ""),
        ("How long is the bridge?", ""),
        ("Who opened the bridge?", ""),
    ],
)
def test_of_two_values_the_one_near_to_the_words_of_the_question_is_stated(ask, question, answer):
    text = (
        "The bridge was opened in 1964 and, after a fire, repaired in 1991. Basel is 300 km away."
    )
    assert ask(question, text, "Bridge").answer == answer


def test_a_fact_of_another_unit_is_not_stated():
    text = "The vase is made of clay. The Aurora lamp is made of brass."
    template = "Is the {} made of {}?"
    assert read_one(template.format("Aurora lamp", "clay"), text, owners=("other",)).answer == ""
    assert (
        read_one(template.format("Aurora lamp", "brass"), text, owners=("other",)).answer == "yes"
    )


def test_the_closest_sentence_is_evidence_and_no_answer(ask):
    reading = ask("Is it made of brass or tin?")
    assert reading.answer == ""
    assert reading.closest.to_dict() == {"evidence": "E1", "text": "It is made of brass."}
    assert ask("Quo vadis?").closest is None
    assert read("Who made it?", [], []).closest is None


def test_a_sentence_is_close_if_it_has_half_of_a_question_that_names_nothing(kb):
    kb.add(Unit("Aurora lamp", id="lamp", texts=(LAMP,)))
    assert kb.query(None, "Who paid for the wooden bridge in 1850?").reading.closest is None
    assert kb.query(None, "Who paid for the Aurora lamp in 1850?").reading.closest is not None


def test_a_labelled_line_of_another_unit_is_not_close(kb):
    kb.add(Unit("Sweden", id="se", texts=("Sweden is large.",)))
    kb.add(Unit("Finland", id="fi", texts=("It borders Sweden.\nArea: 338,500 km²",)))
    reading = kb.query(None, "What is the area of Sweden?").reading
    assert (reading.answer, reading.closest.text) == ("", "Sweden is large.")


def test_a_clue_needs_a_picture(kb, ask):
    """Spain is not the country that borders Spain."""
    question = "What is the capital of the country that borders Spain?"
    kb.add(Unit("Spain", id="es", texts=("Capital: Madrid",)))
    assert kb.query(None, question).answer == ""
    assert ask(question, "Capital: Lisbon", "Portugal").answer == "Lisbon"


def test_lines_of_a_section_with_a_heading(ask):
    text = "Flag of Jamaica\nAdopted: 1962\nMeaning of black: strength"
    assert ask("When was the flag adopted?", text, "Jamaica").answer == "1962"
    assert ask("What does black stand for in the flag of Jamaica?", text, "Jamaica").answer == (
        "strength"
    )


def test_a_query_answers_an_alias_and_shows_the_closest_sentence(kb):
    kb.add(Unit("Aurora lamp", id="lamp", aliases=("AL-200",), texts=(LAMP,)))
    assert kb.query(None, "How heavy is the AL-200?").answer == "3 kg"
    answer = kb.query(None, "Which metal is the Aurora lamp made of?").to_dict()
    assert (answer["answer"], answer["closest"]["evidence"]) == ("", "E1")


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        (
            "The capital of Sweden is Stockholm.",
            "What is the capital of this country?",
            "Stockholm",
        ),
        ("Its currency is the Swedish krona.", "What is its currency?", "Swedish krona"),
        ("The capital of Norway is Oslo.", "What is the capital of Sweden?", ""),
        ("The capital of Sweden is not Gothenburg.", "What is the capital of Sweden?", ""),
        ("The capital of Sweden is Stockholm.", "Is Oslo the capital of Sweden?", "no"),
    ],
)
def test_a_sentence_like_a_labelled_line_is_read_as_one(ask, sentence, question, answer):
    assert ask(question, sentence, "Sweden").answer == answer


@pytest.mark.parametrize(
    ("question", "text", "name"),
    [
        ("Who hunts the Heron?", "The Beetle is hunted by the Heron.", "Beetle"),
        ("Does the snake eat birds?", "Diet: mice, lizards", "Snake"),
        ("Who founded Olsen?", "Olsen was founded in 1950 in Oslo.", "Olsen"),
    ],
)
def test_roles_times_and_lists_are_not_confused(ask, question, text, name):
    assert ask(question, text, name).answer == ""


def test_a_bound_belongs_to_the_answer(ask):
    text = "The Mango was sent to Brazil before 1700. It weighs less than 1 kg."
    assert ask("When was the Mango sent to Brazil?", text, "Mango").answer == "before 1700"


def test_where_something_comes_from_is_stated(ask):
    text = "Dragon fruit comes from Vietnam."
    assert ask("Which country does it come from?", text, "Dragon fruit").answer == "Vietnam"


@pytest.mark.parametrize(
    ("name", "text", "question", "answer"),
    [
        ("Otter", "It has 40 seats and won two races.", "How many races did the Otter win?", "two"),
        ("Otter", "It has 40 seats.", "How many races did the Otter win?", ""),
        ("Tindle", "Tindle delivered 300 letters.", "How many batteries does Tindle have?", ""),
        ("Iron Crow", "Not allowed: dogs", "Are dogs allowed in the Iron Crow?", ""),
        (
            "Blue Kettle",
            "The inn was bought by Karl Orr in 1925.",
            "When was the Blue Kettle built?",
            "",
        ),
        (
            "Blue Kettle",
            "The inn was bought by Karl Orr in 1925.",
            "When was the Blue Kettle bought?",
            "1925",
        ),
        ("Bea Lund", "Her father died in Osmund in 1940.", "When did Bea Lund die?", ""),
        ("Bea Lund", "Bea Lund hated Otto Gram.", "Who hated Bea Lund?", ""),
        ("Tarn Regatta", "It was started by Lord Ashby.", "Who won the Tarn Regatta?", ""),
        ("Wanted", "Wanted comes from Peru.", "Where does Wanted come from?", "Peru"),
        ("Sail", "It left on 3 May 1950.", "When did the Sail leave?", "3 May 1950"),
        ("Sail", "It may leave in 1950.", "When does the Sail leave?", ""),
        (
            "Wren Air",
            "It flies three planes of the Otter 190 kind.",
            "How many planes does Wren Air have?",
            "three",
        ),
        ("Wren Air", "It flies the Otter 190 planes.", "How many planes does Wren Air have?", ""),
        ("Idle", "Idle is a play by the old writer Ben Hall.", "Who wrote Idle?", "Ben Hall"),
        ("Idle", "Idle is a play by the actor Ben Hall.", "Who wrote Idle?", ""),
        ("Arena", "It is owned and run by Lund Council.", "Who owns the Arena?", "Lund Council"),
        ("Petra", "Petra Osgood won the Silver Cog.", "Who won the Silver Cog?", "Petra Osgood"),
    ],
)
def test_prose_states_only_what_it_says_of_the_unit(tmp_path, name, text, question, answer):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit(name, id="a", texts=(text,)))
        assert kb.query(None, question).answer == answer


VILLA = (
    "The villa was built between 1872 and 1875 by workers of the Lund plant in Malmö. It has "
    "fourteen rooms and weighs 90 tons. Its top weight is 1,200 tons. The villa is a house in "
    "Kent. The Harker family bought it in June. It won the Baxter Prize and stands in street 7. "
    "The heating lasts eight to ten years."
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the villa built?", "between 1872 and 1875"),
        ("Where was the villa built?", "Malmö"),
        ("How many rooms does the villa have?", "fourteen"),
        ("How many doors does the villa have?", ""),
        ("How heavy is the villa?", "90 tons"),
        ("What is the top weight of the villa?", "1,200 tons"),
        ("Who bought the villa?", "Harker family"),
        ("When did the Harker family buy the villa?", "June"),
        ("Which prize did the villa win?", "Baxter Prize"),
        ("Which medal did the villa win?", ""),
        ("In which street does the villa stand?", "street 7"),
        ("How long does the heating of the villa last?", "eight to ten years"),
        ("How old is the villa?", ""),
        ("How long is the villa?", ""),
    ],
)
def test_periods_numbers_in_words_and_kinds_are_values(ask, question, answer):
    assert ask(question, VILLA, "villa").answer == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which clock was built in Graz?", "Ember Clock"),
        ("What did Johann Reiter build?", "Ember Clock"),
        ("What did Johann Reiter mend?", "Johann Reiter mended bells."),
        ("Which object was built by Johann Reiter?", "Ember Clock"),
        ("Which clock won the Baxter Prize?", ""),
        ("Which clock lost to the Night Ferry?", "Ember Clock"),
        ("Which mask was built in Graz?", ""),
        ("Which clock was built in Bern?", ""),
        ("Which dealer sold a jar from Corfu?", ""),
        ("Which object is red and blue?", ""),
        ("Which is the oldest clock in Kent?", "Ember Clock"),
        ("Which is the largest cup in Kent?", ""),
        ("Which is the finest saucer in Kent?", ""),
        ("What was the nickname of the poet?", "Oak Lamp"),
    ],
)
def test_the_only_unit_that_fits_is_stated(tmp_path, question, answer):
    clock = "The clock was built by Johann Reiter in Graz. It lost to the Night Ferry, which won "
    texts = {
        "Ember Clock": clock
        + "the Baxter Prize. Johann Reiter mended bells. Its maker Jan sold a jar from Corfu. It "
        "is the oldest clock in Kent and stands beside the tallest oak in Kent.",
        "Cup": "It is red and blue. It is the second largest cup in Kent.",
        "Steel Lamp": "The lamp comes with a two-year guarantee.",
        "Oak Lamp": "The lamp was the nickname of the poet.",
        "Saucer": "It is red and blue. It is the finest saucer in Kent after one in Hythe.",
    }
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many([Unit(name, id=name, texts=(text,)) for name, text in texts.items()])
        assert kb.query(None, question).answer == answer


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The bridge beside it was built in 1850.", "When was the Abbey built?"),
        ("The keeper's house, built in 1902, burned down.", "When was the Abbey built?"),
        ("The boat that replaced it was launched in 1940.", "When was the Abbey launched?"),
        ("It should have been restored in 1983.", "When was the Abbey restored?"),
        ("It was scheduled to open in 1901.", "When did the Abbey open?"),
        ("Ann Roe refused to design it.", "Who designed the Abbey?"),
        ("According to legend, it was founded by King Arn.", "Who founded the Abbey?"),
        ("It stands on a hill 200 metres high.", "How high is the Abbey?"),
        ("It stands beside the Olt dam, 40 m high.", "How high is the Abbey?"),
        ("The Abbey has legs made of brass.", "What is the Abbey made of?"),
        ("It used to be made of plastic.", "What is the Abbey made of?"),
        ("The Abbey is yours, at 12 euros per hour.", "What is the price of the Abbey?"),
        ("You can have the Abbey for € 20 a month.", "What is the price of the Abbey?"),
        ("It lies 20 miles from Hull.", "Where is the Abbey?"),
        ("The Abbey was to be built in 1960, but money ran out.", "When was the Abbey built?"),
        ("Plans to close the Abbey in 2030 were dropped.", "When will the Abbey close?"),
        ("The Abbey was meant to cost 40 euros.", "How much did the Abbey cost?"),
        ("It replaced a ferry that was built in 1820.", "When was the Abbey built?"),
        ("The Abbey taught Ida Holm, who won a medal in 1950.", "When did the Abbey win a medal?"),
        ("Ann Roe's brother found the Abbey in 1901.", "Who found the Abbey?"),
        ("Critics doubt that the Abbey is genuine.", "Is the Abbey genuine?"),
        ("The Abbey looks genuine.", "Is the Abbey genuine?"),
        ("The Abbey was dry until 1950.", "Is the Abbey dry?"),
        (
            "The Abbey is twice as high as the Olt dam, which is 40 m high.",
            "How high is the Abbey?",
        ),
        ("The Abbey is sold with a model made of silk.", "What is the Abbey made of?"),
        ("Soldiers from the Abbey burned the town in 1632.", "When was the Abbey burned?"),
        ("Soldiers from the Abbey burned the town in 1632.", "Who burned the Abbey?"),
        ("Soldiers burned the Olt Mill in 1632.", "When was the Abbey burned?"),
        ("The Abbey stands beside a bell cast in 1702.", "When was the Abbey cast?"),
        ("The Abbey faces a fountain designed by Max Halm.", "Who designed the Abbey?"),
        ("The monks hired a man to repair the Abbey in 1980.", "Who repaired the Abbey?"),
        ("The town asked Max Halm to design the Abbey.", "Who designed the Abbey?"),
        ("The crew tried to sink the Abbey in 1917.", "When did the Abbey sink?"),
    ],
)
def test_what_is_said_of_something_else_or_is_not_so_is_not_stated(ask, text, question):
    assert ask(question, text, "Abbey").answer == ""


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The Abbey is hunted by the Heron.", "Is the Heron hunted by the Abbey?"),
        ("The Abbey was sent before 1700.", "Was the Abbey sent after 1700?"),
        ("The Abbey is not sold before 1970.", "Is the Abbey sold in 1970?"),
        ("Dogs are not allowed, except guide dogs.", "Are dogs allowed in the Abbey?"),
        ("It was staged with the title O Mistress.", "Under which title was the Abbey staged?"),
        ("It was bought by the father of Tom Lind.", "Who bought the Abbey?"),
        ("Unemployed miners dug it by hand in 1931.", "Who dug the Abbey?"),
        ("It is owned by its members.", "Who owns the Abbey?"),
        ("It was opened in 1904 and 1911.", "When was the Abbey opened?"),
        ("It is closed on Mondays.", "When is the Abbey closed?"),
        ("It opens every second Sunday.", "How often does the Abbey open?"),
        (
            "It has 40 seats, but the hall has 15.",
            "How many seats does the hall of the Abbey have?",
        ),
        ("It begins behind the school and ends here.", "Where does the Abbey begin?"),
        ("First prize of the Abbey is an oar.", "What is the first prize of the Abbey?"),
    ],
)
def test_a_sentence_that_says_all_that_is_asked_is_stated_whole(ask, text, question):
    assert ask(question, f"{text} It lies in Kent.", "Abbey").answer == text


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The Abbey hated Otto Gram.", "Who hated the Abbey?"),
        ("The Abbey was founded in 1950 in Oslo.", "Who founded the Abbey?"),
        ("It was painted by Leo, whose father built the organ.", "Who built the Abbey?"),
        ("It was born in Maryport in 1866 and died in 1903.", "Where did the Abbey die?"),
        ("Nobody knows who carved the owls.", "Who carved the owls of the Abbey?"),
        ("Its petals are deep purple.", "How many petals does the Abbey have?"),
        ("It was completed in 1766, replacing one that had burned.", "When did the Abbey burn?"),
        ("The mayor of Hopeville is Ann.", "What is the mayor of the Abbey called?"),
    ],
)
def test_a_sentence_without_what_is_asked_is_not_stated(ask, text, question):
    assert ask(question, f"{text} It lies in Kent.", "Abbey").answer == ""


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("It is a villa that was built by Ann Roe.", "Who built the Abbey?", "Ann Roe"),
        ("The Abbey, which was built in 1850, stands.", "When was the Abbey built?", "1850"),
        ("A fire destroyed the Abbey in 1850.", "When was the Abbey destroyed?", "1850"),
        ("Soldiers burned the town in 1850.", "When was the Abbey burned?", "1850"),
        ("The Abbey is a tent with pegs and made of silk.", "What is the Abbey made of?", "silk"),
        ("The Abbey is a bell cast in 1850.", "When was the Abbey cast?", "1850"),
        ("The Abbey, cast in 1850, is a bell.", "When was the Abbey cast?", "1850"),
        ("Max Halm designed the Abbey to please Ann.", "Who designed the Abbey?", "Max Halm"),
        ("Max Halm was the first to climb the Abbey.", "Who climbed the Abbey?", "Max Halm"),
        (
            "It was carved from bone and horn by monks.",
            "What was the Abbey carved from?",
            "bone and horn",
        ),
        ("It is made of oak and sold since 1999.", "What is the Abbey made of?", "oak"),
        ("It is made of oak and brass in 1999.", "What is the Abbey made of?", "oak and brass"),
        ("You can rent it for € 20 a month.", "What does it cost to rent the Abbey?", "€ 20"),
        ("It is now used as a school.", "What is the Abbey used as?", "school"),
        ("Its roof is made of slate.", "What is the Abbey made of?", ""),
        ("It was carved by monks.", "What was the Abbey carved from?", ""),
        ("It weighs less than 4 tonnes.", "How much does the Abbey weigh?", "less than 4 tonnes"),
    ],
)
def test_relative_clauses_bounds_and_complements_are_read(ask, text, question, answer):
    assert ask(question, text, "Abbey").answer == answer


MILL = (
    "The mill was built in 1802 and closed in 1961. It was sold to Anna Reed by Karl Voss. "
    "It burned down in 1840 and was rebuilt by Peter Lang in 1843."
)
CHAPEL = (
    "The chapel is in Dorn and its bell was cast in Trier. It has 40 seats, but the gallery has "
    "15. It was painted by Leo Marsh, whose father built the organ."
)
LANTERN = "It was stolen in 1987 and found again in Hull two years later."
ROE = "Daniel Roe was born in Maryport in 1866 and died in 1903."


@pytest.mark.parametrize(
    ("name", "text", "question", "answer"),
    [
        ("Mill", MILL, "When was the mill built?", "1802"),
        ("Mill", MILL, "When was the mill closed?", "1961"),
        ("Mill", MILL, "When was the mill rebuilt?", "1843"),
        ("Mill", MILL, "When was the mill sold?", ""),
        ("Mill", MILL, "Who rebuilt the mill?", "Peter Lang"),
        ("Mill", MILL, "Who burned down the mill?", ""),
        ("Mill", MILL, "Where was the mill sold?", ""),
        ("Chapel", CHAPEL, "Who painted the chapel?", "Leo Marsh"),
        ("Chapel", CHAPEL, "Who built the chapel?", ""),
        ("Chapel", CHAPEL, "Where was the bell of the chapel cast?", "Trier"),
        ("Chapel", CHAPEL, "How many seats does the chapel have?", "40"),
        ("Blue lantern", LANTERN, "When was the blue lantern stolen?", "1987"),
        ("Blue lantern", LANTERN, "When was the blue lantern found?", ""),
        ("Blue lantern", LANTERN, "Where was the blue lantern found?", "Hull"),
        ("Blue lantern", LANTERN, "Where was the blue lantern stolen?", ""),
        ("Daniel Roe", ROE, "When did Daniel Roe die?", "1903"),
        ("Daniel Roe", ROE, "Where was Daniel Roe born?", "Maryport"),
        ("Daniel Roe", ROE, "Where did Daniel Roe die?", ""),
        (
            "Tide clock",
            "It stopped in 1951 and was repaired by Ines Kolb in 1998.",
            "When was the tide clock repaired?",
            "1998",
        ),
        (
            "Ferry",
            "It was ordered in 1999, delivered in 2001 and withdrawn in 2020.",
            "When was the ferry delivered?",
            "2001",
        ),
        ("Kite", "In 1904, it was flown by Ann Lee.", "When was the kite flown?", "1904"),
        ("Pier", "It is 120 m long and 8 m wide.", "How wide is the pier?", "8 m"),
        ("Bakery", "A loaf costs 3 euros.", "How much does the bakery cost?", ""),
        ("Loaf", "A loaf costs 3 euros.", "How much does it cost?", "3 euros"),
    ],
)
def test_a_value_answers_only_what_its_clause_says(name, text, question, answer):
    reading = read_one(question, text, name)
    assert (reading.answer, reading.closest is None) == (answer, bool(answer))


def test_without_a_named_unit_the_clause_holds_the_verb():
    piece = Evidence(
        "E1", 1, ("t",), "", "It is in steam. Old Tom is the oldest engine.", 1.0, ("t",)
    )
    assert read("Who invented the steam engine?", [piece], []).answer == ""
    piece = replace(piece, text="Old Tom invented the steam engine in 1702.")
    assert read("Who invented the steam engine?", [piece], []).answer == "Old Tom"


def test_without_a_named_unit_the_clause_of_a_value_holds_all_that_is_asked():
    text = "Since 1987 a baker has used the ground floor, and on Saturdays visitors watch the rye."
    piece = Evidence("E1", 1, ("t",), "", text, 1.0, ("t",))
    assert read("When can visitors watch rye being ground?", [piece], []).answer != "Since 1987"


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("The ship is displayed in Room 2, next to the jaw.", "Where is it displayed?", "Room 2"),
        ("The ship is displayed in Hull 12 days a year.", "Where is it displayed?", "Hull"),
        ("The brothers Abel and Enoch Nicholson sold it.", "Who sold it?", ""),
        ("It was designed by Ann Lee and Tom Orr.", "Who designed it?", ""),
    ],
)
def test_a_name_is_stated_whole(text, question, answer):
    assert read_one(question, text, "Ship").answer == answer


@pytest.mark.parametrize(
    ("question", "is_described"),
    [
        ("What is Hollin Bridge?", True),
        ("Who is Hollin Bridge?", True),
        ("Describe Hollin Bridge.", True),
        ("Tell me about Hollin Bridge.", True),
        ("What comes after Hollin Bridge?", False),
        ("What kind of thing is Hollin Bridge?", False),
    ],
)
def test_a_description_answers_only_what_asks_for_it(question, is_described):
    text = "Hollin Bridge is a request stop."
    assert read_one(question, text, "Hollin Bridge").answer == text * is_described


def test_questions_of_one_word(kb, ask):
    kb.add(Unit("Aurora lamp", id="u", texts=(LAMP, "Who built the lamp? Ben Hall.")))
    for question in ("Who?", "When?", "Where?", "What?", "Why?", "Which?", "How?", "Is?", "?"):
        assert kb.query(None, question).answer == ""
    assert ask("Who?").answer == "Aurora lamp"
    assert kb.query(None, "Lamp?").answer == "The Aurora lamp was designed by Ben Hall in 1964."


def test_an_earlier_name_of_a_unit_is_no_answer(tmp_path):
    text = "The mayor of Hopeville is Ann Lee. It was founded in 1802."
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Hopeville", id="t", texts=(text,)))
        assert kb.query(None, "Who is the mayor of Hopeville?").answer == "Ann Lee"
        kb.update("t", name="Newtown")
        assert kb.query(None, "Who is the mayor of Newtown?").answer == ""
        assert kb.query(None, "When was Newtown founded?").answer == "1802"
