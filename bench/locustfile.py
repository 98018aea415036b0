"""For people who use Locust: `locust -f bench/locustfile.py --host http://ENDPOINT`; the key is in OPENAI_API_KEY.

MODEL, TOKENS_IN (words) and TOKENS_OUT change what is asked. Streams are read to their end: the row POST is the time of
whole answers, the row `first token` the time to the first chunk. A stream without its `[DONE]` counts as failed.
"""

import os
import time

from locust import HttpUser, between, task  # type: ignore[import-not-found]

MODEL = os.environ.get("MODEL", "tiny")
WORDS = int(os.environ.get("TOKENS_IN", "100"))
TOKENS_OUT = int(os.environ.get("TOKENS_OUT", "64"))
PATH = "/v1/chat/completions"
OK = 200


class Caller(HttpUser):  # type: ignore[misc]
    """Asks for one stream after another."""

    wait_time = between(0, 0.1)

    def on_start(self) -> None:
        """Take the key along."""
        if key := os.environ.get("OPENAI_API_KEY"):
            self.client.headers["authorization"] = f"Bearer {key}"

    @task  # type: ignore[untyped-decorator]
    def chat(self) -> None:
        """One streamed answer."""
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "word " * WORDS}],
            "max_tokens": TOKENS_OUT,
            "stream": True,
        }
        started = time.perf_counter()
        with self.client.post(PATH, json=body, stream=True, catch_response=True) as answer:
            first, last = None, b""
            for line in answer.iter_lines(chunk_size=None):  # as it comes
                if line.startswith(b"data: "):
                    first, last = first or time.perf_counter(), line
            # Locust itself stops its clock at the headers.
            answer.request_meta["response_time"] = (time.perf_counter() - started) * 1000
            if answer.status_code == OK and last == b"data: [DONE]":
                answer.success()
            else:
                answer.failure(f"status {answer.status_code}, {'cut' if first else 'no stream'}")
        if first:
            self.environment.events.request.fire(
                request_type="first token",
                name=PATH,
                response_time=(first - started) * 1000,
                response_length=0,
                exception=None,
                context={},
            )
