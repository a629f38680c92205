"""Limits of calls and tokens, counted over all threads."""

from __future__ import annotations

import threading

from ku_rag.errors import BudgetSpent


class Budget:
    """Counts calls and tokens, and refuses calls beyond the limits; 0 is no limit."""

    def __init__(self, max_calls: int = 0, max_tokens: int = 0) -> None:
        self._max_calls, self._max_tokens = max_calls, max_tokens
        self.calls = self.tokens = 0
        self._lock = threading.Lock()

    def take_call(self) -> None:
        """Count a call before it is made; `BudgetSpent` if a limit is reached."""
        with self._lock:
            calls = self._max_calls and self.calls >= self._max_calls
            tokens = self._max_tokens and self.tokens >= self._max_tokens
            if calls or tokens:
                raise BudgetSpent(
                    f"the budget of the multimodal model is spent ({self.calls:,} calls of "
                    f"{self._max_calls or 'any number'}, {self.tokens:,} tokens of "
                    f"{self._max_tokens or 'any number'}): raise "
                    f"{'mllm_max_calls' if calls else 'mllm_max_tokens'}, or go on without a model"
                )
            self.calls += 1

    def add_tokens(self, count: int) -> None:
        """Count the tokens of a request and its reply."""
        with self._lock:
            self.tokens += count
