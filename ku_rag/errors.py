"""Everything that ku-rag raises on purpose.

    KuError
    ├── NotFound              a path, unit or source that does not exist        (exit 1)
    ├── BadInput              one item is broken: quarantined during ingest     (exit 1)
    ├── Refused               the safe answer is no, until told otherwise       (exit 1)
    ├── ReadOnly              a change was asked of a base opened for reading   (exit 1)
    ├── Closed                a base is used after it was closed                (exit 1)
    ├── MissingExtra          an optional dependency is not installed           (exit 1)
    ├── ModelFailed           a multimodal model gave no reply that can be used (exit 1)
    ├── BudgetSpent           a model has used the calls or tokens it may use   (exit 1)
    ├── IndexUnavailable      a remote index cannot be used                     (exit 1)
    ├── Corrupt               stored data fails its checksum                    (exit 1)
    ├── Mismatch              base and encoder or schema do not fit             (exit 4)
    │   └── Outdated          an earlier version made the base                  (exit 4)
    └── Locked                another process holds the writer lock             (exit 5)

Each message says what was seen, what was expected and what to do.
"""


class KuError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what `ku` exits with."""

    exit_code = 1


class NotFound(KuError):
    """A path, unit or source that does not exist."""


class BadInput(KuError):
    """An item that cannot be taken in as it is."""


class Refused(KuError):
    """An action that would lose something and was not confirmed."""


class ReadOnly(KuError):
    """A change was asked of a knowledge base that can only be read."""


class Closed(KuError):
    """A knowledge base was used after it was closed."""


class MissingExtra(KuError):
    """An optional dependency that a chosen model needs is not installed."""


class ModelFailed(KuError):
    """A multimodal model, or the endpoint that it is behind, gave no reply that can be used."""


class BudgetSpent(KuError):
    """The calls or tokens that a multimodal model may use are used up."""


class IndexUnavailable(KuError):
    """A remote index cannot be reached, or does not fit the knowledge base."""


class Corrupt(KuError):
    """Stored data that fails its checksum."""


class Mismatch(KuError):
    """The base has another encoder or a newer schema, or a file is not the one ingested."""

    exit_code = 4


class Outdated(Mismatch):
    """The knowledge base was made by an earlier version and has to be upgraded first."""


class Locked(KuError):
    """Another process is writing to the knowledge base."""

    exit_code = 5


def reason(error: BaseException) -> str:
    """Return the message of an error as one line of up to 200 characters, or else its class."""
    return " ".join(str(error).split())[:200].rstrip(". ") or type(error).__name__
