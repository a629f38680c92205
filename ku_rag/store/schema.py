"""The schema, as numbered steps. `PRAGMA user_version` holds the number of the last one taken.

A new base takes all steps, an older one those that it lacks. So steps are appended and never
edited. Row numbers are never reused (AUTOINCREMENT), because caches outside the database refer to
them.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ku_rag.errors import Mismatch, Outdated
from ku_rag.store.connection import APPLICATION_ID, Connection, has_checksums, roll_back
from ku_rag.store.facts import EXTRACTOR

FIRST = 3
"""Number of the first step, the schema of version 0.3.0."""

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE units (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        aliases TEXT NOT NULL,          -- JSON list
        metadata TEXT NOT NULL,         -- JSON object
        match INTEGER NOT NULL         -- whether its names are looked up in texts
    );
    CREATE INDEX units_kind ON units(kind);

    -- Folded names and aliases of units.
    CREATE TABLE names (
        key TEXT NOT NULL,
        unit INTEGER NOT NULL REFERENCES units(row) ON DELETE CASCADE,
        PRIMARY KEY (key, unit)
    ) WITHOUT ROWID;
    CREATE INDEX names_unit ON names(unit);

    CREATE TABLE sources (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        uri TEXT NOT NULL UNIQUE,
        unit INTEGER REFERENCES units(row),   -- its owner; NULL: shared
        origin TEXT NOT NULL,                 -- ingest, add or update
        hash TEXT NOT NULL,                   -- of its texts, a colon, of its pictures
        declared TEXT NOT NULL,               -- JSON: what it says of the unit
        chunks INTEGER NOT NULL DEFAULT 0,    -- how many it has, counted as they come and go
        images INTEGER NOT NULL DEFAULT 0    -- how many it shows, likewise
    );
    CREATE INDEX sources_unit ON sources(unit);

    CREATE TABLE chunks (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        source INTEGER NOT NULL REFERENCES sources(row),
        position INTEGER NOT NULL,
        document INTEGER NOT NULL,            -- which of the source's texts it is a part of
        hash INTEGER NOT NULL,                -- CRC-32 of the text: candidates for equal texts
        text TEXT NOT NULL,
        UNIQUE (source, position)
    );
    CREATE INDEX chunks_hash ON chunks(hash);

    -- Rows of tables. The text of a row is a document of the source.
    CREATE TABLE table_rows (
        source INTEGER NOT NULL REFERENCES sources(row) ON DELETE CASCADE,
        document INTEGER NOT NULL,
        place INTEGER NOT NULL,               -- of the table among those of the source
        name TEXT NOT NULL,                   -- of the table
        number INTEGER NOT NULL,              -- of the row in the table
        cells TEXT NOT NULL,                  -- JSON: [column, text, id of the linked unit or null]
        PRIMARY KEY (source, document)
    ) WITHOUT ROWID;
    CREATE TABLE cell_links (
        source INTEGER NOT NULL REFERENCES sources(row) ON DELETE CASCADE,
        document INTEGER NOT NULL,
        target TEXT NOT NULL,                 -- id of a unit
        PRIMARY KEY (source, document, target)
    ) WITHOUT ROWID;
    CREATE INDEX cell_links_target ON cell_links(target);

    -- The inverted index: which units list which chunks.
    CREATE TABLE unit_chunks (
        unit INTEGER NOT NULL REFERENCES units(row),
        chunk INTEGER NOT NULL REFERENCES chunks(row),
        owned INTEGER NOT NULL,               -- 1: of its own source, 0: the chunk names it
        PRIMARY KEY (unit, chunk)
    ) WITHOUT ROWID;
    CREATE INDEX unit_chunks_chunk ON unit_chunks(chunk);

    CREATE TABLE images (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        hash TEXT NOT NULL UNIQUE,            -- SHA-256 of the file
        file TEXT NOT NULL,                   -- below images/, or absolute when linked in place
        width INTEGER NOT NULL,
        height INTEGER NOT NULL,
        bytes INTEGER NOT NULL
    );
    -- Key columns first: SQLite 3.40's integrity check takes others for NULL.
    CREATE TABLE unit_images (
        source INTEGER NOT NULL REFERENCES sources(row),
        position INTEGER NOT NULL,
        image INTEGER NOT NULL REFERENCES images(row),
        unit INTEGER REFERENCES units(row),
        PRIMARY KEY (source, position)
    ) WITHOUT ROWID;
    CREATE INDEX unit_images_unit ON unit_images(unit);
    CREATE INDEX unit_images_image ON unit_images(image);

    CREATE TABLE encoders (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        fingerprint TEXT NOT NULL UNIQUE,
        dim INTEGER NOT NULL
    );
    -- row: 2^62 for chunks, 0 for images; plus 2^40 * encoder; plus the row of the chunk or image.
    CREATE TABLE vectors (
        row INTEGER PRIMARY KEY,
        vector BLOB NOT NULL,                 -- little-endian float16[dim]
        kind TEXT AS (iif(row >> 62, 'chunk', 'image')),
        encoder INTEGER AS ((row >> 40) & 0x3FFFFF),
        item INTEGER AS (row & 0xFFFFFFFFFF)
    );
    -- What is being encoded anew: how a source's texts are cut for another encoder, with vectors.
    CREATE TABLE shadows (
        encoder INTEGER NOT NULL REFERENCES encoders(row),
        source INTEGER NOT NULL REFERENCES sources(row) ON DELETE CASCADE,
        state TEXT NOT NULL,                  -- of the source then: its hash, a colon, its chunks
        cut TEXT NOT NULL,                    -- JSON: [document, characters] of each new chunk
        vectors BLOB NOT NULL,                -- little-endian float16[chunks, dim]
        PRIMARY KEY (encoder, source)
    ) WITHOUT ROWID;
    CREATE INDEX shadows_source ON shadows(source);
    -- Items that were put or dropped, for caches that catch up: a row for each run of numbers.
    CREATE TABLE changes (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        encoder INTEGER NOT NULL,
        op TEXT NOT NULL,                     -- put or drop
        first INTEGER NOT NULL,
        last INTEGER NOT NULL
    );

    -- The keyword index: stems of the text of each chunk and of its unit's name, without content.
    CREATE VIRTUAL TABLE words USING fts5(
        terms, content = '', contentless_delete = 1, tokenize = 'ascii'
    );
    CREATE VIRTUAL TABLE word_places USING fts5vocab(words, instance);
    -- Words of one commit are sorted in memory, up to these bytes: fewer segments are merged.
    INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);

    CREATE TABLE entities (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        key TEXT NOT NULL,
        kind TEXT NOT NULL,
        unit INTEGER UNIQUE REFERENCES units(row)
    );
    CREATE INDEX entities_key ON entities(key);
    CREATE TABLE relations (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        source INTEGER NOT NULL REFERENCES sources(row),
        head INTEGER NOT NULL REFERENCES entities(row),
        relation TEXT NOT NULL,
        target TEXT NOT NULL,                 -- as written: an id or a name
        target_key TEXT NOT NULL,
        target_kind TEXT,
        tail INTEGER REFERENCES entities(row),-- what the target means
        renamed INTEGER,                      -- unit that it meant until that was renamed
        information TEXT,
        condition TEXT
    );
    CREATE INDEX relations_source ON relations(source);
    CREATE INDEX relations_head ON relations(head);
    CREATE INDEX relations_tail ON relations(tail);
    CREATE INDEX relations_target_key ON relations(target_key);
    """,
    """
    -- Labels of facts, by origin: what an owner declares is told apart from what a text says.
    CREATE TABLE labels (
        row INTEGER PRIMARY KEY,
        label TEXT NOT NULL,                  -- as written
        origin TEXT NOT NULL,                 -- metadata, text or table
        key TEXT NOT NULL,                    -- the label in lower case
        UNIQUE (label, origin)
    );
    CREATE INDEX labels_key ON labels(key, origin);
    -- What units and rows of tables say; see `store.facts`.
    CREATE TABLE facts (
        row INTEGER PRIMARY KEY,
        unit INTEGER REFERENCES units(row),   -- NULL: of a row of a table
        subject TEXT,                         -- of a row: id of a unit, or a folded name
        label INTEGER NOT NULL REFERENCES labels(row),
        value TEXT,                           -- as written; NULL: as the key
        key TEXT,                             -- in lower case, shortened; NULL: null
        number REAL,                          -- that the value begins with, or year
        measure TEXT,                         -- dimension of the amount, or date
        amount REAL,                          -- in the base unit of the dimension; first day
        upper REAL,                           -- last day of a date
        scope TEXT,                           -- heading of the text, or name of the table
        chunk INTEGER REFERENCES chunks(row), -- where it was read; NULL: in metadata
        first INTEGER,                        -- span in the text of the chunk, in characters
        last INTEGER
    );
    CREATE INDEX facts_unit ON facts(unit, label) WHERE unit IS NOT NULL;
    CREATE INDEX facts_subject ON facts(subject, label) WHERE subject IS NOT NULL;
    CREATE INDEX facts_key ON facts(label, key, unit);
    CREATE INDEX facts_number ON facts(label, number, unit) WHERE number IS NOT NULL;
    CREATE INDEX facts_amount ON facts(label, measure, amount, unit) WHERE measure IS NOT NULL;
    CREATE INDEX facts_chunk ON facts(chunk) WHERE chunk IS NOT NULL;
    """,
    """
    CREATE TABLE image_words (
        image INTEGER PRIMARY KEY REFERENCES images(row) ON DELETE CASCADE,
        recogniser TEXT NOT NULL,             -- fingerprint
        words TEXT NOT NULL                   -- JSON: {text, box, confidence} each
    );
    """,
    """
    -- Places of texts and rows of tables in their documents.
    CREATE TABLE text_places (
        source INTEGER NOT NULL REFERENCES sources(row) ON DELETE CASCADE,
        document INTEGER NOT NULL,
        section TEXT NOT NULL,                -- the heading above it
        lines TEXT NOT NULL,                  -- JSON: [character, page, box] of each line
        PRIMARY KEY (source, document)
    ) WITHOUT ROWID;
    """,
    """
    -- Changes of units by hand, for undo; see `store.history`.
    CREATE TABLE history (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        unit INTEGER NOT NULL REFERENCES units(row) ON DELETE CASCADE,
        at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ')),
        by TEXT NOT NULL,                     -- who made it, as stated
        fields TEXT NOT NULL                  -- JSON: field -> [before, after]
    );
    CREATE INDEX history_unit ON history(unit);
    """,
)

