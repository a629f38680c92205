"""The demo: a knowledge base of flags, and a tour of questions about pictures."""
