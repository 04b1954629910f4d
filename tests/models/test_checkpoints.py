"""A checkpoint that would decode wrong text is refused or handled, never run: settings, weights,
numbers, end tokens.
"""

from __future__ import annotations

import json
import shutil
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file

from entropycache import Engine, load
from entropycache.errors import CheckpointError
from tests.conftest import DATA

FAMILIES = ("llada", "dream")


@pytest.fixture
def folder(tmp_path, family):
    shutil.copytree(DATA / family, tmp_path / "model")
    (tmp_path / "model" / "logits.safetensors").unlink()
    return tmp_path / "model"


def edit(path, **changes):
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))


def logits(folder) -> torch.Tensor:
    return load(str(folder), dtype="float64", device="cpu").logits([5, 9, 3, 7, 1, 2])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_scaled_rotary_embeddings_act(folder, key):
    before = logits(folder)
    edit(folder / "config.json", **{key: {"rope_type": "default"}})
    assert torch.equal(logits(folder), before)
    edit(folder / "config.json", **{key: {"rope_type": "linear", "factor": 4.0}})
    assert not torch.allclose(logits(folder), before)
    edit(folder / "config.json", **{key: {"rope_type": "dynamic", "factor": 4.0}})
    with pytest.raises(CheckpointError, match="config.json: rope_scaling of type 'dynamic'"):
        load(str(folder))


@pytest.mark.parametrize("family", FAMILIES)
def test_linear_scaling_is_positions_divided(folder):
    """By hand: at factor 2 every second position turns as far as each did before."""
    before = load(str(folder), dtype="float64", device="cpu").network.rotary
    edit(folder / "config.json", rope_scaling={"type": "linear", "factor": 2.0})
    after = load(str(folder), dtype="float64", device="cpu").network.rotary
    torch.testing.assert_close(after.cos[::2], before.cos[: len(after.cos[::2])])
    torch.testing.assert_close(after.sin[::2], before.sin[: len(after.sin[::2])])


@pytest.mark.parametrize("family", ["llada"])
def test_yarn_multiplies_cosines_and_sines(folder):
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    edit(folder / "config.json", rope_scaling=scaling)
    rotary = load(str(folder), dtype="float64", device="cpu").network.rotary
    # YaRN's equation 21: 0.1 ln(4) + 1.
    torch.testing.assert_close((rotary.cos**2 + rotary.sin**2).sqrt()[7, 0].item(), 1.138629436)


@pytest.mark.parametrize("family", FAMILIES)
def test_published_configs_are_known_key_by_key(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(str(folder))


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_settings_are_named_in_a_warning(folder):
    edit(folder / "config.json", attention_sinks=4, off=False, nothing=None, empty=[], top_k=50)
    with pytest.warns(UserWarning, match="config.json: unknown .* not used: attention_sinks=4$"):
        load(str(folder))


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("llada", {"layer_norm_with_affine": False}, "layer_norm_with_affine=False; supported: T"),
        ("llada", {"bias_for_layer_norm": True}, "bias_for_layer_norm=True"),
        ("llada", {"block_group_size": 4}, "block_group_size=4; supported: 1"),
        ("llada", {"include_bias": 0}, "include_bias=0; supported: False"),
        ("llada", {"d_model": 66}, "d_model, 66, is not a multiple of n_heads, 4"),
        ("llada", {"n_kv_heads": 3}, "num_key_value_heads, 3, does not divide"),
        ("llada", {"n_kv_heads": 0}, "a number of the config cannot be used|num_key_value_heads"),
        ("llada", {"rms_norm_eps": "1e-5"}, "rms_norm_eps comes to '1e-5', not a number"),
        ("llada", {"rms_norm_eps": -1.0}, "rms_norm_eps comes to -1.0; it must be above 0"),
        ("llada", {"rope_theta": None}, "rope_theta must be a number above 0, and finite, not n"),
        ("llada", {"weight_tying": "yes"}, "tie_word_embeddings comes to 'yes', not true or false"),
        ("llada", {"n_layers": 10**400}, "num_hidden_layers comes to 1000"),
        ("dream", {"use_sliding_window": True}, "use_sliding_window=True; supported: False"),
        ("dream", {"hidden_act": "gelu"}, "hidden_act='gelu'; supported: 'silu'"),
        ("dream", {"attention_bias": False}, "attention_bias=False"),
        ("dream", {"head_dim": 15}, "head_dim comes to 15; the rotary embedding needs an even"),
        ("dream", {"num_hidden_layers": 4.0}, "num_hidden_layers comes to 4.0|cannot be used"),
        ("dream", {"mask_token_id": 1.5}, "mask_token_id must be a whole number, not 1.5"),
        ("dream", {"mask_token_id": True}, "mask_token_id must be a whole number, not True"),
        ("dream", {"mask_token_id": 160}, "mask_token_id is 160, outside the vocabulary of 160"),
        ("dream", {"eos_token_id": "x"}, "eos_token_id must be a whole number, not 'x'"),
        ("dream", {"eos_token_id": -1}, "eos_token_id is -1, outside the vocabulary"),
        ("dream", {"eos_token_id": [3, 999999]}, "eos_token_id is 999999, outside"),
        ("dream", {"eos_token_id": 158}, "mask_token_id and eos_token_id are both 158"),
        ("dream", {"model_type": ["Dream"], "architectures": "absent"}, "unknown architecture"),
    ],
)
def test_a_setting_that_would_decode_wrong_text_is_refused_in_a_sentence(folder, changes, said):
    edit(folder / "config.json", **changes)
    with pytest.raises(CheckpointError, match=said) as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 10_000, "nested too deeply"),
        ('{"a": 1, "b": 2, "a": 3}', "key 'a' is given twice"),
        ("[1, 2]", "must hold an object, not list"),
        ('{"a": ' + "9" * 5000 + "}", "not readable as JSON"),
        ("\ufeff{}", "not readable as JSON"),
    ],
)
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_json_that_cannot_be_used_is_told_in_a_sentence(folder, file, text, said):
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=f"{file}: .*{said}") as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", ["llada"])
def test_json_in_another_encoding_is_named(folder):
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text, encoding="utf-16")
    with pytest.raises(CheckpointError, match="config.json: not readable as JSON"):
        load(str(folder))


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_that_no_module_takes_are_named(folder):
    tensors = load_file(folder / "model.safetensors")
    spare = {f"model.adapter.{i}.lora_A.weight": torch.zeros(2) for i in range(7)}
    save_file(tensors | spare, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="holds weights .*lora_A.weight' and 2 more"):
        load(str(folder))
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8)}
    save_file(tensors | buffer, folder / "model.safetensors")
    load(str(folder))  # computed from the config, wherever it lies


