"""The `ku` command: parse, call, print. Every command is a Python method as well.

Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 failed; 2 usage; 3 done, but
some items were left out; 4 base and encoder or schema do not fit; 5 locked; 130 interrupted.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run `ku`; an interrupt ends it without a traceback, also while its modules are imported."""
    try:
        from ku_rag.cli.commands import run

        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("stopped: what was committed is kept; the same command continues it, ")
        sys.stderr.write("a run of `ku eval` with --resume\n")
        code = _INTERRUPTED
    except BrokenPipeError:
        # Nobody reads the output any more; a second write at exit would report that again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
