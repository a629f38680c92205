"""`python -m benchmarks`: every benchmark that needs nothing but this package, one after another.

Those that need the shared data say so and go on without it.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import benchmarks

SEPARATE = {
    "__main__",
    "page",
    "peers",
    "record",
    "scale",
    "scale_stages",
    "vectors",
}


def main() -> int:
    """Run all benchmarks; the exit code tells whether one of them failed."""
    failed = []
    for module in sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__)):
        if module in SEPARATE:
            continue
        print(f"== {module}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{module}"], check=False)
        if done.returncode:
            failed.append(module)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
