"""Make a picture of docs/gallery.md: build a small base, ask it, and take a picture of the report.

    python docs/make_gallery.py flags       # or museum, documents, monsters, groceries

It needs Chromium, and the extra `documents` for documents. The data, the base and the report are in
build/gallery/NAME afterwards, and the picture is docs/gallery/NAME.webp. Groceries need the extras
`pictures` and `ocr`, and their data in the folder that the variable GROCERY names; their picture is
build/gallery/groceries/report.webp.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from ku_rag.demo.dataset import SCENES, build

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
HEADLESS = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
EMBEDDED = {"KU_DEFAULT_ENCODER": "embedded", "KU_RECOGNISER": "none"}
"""Gives the same base, whatever extras are installed."""

OBJECTS = {
    "Amphora": ("#b5562b", [16, 14, 30, 52, 58, 50, 36, 22, 26], "Vulci", "530 BC"),
    "Bowl": ("#3b6ea5", [66, 64, 60, 52, 40, 24, 20, 30, 30], "Nishapur", "950"),
    "Flask": ("#4d8c57", [10, 10, 10, 14, 40, 56, 58, 48, 30], "Tyre", "120"),
    "Goblet": ("#c9a227", [40, 42, 38, 26, 8, 8, 8, 22, 40], "Varna", "4500 BC"),
    "Urn": ("#6b4a7e", [46, 50, 60, 64, 62, 56, 48, 44, 44], "Hallstatt", "700 BC"),
}
"""Colour, half the width at equal steps from top to foot, place and date of each object."""

MONSTERS = {"Emberling": ("#d9541e", 2), "Frostmaw": ("#5aa9d6", 1), "Mosshide": ("#5d8a3a", 3)}
"""Colour and number of horns of each monster."""

RELATIONS = [
    ("Emberling", "grows into", "Cinder Drake"),
    ("Cinder Drake", "weak to", "water"),
    ("Cinder Drake", "lives in", "Ash Valley"),
    ("Frostmaw", "grows into", "Glacier Wyrm"),
    ("Glacier Wyrm", "weak to", "fire"),
    ("Mosshide", "lives in", "Ash Valley"),
]

MANUAL = """<title>Cellar pump P-40</title>
<h1>Cellar pump P-40</h1><p>The pump drains cellars and shafts.</p>
<h2>Maintenance</h2><p>Disconnect the pump from the mains before any work. The rotor seal is
replaced every 90 days. Use only grease that is free of acid.</p>
<h2>Storage</h2><p>Store the pump in a dry place at 5 to 40 degrees.</p>"""


def draw_object(colour: str, profile: list[int]) -> Image.Image:
    """Draw a symmetric object with two bands on white."""
    image = Image.new("RGB", (160, 200), "white")
    draw = ImageDraw.Draw(image)
    right = [(80 + half, 20 + 20 * step) for step, half in enumerate(profile)]
    left = [(160 - x, y) for x, y in right]
    draw.polygon(right + left[::-1], colour, "#222222", 2)
    for step in (3, 5):
        draw.line([left[step], right[step]], "#f3e9d2", 6)
    return image


def draw_monster(colour: str, horns: int) -> Image.Image:
    """Draw the head of a monster on white."""
    image = Image.new("RGB", (200, 200), "white")
    draw = ImageDraw.Draw(image)
    for number in range(1, horns + 1):
        x = 40 + 120 * number // (horns + 1)
        draw.polygon([(x - 14, 90), (x + 14, 90), (x, 12)], "#e8dcc0", "#222222", 2)
    draw.ellipse((30, 60, 170, 185), colour, "#222222", 2)
    for x in (65, 115):
        draw.ellipse((x, 95, x + 22, 120), "white", "#222222")
        draw.ellipse((x + 8, 102, x + 16, 112), "black")
    draw.chord((70, 125, 130, 170), 0, 180, "#401010", "#222222")
    return image


def photograph(image: Image.Image, path: Path, angle: float) -> Path:
    """Save a drawing as if it hung before a grey wall: turned, darker and a little out of focus."""
    wall = Image.linear_gradient("L").resize((420, 320)).point(lambda level: 150 + level // 4)
    canvas = Image.new("RGB", wall.size, "white")
    canvas.paste(image.rotate(angle, expand=True, fillcolor="white"), (120, 40))
    photo = ImageChops.multiply(wall.convert("RGB"), canvas)
    photo.filter(ImageFilter.GaussianBlur(0.8)).save(path)
    return path


def flags(folder: Path) -> tuple[Path, str]:
    """The countries of `ku demo`."""
    build(folder / "data")
    return SCENES / "02.jpg", "Which neighbours of this country use the euro?"


def museum(folder: Path) -> tuple[Path, str]:
    """Five objects, each with a drawing and a label."""
    for name, (colour, profile, place, date) in OBJECTS.items():
        (folder / "data" / name).mkdir(parents=True)
        draw_object(colour, profile).save(folder / "data" / name / "drawing.png")
        label = f"Found in: {place}\nDate: {date}\n"
        (folder / "data" / name / "label.txt").write_text(label, encoding="utf-8")
    goblet = draw_object(*OBJECTS["Goblet"][:2])
    return photograph(goblet, folder / "photo.png", 9), "Where was it found?"


def documents(folder: Path) -> tuple[str, str]:
    """A manual of one page, as PDF."""
    (folder / "data").mkdir()
    (folder / "manual.html").write_text(MANUAL, encoding="utf-8")
    pdf = f"--print-to-pdf={folder / 'data' / 'manual.pdf'}"
    source = (folder / "manual.html").as_uri()
    subprocess.run([*HEADLESS, "--no-pdf-header-footer", pdf, source], check=True)
    return "-", "How often is the rotor seal replaced?"


def monsters(folder: Path) -> tuple[Path, str]:
    """A graph of monsters, three of them with a drawing."""
    (folder / "data").mkdir()
    records = []
    for name in dict.fromkeys(head for head, _, _ in RELATIONS):
        relations = [
            {"relation": word, "target": tail} for head, word, tail in RELATIONS if head == name
        ]
        records.append({"name": name, "relations": relations})
        if name in MONSTERS:
            records[-1]["images"] = [f"{name}.png"]
            draw_monster(*MONSTERS[name]).save(folder / "data" / f"{name}.png")
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "data" / "monsters.jsonl").write_text(lines, encoding="utf-8")
    photo = photograph(draw_monster(*MONSTERS["Emberling"]), folder / "photo.png", -7)
    return photo, "What is the monster that it grows into weak to?"


def groceries(folder: Path) -> tuple[Path, str]:
    """Products with a clean picture each, and a photograph from a shop."""
    source = Path(os.environ["GROCERY"])
    (folder / "data").symlink_to((source / "units").absolute())
    photos = sorted((source / "query_photos" / "Bravo-Orange-Juice").iterdir())
    return photos[4], "In which country is it manufactured?"


EXAMPLES = {
    example.__name__: example for example in (flags, museum, documents, monsters, groceries)
}


def main(name: str) -> None:
    """Build the base of an example, ask it, and save the picture of the report."""
    folder = ROOT / "build" / "gallery" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    picture, question = EXAMPLES[name](folder)
    base, report, screenshot = folder / "kb", folder / "report.html", folder / "report.png"
    environment = os.environ | ({} if name == "groceries" else EMBEDDED)
    ku = [sys.executable, "-m", "ku_rag"]
    ask = ["query", picture, question, "--report", report]
    for command in (["ingest", folder / "data"], ask):
        subprocess.run([*ku, *command, "--kb", base], env=environment, check=True)
    size = f"--window-size=900,{1000 if name == 'documents' else 720}"
    subprocess.run([*HEADLESS, size, f"--screenshot={screenshot}", report.as_uri()], check=True)
    committed = ROOT / "docs" / "gallery" / f"{name}.webp"
    Image.open(screenshot).save(folder / "report.webp" if name == "groceries" else committed)


if __name__ == "__main__":
    main(*sys.argv[1:])
