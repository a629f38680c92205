"""How much a model may be used: calls and tokens, counted over all threads."""

from __future__ import annotations

import threading

from ku_rag.errors import BudgetSpent


class Budget:
    """Counts what was used, and refuses what would be more.

    Every try counts as a call, failed ones too. Tokens are known after a reply, so calls that are
    already on their way may go beyond the limit by what they bring.

    Args:
        max_calls: most calls, 0 for any number.
        max_tokens: most tokens, both ways, 0 for any number.
    """

    def __init__(self, max_calls: int = 0, max_tokens: int = 0) -> None:
        self._max_calls, self._max_tokens = max_calls, max_tokens
        self._calls = self._tokens = 0
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        """Calls so far."""
        return self._calls

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self._tokens

    def take_call(self) -> None:
        """Count a call that is about to be made.

        Raises:
            BudgetSpent: there is nothing left for it.
        """
        with self._lock:
            calls = self._max_calls and self._calls >= self._max_calls
            tokens = self._max_tokens and self._tokens >= self._max_tokens
            if calls or tokens:
                raise BudgetSpent(
                    f"the budget of the multimodal model is spent ({self._calls:,} calls of "
                    f"{_most(self._max_calls)}, {self._tokens:,} tokens of "
                    f"{_most(self._max_tokens)}): raise "
                    f"{'mllm_max_calls' if calls else 'mllm_max_tokens'}, or go on without a model"
                )
            self._calls += 1

    def add_tokens(self, count: int) -> None:
        """Count the tokens of a reply and its question."""
        with self._lock:
            self._tokens += count


def _most(limit: int) -> str:
    return f"{limit:,}" if limit else "any number"
