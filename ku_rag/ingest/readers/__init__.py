"""Readers of files and folders: each yields records and what it had to leave out."""
