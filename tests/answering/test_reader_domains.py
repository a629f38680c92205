"""The reader on short catalogue and encyclopedic prose: what it says, and what it leaves unsaid."""

import pytest

from ku_rag.answering.extractive import read
from ku_rag.types import Evidence, Match


def ask(question, unit, text):
    piece = Evidence("E1", 1, ("u",), "/things.jsonl#u", text, 1.0)
    return read(question, [piece], [Match("u", unit, 0.9)]).answer


THINGS = [
    (
        "Bronze Mirror",
        (
            "The Bronze Mirror is a 12th-century hand mirror from Korea. It is made of bronze and"
            " was cast in a clay mould. The mirror measures 18 cm across and weighs 640 grams. "
            "Its back is decorated with two dragons among clouds. It was found in a tomb near "
            "Kaesong in 1911 by the collector Edward Hale. The museum bought the mirror in 1934. "
            "It hangs in Room 12."
        ),
        {
            "What is this object made of?": "bronze",
            "Where does the object come from?": "Korea",
            "Which country is it from?": "Korea",
            "How heavy is this mirror?": "640 grams",
            "Who found it?": "Edward Hale",
            "When was it found?": "1911",
            "Where was it found?": "tomb near Kaesong",
            "When did the museum buy it?": "1934",
            "Where does it hang?": "Room 12",
            "How old is the mirror?": "",
            "Who made it?": "",
            "Who restored it?": "",
            "How much is it worth?": "",
            "When was it stolen?": "",
        },
    ),
    (
        "The Milkmaid",
        (
            "The Milkmaid is an oil painting by the Dutch artist Johannes Vermeer. It was painted"
            " around 1658 and shows a maid pouring milk into a bowl. The canvas is 45.5 cm high "
            "and 41 cm wide. It hangs in the Rijksmuseum in Amsterdam, which acquired it in 1908."
            " The girl wears a blue apron."
        ),
        {
            "Who painted this?": "Johannes Vermeer",
            "Who is the painter of this painting?": "Johannes Vermeer",
            "Who is the artist?": "Johannes Vermeer",
            "When was it painted?": "1658",
            "What does the painting show?": "maid pouring milk into a bowl",
            "Where does this painting hang?": "Rijksmuseum in Amsterdam",
            "How high is the canvas?": "45.5 cm",
            "What colour is the apron?": "blue",
            "What does the girl wear?": "blue apron",
            "Where can I see it?": "",
            "Who stole it?": "",
            "How much did it cost?": "",
            "What colour is the bowl?": "",
            "Who was the model?": "",
        },
    ),
    (
        "The Night Watch",
        ("The Night Watch was painted by Rembrandt in 1642."),
        {
            "Who painted this?": "Rembrandt",
            "Who is the artist?": "Rembrandt",
            "When was it painted?": "1642",
            "What did Rembrandt paint?": "",
            "Who sold it?": "",
            "Who commissioned this painting?": "",
        },
    ),
    (
        "Karnin Lift Bridge",
        (
            "The Karnin Lift Bridge was built by Demag between 1932 and 1933. It crosses the "
            "Peenestrom near the village of Karnin in Germany. The bridge is 360 metres long and "
            "35 metres high. It was blown up in 1945. Today only the lift section remains. Its "
            "architect was Hans Kolb."
        ),
        {
            "Who built this bridge?": "Demag",
            "When was this bridge built?": "between 1932 and 1933",
            "What does it cross?": "Peenestrom",
            "How long is the bridge?": "360 metres",
            "How tall is it?": "35 metres",
            "When was it blown up?": "1945",
            "Who was the architect of the bridge?": "Hans Kolb",
            "Who blew it up?": "",
            "How wide is the bridge?": "",
            "When was it opened?": "",
            "How many people use it each day?": "",
            "Who paid for it?": "",
        },
    ),
    (
        "European Robin",
        (
            "The European robin is a small songbird found across Europe and western Asia. It is "
            "about 13 cm long and weighs 18 grams. The breast and face are orange-red, the back "
            "is brown. Robins eat insects, worms and berries. They live in gardens, hedges and "
            "woodland. The female lays five or six eggs in a nest near the ground. In the wild it"
            " lives for two years. Its main predators are cats and sparrowhawks."
        ),
        {
            "How long is this bird?": "13 cm",
            "How much does this bird weigh?": "18 grams",
            "What does it eat?": "insects, worms and berries",
            "What do they feed on?": "insects, worms and berries",
            "Where does this bird live?": "gardens, hedges and woodland",
            "What colour is its breast?": "orange-red",
            "What colour is the back of this bird?": "brown",
            "How many eggs does the female lay?": "five or six",
            "How long does it live?": "two years",
            "Which animals hunt it?": "",
            "How fast does it fly?": "",
            "How many teeth does it have?": "",
            "What colour are its eggs?": "",
            "Where does it spend the winter?": "",
        },
    ),
    (
        "Feed Pump P-204",
        (
            "Part number: 7731-204\nMaterial: stainless steel\nMax. pressure: 16 bar\nWeight: 42 "
            "kg\nSupplier: Hollmann GmbH\nThe feed pump P-204 moves water from the storage tank "
            "to the boiler. It is driven by an electric motor. It consists of a housing, an "
            "impeller and a shaft seal. The seal must be replaced every 2,000 hours. The pump "
            "stops when the tank is empty because running dry damages the seal. It is located in "
            "hall B."
        ),
        {
            "What is this pump made of?": "stainless steel",
            "What material is it?": "stainless steel",
            "What is the part number?": "7731-204",
            "How much does it weigh?": "42 kg",
            "What does the pump consist of?": "housing, an impeller and a shaft seal",
            "Which parts does it have?": "housing, an impeller and a shaft seal",
            "What is it driven by?": "electric motor",
            "What drives the pump?": "electric motor",
            "How often must the seal be replaced?": "every 2,000 hours",
            "What is the maximum temperature?": "",
            "Who installed it?": "",
            "What is the serial number?": "",
            "How much does it cost?": "",
            "What colour is it?": "",
        },
    ),
    (
        "Rathian",
        (
            "Rathian is a flying wyvern that lives in forests and hills. Rathian is weak to "
            "dragon and thunder. It breathes fire. Its tail is poisonous. Hunters call her the "
            "Queen of the Land. Breaking its head yields the Rathian Plate. It has 5,000 health "
            "points and first appeared in Monster Hunter in 2004."
        ),
        {
            "What element is this monster weak to?": "dragon and thunder",
            "What is it weak against?": "dragon and thunder",
            "What is the weakness of this monster?": "dragon and thunder",
            "What does it breathe?": "fire",
            "Where does the monster live?": "forests and hills",
            "What do hunters call it?": "Queen of the Land",
            "When did it first appear?": "2004",
            "What kind of monster is it?": "flying wyvern",
            "What is it immune to?": "",
            "What element does it resist?": "",
            "How fast is it?": "",
            "What does it eat?": "",
            "Who created it?": "",
        },
    ),
    (
        "Aldo Desk Lamp",
        (
            "The Aldo desk lamp comes from Denmark. The lamp is made of brass and glass. It costs"
            " 129 euros and comes in black, white and red. The bulb lasts 15,000 hours. It was "
            "designed by Mette Holm for Lyskær. The cable is 1.8 m long. Clean it with a dry "
            "cloth. The lamp has a two-year warranty."
        ),
        {
            "Where is the lamp from?": "Denmark",
            "Which country does the lamp come from?": "Denmark",
            "What material is it made of?": "brass and glass",
            "How much does this lamp cost?": "129 euros",
            "What is the price?": "129 euros",
            "What colours does it come in?": "black, white and red",
            "How long does the bulb last?": "15,000 hours",
            "Who designed it?": "Mette Holm",
            "How long is the cable?": "1.8 m",
            "How bright is it?": "",
            "How tall is the lamp?": "",
            "What is the cable made of?": "",
            "Who sells it?": "",
            "When was it designed?": "",
        },
    ),
    (
        "Tarhu",
        (
            "The tarhu is a bowed string instrument invented by Peter Biffin in 1995. It has four"
            " main strings and is played with a bow. The body is carved from cedar. Players hold "
            "it between their knees. It combines the spike fiddle and the lute. The instrument is"
            " used in folk music. Similar instruments are found in Iran, but they have five "
            "strings. Its price starts at 3,000 dollars."
        ),
        {
            "Who invented this instrument?": "Peter Biffin",
            "When was it invented?": "1995",
            "How many strings does it have?": "four",
            "What is it played with?": "bow",
            "What is the body made of?": "cedar",
            "What is the body carved from?": "cedar",
            "What does it combine?": "spike fiddle and the lute",
            "What is it used in?": "folk music",
            "Who holds it between their knees?": "",
            "Where was it invented?": "",
            "What are the strings made of?": "",
            "Who played it first?": "",
            "How heavy is it?": "",
        },
    ),
    (
        "Velaxor",
        (
            "Velaxor was a two-legged dinosaur that lived in what is now Mongolia about 75 "
            "million years ago. It was described by the palaeontologist Ana Ruiz in 2003. Adults "
            "were 2.5 m long and weighed up to 40 kg. It had a long tail, sharp claws and teeth "
            "like saw blades. It hunted small mammals. Its skull is kept in the museum of "
            'Ulaanbaatar. The name means "swift claw". Its feathers were grey.'
        ),
        {
            "Who described it?": "Ana Ruiz",
            "When was it described?": "2003",
            "How long were adults?": "2.5 m",
            "What did it hunt?": "small mammals",
            "Where did it live?": "Mongolia",
            "Where is its skull kept?": "museum of Ulaanbaatar",
            "What colour were its feathers?": "grey",
            "What did this dinosaur eat?": "",
            "How many legs did it have?": "",
            "How many teeth did it have?": "",
            "What hunted it?": "",
            "Who found the skull?": "",
        },
    ),
    (
        "Ingrid Sol",
        (
            "Ingrid Sol (1802-1869) was a Norwegian explorer and botanist. She grew up in Bergen,"
            " where her father ran a shipyard. In 1831 she crossed the Lurra desert with two "
            "guides. She named the oasis Tamra after her sister. Her diary was published in 1840 "
            "by Hald & Son. Sol spoke five languages and collected more than 900 plants. She "
            "married Captain Erik Dahl in 1845. A glacier in Svalbard is named after her. She "
            "suffered from malaria."
        ),
        {
            "Where did she grow up?": "Bergen",
            "What did her father run?": "shipyard",
            "When did she cross the desert?": "1831",
            "What did she cross?": "Lurra desert",
            "Who published her diary?": "Hald & Son",
            "When was her diary published?": "1840",
            "How many languages did she speak?": "five",
            "How many plants did she collect?": "900",
            "Who did she marry?": "Captain Erik Dahl",
            "Who was the guide?": "",
            "When did her father die?": "",
            "Where was she buried?": "",
            "Who wrote the diary?": "",
            "Who named the glacier?": "",
        },
    ),
    (
        "Mount Horra",
        (
            "Mount Horra is an active volcano in Iceland. It rises 1,340 metres above the sea and"
            " last erupted in 2011. The eruption closed airports in six countries and lasted "
            "eleven days. Ash covered the villages of Dal and Vik. About 500 farmers left their "
            "homes. Scientists from the Geology Office monitor the mountain. The crater contains "
            "a lake that is 90 m deep. The first ascent was made by Jon Arn in 1794. Sheep graze "
            "on its slopes."
        ),
        {
            "How high is the volcano?": "1,340 metres",
            "When did it last erupt?": "2011",
            "Where is this volcano?": "Iceland",
            "How long did the eruption last?": "eleven days",
            "How deep is the lake?": "90 m",
            "Who monitors the mountain?": "Scientists",
            "What covered the villages?": "Ash",
            "Which villages did the ash cover?": "villages of Dal and Vik",
            "How many farmers left their homes?": "500",
            "How deep is it?": "",
            "How long is the crater?": "",
            "How many people died?": "",
            "When did it first erupt?": "",
            "Who closed the airports?": "",
        },
    ),
    (
        "Pocket Nova",
        (
            "The Pocket Nova is a handheld console released by Tarn in 1998. The screen is 6 cm "
            "wide and shows 56 colours. Two AA batteries power the console for 20 hours. It sold "
            "4 million units and was replaced by the Nova 2 in 2002. The case is made of plastic."
            " The games come on cartridges. Kenji Mori led the design team. The console cost 89 "
            "dollars at launch. It was popular because the games were cheap."
        ),
        {
            "Who released the console?": "Tarn",
            "When was it released?": "1998",
            "How wide is the screen?": "6 cm",
            "How many colours does the screen show?": "56",
            "What powers the console?": "Two AA batteries",
            "What replaced it?": "Nova 2",
            "When was it replaced?": "2002",
            "What is the case made of?": "plastic",
            "Who led the design team?": "Kenji Mori",
            "What is it made of?": "",
            "How wide is it?": "",
            "Who replaced the batteries?": "",
            "What is the screen made of?": "",
            "How heavy is the console?": "",
        },
    ),
    (
        "Brenta Blue",
        (
            "Brenta Blue is a soft cheese made from goat's milk. It comes from the Aldo valley in"
            " Italy and ripens for 60 days in caves. The rind is grey and the inside is creamy "
            "white with blue veins. It tastes salty and nutty. Monks first made the cheese in the"
            " 14th century. It goes well with pears and honey. It won the gold medal at the Turin"
            " fair in 2016. One wheel weighs 2.5 kg. Fat content: 28 %"
        ),
        {
            "What is it made from?": "goat's milk",
            "What kind of cheese is it?": "soft cheese",
            "Where does it come from?": "Aldo valley",
            "How long does it ripen?": "60 days",
            "Where does it ripen?": "caves",
            "What colour is the rind?": "grey",
            "Who first made the cheese?": "Monks",
            "When was it first made?": "14th century",
            "Which medal did it win?": "gold medal",
            "What does it taste like?": "",
            "Who sells it?": "",
            "How much does it cost?": "",
            "Who won the medal?": "",
            "What is the rind made of?": "",
        },
    ),
    (
        "Mara Quist",
        (
            "Mara Quist is a Danish cellist. She won the Golden Bow in 2009 and plays a "
            "Stradivari. She joined the Odense Quartet in 2012. Quist taught at the Royal "
            "Academy. She crossed the Alps on foot. In 2015 she recorded the album Northern "
            "Light. She lost her voice in 2019."
        ),
        {
            "Which prize did she win?": "Golden Bow",
            "Which quartet did she join?": "Odense Quartet",
            "Which mountains did she cross?": "Alps",
            "Which album did she record?": "Northern Light",
            "Which school did she teach at?": "Royal Academy",
            "Which instrument does she play?": "Stradivari",
            "Which bird does she keep?": "",
            "Which university did she attend?": "",
            "Which orchestra did she lead?": "",
            "Which album did she hate?": "",
        },
    ),
    (
        "Rathian",
        ("Weakness: Dragon\nElement: Fire"),
        {
            "What is it weak against?": "Dragon",
            "What is its element?": "Fire",
            "What element is it?": "Fire",
            "What is it strong against?": "",
        },
    ),
    (
        "Wooden Stool",
        (
            "This wooden stool has three legs and a round seat. It was carved by an unknown "
            "craftsman in Ghana around 1900. The seat is 30 cm wide. The stool was used by chiefs"
            " during ceremonies. It was given to the museum by Anna Reed in 1954."
        ),
        {
            "How many legs does it have?": "three",
            "How many legs does the stool have?": "three",
            "Who carved it?": "unknown craftsman",
            "Who used the stool?": "chiefs",
            "Who gave it to the museum?": "Anna Reed",
            "When was it given to the museum?": "1954",
            "When was it carved?": "1900",
            "Where was it carved?": "Ghana",
            "How wide is the seat?": "30 cm",
            "How wide is it?": "",
            "Who gave it to the chiefs?": "",
            "What did Anna Reed carve?": "",
            "Who sold it?": "",
            "When was it restored?": "",
        },
    ),
    (
        "Slime King",
        (
            "The Slime King attacks with acid and summons small slimes. It appears in the Sunken "
            "Temple at night. Defeating it gives 300 experience points and a Jelly Crown. It is "
            "immune to poison but weak to fire. It was added in version 1.2. Players first met "
            "the Goblin Lord in the Old Mine."
        ),
        {
            "Where does it appear?": "Sunken Temple",
            "What is it weak to?": "fire",
            "What is it immune to?": "poison",
            "What does it summon?": "small slimes",
            "What does it attack with?": "acid",
            "Who first met the Goblin Lord?": "Players",
            "When does it appear?": "",
            "Where does the Goblin Lord appear?": "",
            "What is the Goblin Lord weak to?": "",
            "Who defeated it?": "",
            "What does it drop?": "",
        },
    ),
    (
        "Kestrel",
        (
            "The kestrel is a small falcon. Kestrels hunt mice and voles. Unlike the sparrowhawk,"
            " which nests in trees, the kestrel nests in old towers. The male has a grey head; "
            "the female is brown. Eagles sometimes kill kestrels. It hovers by beating its wings "
            "rapidly."
        ),
        {
            "What does it hunt?": "mice and voles",
            "What does this bird hunt?": "mice and voles",
            "What do kestrels hunt?": "mice and voles",
            "Where does it nest?": "old towers",
            "Where does the sparrowhawk nest?": "trees",
            "What colour is the female?": "brown",
            "What colour is the male's head?": "grey",
            "Who kills kestrels?": "Eagles",
            "What kills kestrels?": "Eagles",
            "What colour is it?": "",
            "What colour is the sparrowhawk?": "",
            "Where does it sleep?": "",
            "What does the eagle hunt?": "",
        },
    ),
]


