"""The encoder without weights: hashed texts, described pictures, and the match of windows."""
