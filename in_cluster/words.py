"""A tokenizer of common English words, for load tools where the model's own is not at hand. Standard library only.

Each word is one token here, and of nearly every model's tokenizer too, so a prompt of 512 of them is about 512 tokens.
The engine counts what it is given; answers have the length that is asked of it.
"""

from __future__ import annotations

import json
from pathlib import Path

_TEXT = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they
which one you were all her she there would their we him been has when who will no more if out so up said what its about
than into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years much where your way down should because long each
just state those people too how little good world make very year still see own work men day get here old life both between
being under three never know same last another while us might great go come since against right came take used himself
few house use place during high without again home around small however found part school every got left number course war
until always something fact though water less public put thing almost hand enough far took head yet government system set
told nothing night end why called find going look asked later knew point next city business give group toward young days
let room side social given present several order national second possible rather per face among form important often
things looked early white case become large big need four within felt along children saw best church ever least power
seemed development light thought interest want members family turned mind area done country others"""
WORDS = _TEXT.split()


def write_tokenizer(folder: Path) -> Path:
    """Write the tokenizer as Hugging Face's library reads it; returns the folder."""
    vocabulary = {word: number for number, word in enumerate(["<unk>", *dict.fromkeys(WORDS)])}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"},
        "config.json": {"model_type": "llama"},  # vLLM looks for it, and says an error where it is missing
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder
