"""Makes a tiny Llama with random weights and its tokenizer: kept as code, not as weights. Runs in the environment.

`python tiny_model.py FOLDER`. 2 layers, hidden size 128, 4 heads, 2 KV heads, vocabulary 512, 2,048 positions,
bfloat16, seed 0: the numbers of the tests and benchmarks hold for exactly this one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
TEMPLATE = "{% for m in messages %}{{m['role']}}: {{m['content']}}\n{% endfor %}assistant:"


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: every text has tokens, whatever it was trained on."""
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    base.train_from_iterator(["hello world this is a tiny model"] * 10, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=base, **SPECIAL)
    fast.chat_template = TEMPLATE
    return fast


def model() -> LlamaForCausalLM:
    """Random weights that are the same every time."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def main(folder: str) -> None:
    """Write model and tokenizer; the folder appears only when both are whole."""
    target = Path(folder)
    partial = target.with_name(f"{target.name}.partial")
    tokenizer().save_pretrained(partial)
    model().save_pretrained(partial, safe_serialization=True)
    partial.replace(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
