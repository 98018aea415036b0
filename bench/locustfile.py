"""For people who use Locust: `locust -f bench/locustfile.py --host http://ENDPOINT`; the key is in OPENAI_API_KEY.

MODEL, TOKENS_IN (words) and TOKENS_OUT change what is asked. Streams are read to their end.
"""

import os

from locust import HttpUser, between, task  # type: ignore[import-not-found]

MODEL = os.environ.get("MODEL", "tiny")
WORDS = int(os.environ.get("TOKENS_IN", "100"))
TOKENS_OUT = int(os.environ.get("TOKENS_OUT", "64"))


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
        with self.client.post("/v1/chat/completions", json=body, stream=True, catch_response=True) as answer:
            done = any(line == b"data: [DONE]" for line in answer.iter_lines())
            if answer.status_code == 200 and done:  # noqa: PLR2004 - HTTP OK
                answer.success()
            else:
                answer.failure(f"status {answer.status_code}, {'whole' if done else 'cut'}")
