"""The baseline of the published guides: FastAPI around Hugging Face's generate. Runs in the serving environment.

`python naive_app.py MODEL_FOLDER NAME PORT`. One request at a time: generate holds the model, and nothing is batched.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from transformers import AutoModelForCausalLM, AutoTokenizer


def application(folder: str, name: str) -> FastAPI:
    """The OpenAI paths that the load tools call, as far as a hand-written server goes."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    lock = threading.Lock()
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model"}]}

    @app.post("/v1/completions")
    def completions(body: dict[str, Any]) -> dict[str, Any]:
        wanted = int(body.get("max_tokens", 16))
        inputs = tokenizer(body["prompt"], return_tensors="pt")
        with lock, torch.inference_mode():
            made = model.generate(**inputs, max_new_tokens=wanted, min_new_tokens=wanted, do_sample=False)
        text = tokenizer.decode(made[0, inputs["input_ids"].shape[1] :])
        return {
            "object": "text_completion",
            "created": int(time.time()),
            "model": name,
            "choices": [{"index": 0, "text": text, "finish_reason": "length"}],
            "usage": {"completion_tokens": wanted},
        }

    return app


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[1], sys.argv[2]), host="127.0.0.1", port=int(sys.argv[3]), log_level="warning"
    )