@pytest.mark.parametrize("family", FAMILIES)
def test_up_to_five_missing_weights_are_named(folder):
    tensors = load_file(folder / "model.safetensors")
    kept = {name: t for name, t in tensors.items() if "q_proj" not in name and "norm" not in name}
    save_file(kept, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="no weight ('[^']+', ){4}'[^']+' and 8 more|more$"):
        load(str(folder))


@pytest.mark.parametrize(
    ("family", "key"), [("llada", "weight_tying"), ("dream", "tie_word_embeddings")]
)
def test_a_tied_head_may_lie_in_the_file_or_not(folder, family, key):
    edit(folder / "config.json", **{key: True})
    head = {"llada": "model.transformer.ff_out.weight", "dream": "lm_head.weight"}[family]
    with_head = logits(folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors[head]
    save_file(tensors, folder / "model.safetensors")
    assert torch.equal(logits(folder), with_head)
    edit(folder / "config.json", **{key: False})
    with pytest.raises(CheckpointError, match=f"no weight '{head}'"):
        load(str(folder))


@pytest.mark.parametrize("family", ["dream"])
@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"weight_map": {"lm_head.weight": 3}}, "must be a name in this folder, not 3"),
        ({"weight_map": {"lm_head.weight": "../x"}}, "must be a name in this folder, not '../x'"),
        ({"weight_map": [1]}, "not a weight index"),
        ({}, "not a weight index"),
        ({"weight_map": {"ghost": "model.safetensors"}}, "lacks 'ghost', which the index says"),
    ],
)
def test_an_index_of_shards_that_lies_is_named(folder, weights, said):
    (folder / "model.safetensors.index.json").write_text(json.dumps(weights))
    with pytest.raises(CheckpointError, match=said):
        load(str(folder))


@pytest.mark.parametrize("family", ["dream"])
@pytest.mark.parametrize(
    ("true", "lie"), [(b'"shape":[6', b'"shape":[9'), (b'"dtype":"F32"', b'"dtype":"I32"')]
)
def test_a_shard_that_lies_about_itself_is_named(folder, true, lie):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    assert true in data
    path.write_bytes(data.replace(true, lie, 1))
    with pytest.raises(CheckpointError, match="model.safetensors") as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_end_tokens_are_the_union_of_all_that_name_one(folder, family):
    edit(folder / "config.json", eos_token_id=[150, 151])
    edit(folder / "generation_config.json", eos_token_id=149)
    engine = load(str(folder))
    assert engine.tokenizer.end_ids == {149, 150, 151}
    edit(folder / "config.json", eos_token_id=[])
    edit(folder / "generation_config.json", eos_token_id="absent")
    assert load(str(folder)).tokenizer.end_ids == frozenset()


def test_the_tokenizers_own_end_token_counts(tiny):
    backend = tiny.tokenizer.backend
    assert backend.eos_token_id in tiny.tokenizer.end_ids


def test_an_adopted_models_generation_config_counts(engines):
    class Some:
        def __init__(self, **values):
            self.values = values

        def to_dict(self):
            return self.values

    class Model:
        config = Some(**json.loads((DATA / "llada" / "config.json").read_text()))
        generation_config = Some(eos_token_id=[140])

        def state_dict(self):
            return load_file(DATA / "llada" / "model.safetensors")

    assert Engine.from_hf(Model()).tokenizer.end_ids == {140, 159}
