"""Trains the small segmentation model of the tests: `python -m tests.assets.train_shapes`.

Draws its own pictures, starts from random weights and downloads nothing. Writes shapes-seg.pt
beside this file in half precision, without paths or optimiser, and prints the mask mAP50 that
ultralytics' validator measures on held-out drawings.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag.regions.ultralytics_guard import import_ultralytics
from tests.assets.shapes import KINDS, scene

HERE = Path(__file__).parent
SEED = 7
SIDE = 160
PICTURES = {"train": 1400, "val": 200}
EPOCHS = 18


def main() -> None:
    """Draw, train, save, measure."""
    import_ultralytics()
    import torch
    from ultralytics.models.yolo.segment import SegmentationTrainer

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for number, (split, count) in enumerate(PICTURES.items()):
            _draw(folder, split, count, np.random.default_rng([SEED, number]))
        names = "".join(f"  {number}: {kind}\n" for number, kind in enumerate(KINDS))
        data = folder / "shapes.yaml"
        data.write_text(
            f"path: {folder}\ntrain: images/train\nval: images/val\nnames:\n{names}", "utf-8"
        )
        trainer = SegmentationTrainer(
            overrides={
                "task": "segment",
                "mode": "train",
                "model": str(HERE / "shapes-seg.yaml"),
                "data": str(data),
                "pretrained": False,
                "epochs": EPOCHS,
                "imgsz": SIDE,
                "batch": 16,
                "nbs": 16,
                "optimizer": "AdamW",
                "lr0": 0.003,
                "cos_lr": True,
                "warmup_epochs": 1.0,
                "mosaic": 0.2,
                "close_mosaic": 6,
                "scale": 0.3,
                "flipud": 0.5,
                "mask_ratio": 4,
                "seed": SEED,
                "deterministic": True,
                "device": "cpu",
                "workers": 0,
                "cache": "ram",
                "amp": False,
                "plots": False,
                "val": False,
                "project": str(folder / "runs"),
            }
        )
        trainer.train()
        metrics = trainer.validator.metrics
        _save(trainer.best if trainer.best.exists() else trainer.last)
    sys.stdout.write(
        f"mask mAP50 on {PICTURES['val']} held-out drawings: {metrics.seg.map50:.3f}\n"
    )


def _draw(folder: Path, split: str, count: int, random: np.random.Generator) -> None:
    images, labels = (folder / kind / split for kind in ("images", "labels"))
    images.mkdir(parents=True)
    labels.mkdir(parents=True)
    for number in range(count):
        image, shapes = scene(random, (SIDE, SIDE))
        image.save(images / f"{number:04}.png")
        lines = []
        for shape in shapes:
            corners = np.clip(shape.outline / SIDE, 0, 1).ravel()
            place = " ".join(f"{value:.5f}" for value in corners)
            lines.append(f"{KINDS.index(shape.look.kind)} {place}\n")
        (labels / f"{number:04}.txt").write_text("".join(lines), "utf-8")


def _save(checkpoint: Path) -> None:
    import torch
    import ultralytics

    loaded: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=False)
    model = (loaded.get("ema") or loaded["model"]).half()
    model.args = {"task": "segment", "imgsz": SIDE}
    model.yaml["yaml_file"] = "shapes-seg.yaml"
    model.criterion = None
    for parameter in model.parameters():
        parameter.requires_grad = False
    torch.save(
        {
            "model": model,
            "train_args": dict(model.args),
            "version": ultralytics.__version__,
            "license": "AGPL-3.0 (https://ultralytics.com/license)",
        },
        HERE / "shapes-seg.pt",
    )


if __name__ == "__main__":
    main()