@pytest.mark.parametrize(("unit", "text", "expected"), THINGS, ids=[thing[0] for thing in THINGS])
def test_things_of_many_kinds(unit, text, expected):
    assert {question: ask(question, unit, text) for question in expected} == expected


@pytest.mark.parametrize(
    ("question", "unit", "text"),
    [
        ("Who built this bridge?", "Arch Bridge", "The Arch Bridge was built in 1932."),
        ("Who painted this?", "The Reader", "The Reader was painted in 1642 in Delft."),
        ("Who made it?", "Arch Bridge", "The Arch Bridge made history."),
        ("How long is it?", "Lamp", "The lamp is black. The cable is 2 m long."),
        ("What is it made of?", "Lamp", "The lamp is black. The cable is made of rubber."),
        ("Where was it made?", "Lamp", "The lamp stands in Paris."),
        ("Who closed the port?", "Flood", "The explosion closed the port."),
        ("What is it weak to?", "Wyrm", "The wyrm is immune to fire. The drake is weak to ice."),
        ("When was it sold?", "Mirror", "The mirror was found in 1911."),
        ("Who bought it?", "Mirror", "The mirror was found by Edward Hale. It was sold in 1934."),
    ],
)
def test_near_misses_are_left_unanswered(question, unit, text):
    assert ask(question, unit, text) == ""


@pytest.mark.parametrize("unit", ["Karnin Lift Bridge", "karnin lift bridge"])
def test_units_may_be_written_small(unit):
    text = "The Karnin Lift Bridge was built by Demag between 1932 and 1933."
    assert ask("Who built this bridge?", unit, text) == "Demag"
    assert ask(f"When was the {unit} built?", unit, text) == "between 1932 and 1933"
