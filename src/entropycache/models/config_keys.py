"""The keys of a checkpoint's ``config.json``: each is read, checked, known to be without effect on
inference, or named in a warning. None is ignored in silence.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from entropycache.errors import CheckpointError

IDLE = frozenset(
    {
        # The checkpoint itself, and the software that wrote it.
        *("architectures", "model_type", "_name_or_path", "auto_map", "transformers_version"),
        *("_commit_hash", "transformers_weights", "name", "version"),
        # Read elsewhere: the dtype of the weights, and special tokens.
        *("torch_dtype", "dtype", "precision", "mask_token_id", "eos_token_id"),
        # Tokens that decoding never needs.
        *("bos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"),
        *("tokenizer_class", "prefix"),
        # Training: dropout and initial weights.
        *("attention_dropout", "embedding_dropout", "residual_dropout", "hidden_dropout"),
        *("attn_pdrop", "resid_pdrop", "embd_pdrop", "initializer_range", "init_device"),
        *("init_fn", "init_std", "init_cutoff_factor", "gradient_checkpointing"),
        # How other code computes the same numbers.
        *("use_cache", "flash_attention", "_attn_implementation", "_attn_implementation_autoset"),
        *("_attn_implementation_internal", "attn_implementation", "_experts_implementation"),
        *(
            "torchscript",
            "use_bfloat16",
            "tf_legacy_loss",
            "pruned_heads",
            "chunk_size_feed_forward",
        ),
        # Outputs and tasks of Hugging Face's model classes.
        *("return_dict", "output_hidden_states", "output_attentions", "is_encoder_decoder"),
        *("is_decoder", "cross_attention_hidden_size", "add_cross_attention"),
        *("tie_encoder_decoder", "finetuning_task", "id2label", "label2id", "problem_type"),
        *("num_labels", "task_specific_params"),
    }
)
"""Keys without effect on the numbers of any family. The options of decoding that some configs hold
(``top_p`` and the like) are not among them: they are options here.
"""

NEUTRAL: Mapping[str, Any] = {
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("temperature", "top_p", "typical_p"), 1.0),
    **dict.fromkeys(("repetition_penalty", "length_penalty"), 1.0),
    **{"max_length": 20, "top_k": 50},
}
"""Options of decoding at the values that Hugging Face's classes write where nobody set them."""


class ReadKeys(Mapping[str, Any]):
    """A config that remembers which of its keys were asked for, in ``read``."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return self._config[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._config)

    def __len__(self) -> int:
        return len(self._config)


def check_fixed(config: Mapping[str, Any], fixed: Mapping[str, Collection[Any]], name: str) -> None:
    """Check keys of which only some values are implemented; the first of each is the default.

    Raises ``CheckpointError`` with the key, its value, and the values supported.
    """
    for key, accepted in fixed.items():
        value = config.get(key, next(iter(accepted)))
        # By type too: 0 is no False, and True no 1.
        if not any(type(value) is type(a) and value == a for a in accepted):
            raise CheckpointError(
                f"this {name} config has {key}={value!r}; "
                f"supported: {' or '.join(map(repr, accepted))}"
            )


def warn_of_unread(config: ReadKeys, idle: Collection[str], where: str) -> None:
    """Warn of keys that were not read and are not known to be without effect. Those that switch
    nothing on (``null``, ``false``, 0, empty) are left alone.
    """
    unread = [
        f"{key}={config[key]!r}"
        for key in config
        if not (key in config.read or key in IDLE or key in idle)
        and config[key]
        and config[key] != NEUTRAL.get(key)
    ]
    if unread:
        warnings.warn(
            f"{where}: unknown settings that may change the numbers are not used: "
            f"{', '.join(unread)}",
            stacklevel=2,
        )
