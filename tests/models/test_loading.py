"""Checkpoints: shards, and every way in which a folder can be wrong."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from entropycache import load
from entropycache.errors import CheckpointError, OptionError
from entropycache.models import loading, register, registry
from entropycache.models.llada import LLADA
from tests.conftest import DATA, FAMILIES


@pytest.fixture
def folder(tmp_path):
    """A writable copy of the LLaDA reference checkpoint."""
    shutil.copytree(DATA / "llada", tmp_path / "model")
    (tmp_path / "model" / "logits.safetensors").unlink()
    return tmp_path / "model"


def edit_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))


@pytest.mark.parametrize("indexed", [True, False])
def test_shards_load_as_one_file_does(folder, engines, indexed):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, where = sorted(tensors), {}
    for part in range(3):
        file = f"model-0000{part + 1}-of-00003.safetensors"
        save_file({name: tensors[name] for name in names[part::3]}, folder / file)
        where |= dict.fromkeys(names[part::3], file)
    if indexed:
        index = {"metadata": {}, "weight_map": where}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    found = load(str(folder), dtype="float32", device="cpu").logits([1, 2, 3])
    assert torch.equal(found, engines("llada").logits([1, 2, 3]))


def test_a_missing_shard_is_named(folder):
    (folder / "model.safetensors").rename(folder / "other")
    index = {
        "weight_map": {"model.transformer.blocks.0.attn_norm.weight": "model-00001.safetensors"}
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="model-00001.safetensors is missing"):
        load(str(folder))


def test_a_damaged_index_is_named(folder):
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(CheckpointError, match="index.json: not readable as JSON"):
        load(str(folder))


def test_a_truncated_file_is_named(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(CheckpointError, match="model.safetensors: damaged or truncated"):
        load(str(folder))


def test_no_weights_and_no_config_are_told_apart(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no \*.safetensors weight file"):
        load(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match="no config.json"):
        load(str(folder))


def test_an_unreadable_config_is_named(folder):
    (folder / "config.json").write_text("{]")
    with pytest.raises(CheckpointError, match="config.json: not readable as JSON"):
        load(str(folder))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"architectures": ["BertModel"]},
            "unknown architecture 'BertModel'; supported: LLaDAModelLM, DreamModel",
        ),
        ({"architectures": "absent", "model_type": "bert"}, "unknown architecture 'bert'"),
        ({"architectures": None, "model_type": "absent"}, "unknown architecture None"),
        ({"architectures": [["LLaDAModelLM"]]}, "unknown architecture \\['LLaDAModelLM'\\]"),
        ({"n_layers": "absent"}, "'n_layers' is missing"),
        ({"mlp_hidden_size": 180}, "has shape .* the config asks for"),
        ({"n_layers": 5}, "no weight 'model.transformer.blocks.4"),
        ({"alibi": True}, "alibi=True; supported: False"),
        ({"layer_norm_type": "default"}, "layer_norm_type='default'"),
        ({"mask_token_id": "absent"}, "no mask token"),
        ({"mask_token_id": None}, "no mask token"),
        ({"mask_token_id": 5000}, "outside the vocabulary of 160 entries"),
        ({"d_model": None}, "a number of the config cannot be used"),
        ({"n_heads": 0}, "a number of the config cannot be used"),
        ({"max_sequence_length": None}, "max_position_embeddings comes to None"),
        ({"mlp_hidden_size": None, "mlp_ratio": 2.7}, "intermediate_size comes to 172.8"),
    ],
)
def test_a_config_that_does_not_fit_is_named(folder, changes, said):
    edit_config(folder, **changes)
    with pytest.raises(CheckpointError, match=said):
        load(str(folder))


def test_a_config_without_architectures_is_told_by_its_model_type(folder):
    before = load(str(folder)).generate([1, 2], gen_length=4).token_ids
    edit_config(folder, architectures="absent")
    assert load(str(folder)).generate([1, 2], gen_length=4).token_ids == before


def test_a_family_of_the_users_own_is_found_and_takes_no_name_that_is_taken(folder, monkeypatch):
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))
    mine = replace(LLADA, model_type="mine", architectures=("MineModel",))
    register(mine)
    edit_config(folder, architectures=["Unheard", "MineModel"])
    assert load(str(folder)).family is mine
    with pytest.raises(OptionError, match="'MineModel' is registered already"):
        register(mine)
    with pytest.raises(OptionError, match="no architectures"):
        register(replace(mine, architectures=()))


def test_dream_variants_that_are_not_supported_are_refused(tmp_path):
    shutil.copytree(DATA / "dream", tmp_path / "model")
    edit_config(tmp_path / "model", rope_scaling={"type": "yarn"})
    with pytest.raises(CheckpointError, match="rope_scaling"):
        load(str(tmp_path / "model"))


def test_a_weight_that_the_file_lacks_is_named(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.transformer.ln_f.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="no weight 'model.transformer.ln_f.weight'"):
        load(str(folder))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no/such/folder", "no such folder"),
        ("./absent", "no such folder"),
        ("absent", "give 'tiny', a local folder or a hub id"),
        ("someone/some-model", "the hub did not give it"),
    ],
)
def test_a_model_that_is_nowhere_says_where_it_was_sought(name, said):
    with pytest.raises(CheckpointError, match=said):
        load(name)


def test_unknown_dtypes_and_devices_are_refused():
    with pytest.raises(OptionError, match="unknown dtype 'int4'; known: auto, bfloat16"):
        load(str(DATA / "llada"), dtype="int4")
    with pytest.raises(OptionError, match="device 'abacus' cannot be used"):
        load(str(DATA / "llada"), device="abacus")


def test_auto_is_the_saved_dtype_where_the_processor_has_it(monkeypatch):
    cpu, bf16 = torch.device("cpu"), {"torch_dtype": "bfloat16"}
    for native, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(loading, "native_bfloat16", lambda device, found=native: found)
        assert loading.pick_dtype("auto", bf16, cpu) is expected
        assert loading.pick_dtype("auto", {"torch_dtype": "float64"}, cpu) is torch.float64
        assert loading.pick_dtype("bfloat16", bf16, cpu) is torch.bfloat16, "asked for, given"


def test_bfloat16_is_for_graphics_processors_and_x86_with_matrix_tiles(monkeypatch):
    cpu = torch.device("cpu")
    assert loading.native_bfloat16(torch.device("cuda"))
    monkeypatch.setattr(loading.platform, "machine", lambda: "x86_64")
    for tiles in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda found=tiles: found)
        assert loading.native_bfloat16(cpu) is tiles, "vector instructions alone are no gain"
    monkeypatch.setattr(loading.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    for there in (True, False):
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda x=there: x)
        assert loading.native_bfloat16(cpu) is there, "instructions of any kind will do elsewhere"
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not loading.native_bfloat16(cpu), "nothing to compute in bfloat16 with"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_network_loads_again(engines, family, tmp_path):
    engine = engines(family)
    config = json.loads((DATA / family / "config.json").read_text())
    loading.save_network(engine.network, engine.family, config, tmp_path)
    again = load(str(tmp_path), device="cpu", dtype="bfloat16")
    original = load(str(DATA / family), device="cpu", dtype="bfloat16")
    assert torch.equal(again.logits([1, 2, 3]), original.logits([1, 2, 3]))
    assert set(load_file(tmp_path / "model.safetensors")) == set(
        load_file(DATA / family / "model.safetensors")
    )


def test_tied_heads_share_the_embedding(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["model.transformer.ff_out.weight"] = tensors["model.transformer.wte.weight"].clone()
    save_file(tensors, folder / "model.safetensors")
    untied = load(str(folder), dtype="float32", device="cpu").logits([1, 2, 3])
    del tensors["model.transformer.ff_out.weight"]
    save_file(tensors, folder / "model.safetensors")
    edit_config(folder, weight_tying=True)
    engine = load(str(folder), dtype="float32", device="cpu")
    assert engine.network.head is engine.network.embedding
    assert torch.equal(engine.logits([1, 2, 3]), untied)


def test_quantised_weights_are_refused_rather_than_cast(folder):
    tensors = load_file(folder / "model.safetensors")
    name = "model.transformer.blocks.0.attn_out.weight"
    tensors[name] = tensors[name].to(torch.int8)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="attn_out.weight is stored as torch.int8"):
        load(str(folder))


def test_a_damaged_tokenizer_is_named(folder):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match="its tokenizer cannot be read"):
        load(str(folder))


def test_a_tokenizer_of_vocabulary_and_merges_is_read_as_dream_publishes_it(tmp_path):
    shutil.copytree(DATA / "dream", tmp_path / "model")
    folder = tmp_path / "model"
    words = ["h", "i", "hi", "!"]
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\nh i\n")
    added = {"158": {"content": "<|mask|>", "special": True}}
    config = {"tokenizer_class": "DreamTokenizer", "added_tokens_decoder": added}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    engine = load(str(folder), device="cpu")
    assert engine.tokenizer.encode("hi!").tolist() == [2, 3]
    assert engine.tokenizer.decode(engine.tokenizer.encode("hi!")) == "hi!"
