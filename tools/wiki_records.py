"""Unit records of the published knowledge bases of Encyclopedic-VQA and InfoSeek.

    python -m tools.wiki_records encyclopedic-vqa encyclopedic_kb_wiki.json --images DIR --out FILE
    python -m tools.wiki_records infoseek Wiki6M_ver_1_0.jsonl.gz --images DIR --out FILE

FILE is JSON lines for `ku encode` or `ku ingest`. A page is a unit: the id is its address, or its
Wikidata id, as the questions name it. Pictures are files of DIR with the names at the end of their
addresses; those that are not there are left out and counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

_PORTION = 1 << 20
Page = tuple[str, str, list[str], list[str]]
"""Id, name, texts and addresses of pictures."""


def read_object(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of one JSON object, however large, a value at a time.

    Raises:
        ValueError: the file is no JSON object.
    """
    decoder, text, is_first = json.JSONDecoder(), "", True
    with file.open(encoding="utf-8") as stream:

        def decode() -> Any:  # noqa: ANN401 - any JSON value
            nonlocal text
            while True:
                try:
                    value, end = decoder.raw_decode(text)
                    # A number may go on in the next portion; keys and pages are no numbers.
                    text = text[end:].lstrip()
                    return value
                except ValueError:
                    more = stream.read(_PORTION)
                    if not more:
                        raise
                    text = (text + more).lstrip()

        while True:
            while len(text) < 2 and (more := stream.read(_PORTION)):
                text = (text + more).lstrip()
            if text[:1] == "}":
                return
            if text[:1] != ("{" if is_first else ","):
                raise ValueError(f"{file} is no JSON object at {text[:40]!r}")
            is_first, text = False, text[1:].lstrip()
            if text[:1] == "}":
                return
            key = decode()
            while not text and (more := stream.read(_PORTION)):
                text = more.lstrip()
            text = text.removeprefix(":").lstrip()
            yield key, decode()


def encyclopedic_vqa(file: Path) -> Iterator[Page]:
    """Yield the pages of Encyclopedic-VQA (Mensink et al. 2023)."""
    for address, page in read_object(file):
        titles, texts = page.get("section_titles", ()), page.get("section_texts", ())
        sections = [f"{t}\n{x}" for t, x in zip(titles, texts, strict=False) if x.strip()]
        yield address, page["title"], sections, page.get("image_urls", [])


def infoseek(file: Path) -> Iterator[Page]:
    """Yield the pages of InfoSeek (Chen et al. 2023), Wiki6M."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            page = json.loads(line)
            picture = page.get("wikipedia_image_url")
            text = page.get("wikipedia_content") or ""
            yield page["wikidata_id"], page["wikipedia_title"], [text], [picture] if picture else []


READERS = {"encyclopedic-vqa": encyclopedic_vqa, "infoseek": infoseek}


def write_records(pages: Iterable[Page], images: Path, out: Path) -> tuple[int, int, int]:
    """Write a record a page.

    Returns:
        Numbers of pages, of pictures, and of pictures that are not there.
    """
    count = pictures = missing = 0
    with out.open("w", encoding="utf-8") as file:
        for identity, name, texts, addresses in pages:
            names = [unquote(PurePosixPath(urlsplit(url).path).name) for url in addresses]
            there = [
                str((images / n).resolve()) for n in dict.fromkeys(names) if (images / n).is_file()
            ]
            missing += len(set(names)) - len(there)
            record = {"id": identity, "name": name, "texts": [t for t in texts if t.strip()]}
            record["images"] = [str(Path(path).relative_to(out.parent.resolve())) for path in there]
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count, pictures = count + 1, pictures + len(there)
    return count, pictures, missing


def main(arguments: list[str] | None = None) -> None:
    """Write the records, and print how many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=READERS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--images", type=Path, required=True, help="a folder beside or below FILE")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    pages = READERS[options.dataset](options.file)
    count, pictures, missing = write_records(pages, options.images, options.out)
    print(f"{count:,} pages, {pictures:,} pictures; {missing:,} pictures are not there")


if __name__ == "__main__":
    sys.exit(main())
