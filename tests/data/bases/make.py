"""Make the stored base of a released version: python make.py CHECKOUT

CHECKOUT is a checkout of the release, for example by `git worktree add /tmp/release 0.1.0`. Its
`ku` makes the base, with the packages of the Python that runs this file. The script writes into its
own folder:

    VERSION.tar.gz              the base, and the output of that version: answers.json
    VERSION-export.tar.gz       its Parquet export
    VERSION-increments.tar.gz   for 0.3.0: an earlier copy, and an increment that follows it
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parent
WORK = Path("/tmp/ku-rag-bases")
QUESTIONS = (
    ("brass.png", "Who made this?"),
    ("lantern.png", "How much does it weigh?"),
    ("-", "Where was Anna Holm born?"),
    ("-", "When did Lumen Works open?"),
    ("-", "Who paid for the Paper Lantern?"),
    ("-", "When was Anna Holm born?"),
    ("-", "Where does Iceland lie?"),
)
SEARCHES = ("mulberry paper", "Karl Berg", "東京", "Graz", "kitchen")


def main(checkout: Path) -> None:
    """Make the base of one version."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE / "content", WORK / "content")
    lamps = WORK / "content" / "lamps"
    for name, copy in (("Brass Lamp", "brass.png"), ("Paper Lantern", "lantern.png")):
        shutil.copy(lamps / name / "photo.png", WORK / copy)

    os.chdir(WORK)
    sys.path.insert(0, str(checkout))
    from ku_rag import __version__ as version
    from ku_rag import cli

    def ku(*arguments: str) -> Any:
        sys.argv, out = ["ku", *arguments, "--json"], io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                cli.main()
            except SystemExit as ended:
                if ended.code not in (None, 0, 3):  # 3: the target of a relation is not a unit
                    raise
        return json.loads(out.getvalue())

    has_tables = (checkout / "ku_rag" / "store" / "table_rows.py").exists()
    if has_tables and version == "0.2.0":
        version = "0.3.0"  # whose `__version__` was not raised
    ku("ingest", "content/lamps")
    ku("ingest", "content/people.jsonl")
    ku("ingest", "content/notes.txt")
    if has_tables:
        ku("ingest", "content/tables.jsonl")
    ku("add", "--id", "desk", "--name", "Desk", "--text", "The Desk has two drawers.",
       "--metadata", '{"price": 80}')  # fmt: skip
    ku("add", "--name", "Brass Lamp", "--image", "brass.png", "--text",
       "A visitor broke the Brass Lamp in 1980.")  # fmt: skip
    ku("update", "twin-1", "--text", "The first Twin was replaced by a bench.")
    ku("update", "berg", "--alias", "The Collector")
    ku("graph", "add", "--relation", "Desk", "belongs to", "Karl Berg")
    if has_tables:
        ku("snapshot", "copy")
    ku("delete", "Old Stool")
    ku("add", "--id", "short", "--name", "Short Life", "--text", "A kitchen that is deleted.")
    ku("delete", "short")
    answers = {
        "stats": ku("stats"),
        "units": {unit["id"]: ku("show", unit["id"]) for unit in ku("list")},
        "queries": [[image, text, ku("query", image, text)] for image, text in QUESTIONS],
        "searches": [[text, ku("search", "--text", text)] for text in SEARCHES],
        "paths": ku("graph", "paths", "Anna Holm", "Brass Lamp"),
    }
    (WORK / "answers.json").write_text(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    pack(version, "kb", "answers.json")
    ku("export", "export")
    pack(f"{version}-export", "export")
    if has_tables:
        ku("snapshot", "increments/1", "--since", "copy")
        pack(f"{version}-increments", "copy", "increments")


def pack(name: str, *folders: str) -> None:
    """Write folders of the work folder to an archive, without files that other versions rebuild."""

    def clean_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if entry.name.endswith((".lock", "-shm")) or "/indexes/" in entry.name:
            return None
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(HERE / f"{name}.tar.gz", "w:gz", compresslevel=9) as archive:
        for folder in folders:
            archive.add(WORK / folder, folder, filter=clean_entry)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
