"""The HTTP server: a REST API, an OpenAI-compatible chat endpoint, and access rules."""
