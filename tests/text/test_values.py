import pytest

from ku_rag.text.stems import stem, stems
from ku_rag.text.values import find_values, quantity


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        ("date", "Born on 3 May 1964, or in July 1965, he won in 1990.",
         ["3 May 1964", "July 1965", "1990"]),
        ("date", "It has 1,964 parts and lasted 1914-1918.", ["1918"]),
        ("date", "Open from 1950 to 1953, shut in early May.", ["from 1950 to 1953", "early May"]),
        ("number", "Twenty-two men took 3 to 5 of the two boats.", ["Twenty-two", "3 to 5", "two"]),
        ("time", "It lasts eight to ten years or between 2 and 3 months.",
         ["eight to ten years", "between 2 and 3 months"]),
        ("place", "Made by men of the Lund plant in Malmö.", ["Malmö"]),
        ("person", "The Harker family met Ann; French monks did not.", ["Harker family", "Ann"]),
        ("mass", "It weighs 12.5 kg and is 30 cm long.", ["12.5 kg"]),
        ("length time", "It is 30 cm long and 4 years old.", ["30 cm", "4 years"]),
        ("money", "It costs 49 euros or $55.", ["49 euros", "$55"]),
        ("money", "It costs 1.200 euros, 1 350,50 € or € 12.000.",
         ["1.200 euros", "1 350,50 €", "€ 12.000"]),
        ("number", "In 1964, 12,000 people lived there.", ["12,000"]),
        ("person", "In May it was given to Ana de la Cruz by Ben Hall.",
         ["Ana de la Cruz", "Ben Hall"]),
        ("place", "The hall stands in Lima, Peru.", ["Lima, Peru"]),
    ],
)  # fmt: skip
def test_values_of_a_kind(kind, text, values):
    assert [text[slice(*value)] for value in find_values(text, kind)] == values


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1.200 €", 1200), ("1.200.000 euros", 1.2e6), ("1 200,50 €", 1200.5), ("€ 1.200", 1200),
        ("1.200 kg", 1.2), ("1.799 €/l", 1.799), ("1.799 euros per litre", 1.799), ("1 200 pcs", 1),
    ],
)  # fmt: skip
def test_points_and_spaces_separate_thousands_in_prices_only(value, number):
    assert quantity(value).number == number


def test_stems_join_inflections_and_spellings():
    assert stem("bordering") == stem("Borders") == "border"
    assert stem("colours") == stem("color")
    assert stem("written") == stem("writes")
    assert stems("Where is the Price of it?") == {"price"}
