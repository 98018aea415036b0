"""Calls an endpoint with the real OpenAI SDK and prints what came of each call as JSON. Runs in the serving environment.

`python sdk_calls.py URL MODEL KEY METRICS_URL…`. No assertion here: the tests read the results.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
import urllib.request
from typing import Any

import openai

LONG = 1900  # tokens, one engine step each: far from finished when its client leaves
BURST = 60  # more than the tests' service holds and queues


def error_of(error: openai.OpenAIError) -> dict[str, Any]:
    """What a caller sees of an error."""
    response = getattr(error, "response", None)
    return {
        "type": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "message": str(error)[:600],
        "retry_after": response.headers.get("retry-after") if response is not None else None,
    }


def attempt(call: Any) -> Any:
    """What a call gives, as plain data, or its error."""
    try:
        answer = call()
    except openai.OpenAIError as error:
        return error_of(error)
    return answer.model_dump() if hasattr(answer, "model_dump") else {"answer": str(answer)}


def basics(client: openai.OpenAI, model: str) -> dict[str, Any]:
    """One call of each kind."""
    messages: Any = [{"role": "user", "content": "this is a tiny model"}]
    chat = client.chat.completions.create(model=model, messages=messages, max_tokens=24, temperature=0)
    stream = client.chat.completions.create(
        model=model,
        messages=messages,
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    plain = client.completions.create(model=model, prompt="hello", max_tokens=24, temperature=0)
    text = plain.choices[0].text
    stop = text[len(text) // 2 :][:2]
    logprobs = client.completions.create(model=model, prompt="hello", max_tokens=3, temperature=0, logprobs=2)
    return {
        "models": [entry.id for entry in client.models.list().data],
        "chat": chat.choices[0].message.content,
        "chat_usage": chat.usage.completion_tokens if chat.usage else None,
        "streamed": "".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
        "stream_chunks": len(chunks),
        "stream_usage": chunks[-1].usage.completion_tokens if chunks[-1].usage else None,
        "completion": text,
        "stop_at": stop,
        "stopped": client.completions.create(
            model=model, prompt="hello", max_tokens=24, temperature=0, stop=[stop]
        )
        .choices[0]
        .model_dump(),
        "logprobs": logprobs.choices[0].logprobs.model_dump() if logprobs.choices[0].logprobs else None,
    }


def refusals(client: openai.OpenAI, url: str, model: str) -> dict[str, Any]:
    """Calls that must be refused, each with the words of the refusal."""
    stranger = openai.OpenAI(base_url=url, api_key="not-a-key", max_retries=0)
    return {
        "too_long": attempt(
            lambda: client.completions.create(model=model, prompt="hello " * 4000, max_tokens=8)
        ),
        "unknown_model": attempt(
            lambda: client.completions.create(model="nobody", prompt="hello", max_tokens=8)
        ),
        "bad_value": attempt(
            lambda: client.completions.create(model=model, prompt="x", max_tokens=8, temperature=-1)
        ),
        "wrong_key": attempt(lambda: stranger.models.list().data),
        "client_timeout": impatient(client, model),
        "server_timeout": attempt(
            lambda: client.completions.create(
                model=model,
                prompt="x",
                max_tokens=LONG,
                extra_body={"ignore_eos": True},
                extra_headers={"x-request-timeout-seconds": "0.3"},
            )
        ),
    }


def impatient(client: openai.OpenAI, model: str) -> Any:
    """What a client with a short timeout gets from a long call.

    Busy cores were seen to wake the client up to 2.3 s late, when the answer may already be there: a client that slept
    too long tries again.
    """
    hasty = client.with_options(timeout=0.05)
    result: Any = {}
    for _ in range(5):
        result = attempt(
            lambda: hasty.completions.create(
                model=model, prompt="x", max_tokens=LONG, extra_body={"ignore_eos": True}
            )
        )
        if "choices" not in result:
            break
    return result


async def overload(url: str, key: str, model: str) -> dict[str, Any]:
    """More requests at once than fit."""
    client = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)

    async def one() -> dict[str, Any]:
        try:
            await client.completions.create(
                model=model, prompt="x", max_tokens=400, extra_body={"ignore_eos": True}
            )
        except openai.OpenAIError as error:
            return error_of(error)
        return {"status": 200}

    outcomes = await asyncio.gather(*(one() for _ in range(BURST)))
    statuses = [outcome["status"] for outcome in outcomes]
    refused = [outcome for outcome in outcomes if outcome["status"] != 200]
    return {"statuses": {str(s): statuses.count(s) for s in set(statuses)}, "refused": refused[:1]}


def metric(urls: list[str], name: str, labels: str = "") -> float:
    """Sum of a metric's samples over what the nodes show."""
    total = 0.0
    for url in urls:
        text = urllib.request.urlopen(url, timeout=10).read().decode()  # noqa: S310 - loopback
        for line in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE):
            total += float(line[1]) if labels in line[0] else 0
    return total


def client_gone(client: openai.OpenAI, model: str, metrics: list[str]) -> dict[str, Any]:
    """Streams whose client leaves after the first chunk; the engine has to stop working on them.

    vLLM counts no request that is aborted, so the tokens tell: those made, of those asked for.
    """
    before, streams = settled(metrics), 4
    for _ in range(streams):
        stream = client.completions.create(
            model=model, prompt="x", max_tokens=LONG, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        stream.close()  # at once: while the next one starts, an engine that is not told would go on
    made = settled(metrics) - before
    return {
        "asked": LONG * streams,
        "made": made,
        "running": metric(metrics, "ray_vllm_num_requests_running"),
    }


def settled(metrics: list[str], quiet: float = 4, limit: float = 60) -> float:
    """Tokens made so far, once their number has not changed for a while."""
    last, since, deadline = -1.0, time.monotonic(), time.monotonic() + limit
    while time.monotonic() < deadline and time.monotonic() - since < quiet:
        now = metric(metrics, "ray_vllm_generation_tokens_total")
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.5)
    return last


def main(url: str, model: str, key: str, *metrics: str) -> None:
    """Everything in order; overload last, so that nothing else waits behind it."""
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
    results = basics(client, model)
    # Before the calls that are given up: what they may still make would be counted.
    results["client_gone"] = client_gone(client, model, list(metrics))
    results |= refusals(client, url, model)
    results["overload"] = asyncio.run(overload(url, key, model))
    print(json.dumps(results))  # noqa: T201 - its result


if __name__ == "__main__":
    main(*sys.argv[1:])
