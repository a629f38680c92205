"""SQLite is the truth: layout, migrations, database, lock."""