SCHEMA = FIRST + len(STEPS) - 1


def create(connection: Connection) -> None:
    """Create the tables in an empty database, in one transaction; another process may do so too."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Whoever waited for another process here finds the work done.
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            for number, step in enumerate(STEPS, FIRST):
                take(connection, number, step)
            finish_facts(connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def take(connection: Connection, number: int, step: str) -> None:
    """Take a step. Called inside a transaction."""
    connection.execute(step)
    connection.execute(f"PRAGMA user_version = {number}")


def expected() -> Connection:
    """An empty database in memory, for comparing; the caller closes it."""
    connection = Connection(":memory:")
    create(connection)
    return connection


def version(connection: Connection) -> int:
    """Return the number of a database's schema; 0 if it is older than version 0.3.0.

    Those versions used numbers up to 3 as well, but had no tables of table rows.
    """
    number, has_rows = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master WHERE name = 'table_rows') "
        "FROM pragma_user_version"
    ).fetchone()
    return int(number) if has_rows else 0


def check(connection: Connection, folder: Path) -> None:
    """Check that the database of the base in a folder has the schema of this version.

    Raises:
        Outdated: it has an earlier one, or its upgrade was interrupted.
        Mismatch: it has a later one.
    """
    number = version(connection)
    if number > SCHEMA:
        raise Mismatch(
            f"{folder} has schema {number}, this version of ku-rag knows up to "
            f"{SCHEMA}: install a newer ku-rag to open it"
        )
    if is_outdated(connection):
        raise Outdated(
            f"{folder} was made by an earlier version of ku-rag: run "
            f"`ku upgrade --kb {shlex.quote(str(folder))}`, which keeps all content"
        )


def is_outdated(connection: Connection) -> bool:
    """Return whether a database of no later version is not as this version makes it."""
    return (
        not has_checksums(connection)
        or version(connection) < SCHEMA
        or is_stale(connection)
        or not has_facts(connection)
    )


def is_stale(connection: Connection) -> bool:
    """Return whether derived rows (names, lists, keywords, ends of relations) are out of date."""
    return bool(connection.execute("SELECT 1 FROM meta WHERE key = 'stale'").fetchone())


def has_facts(connection: Connection) -> bool:
    """Return whether the facts of all content are read, by the rules of this version."""
    return connection.column("SELECT value FROM meta WHERE key = 'facts'") == [str(EXTRACTOR)]


def finish_facts(connection: Connection) -> None:
    """Record that the facts of all content are read. Called inside a transaction."""
    connection.execute("REPLACE INTO meta VALUES ('facts', ?)", (str(EXTRACTOR),))
