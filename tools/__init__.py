"""Programs that write committed files."""
