"""Who gets past the endpoint's keys."""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "in_cluster"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """The file as a Ray pod imports it."""
    spec = importlib.util.spec_from_file_location("endpoint_keys_under_test", FOLDER / "endpoint_keys.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    """Keys on lines and between commas, a remark with a comma in it, and an empty line."""
    path = tmp_path / "keys"
    path.write_text("# team a, b\nsk-one\n\n sk-two , sk-last,\n")
    return path


async def _app(scope: dict[str, Any], _: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send(
            {
                "type": "http.response.start",
                "status": scope.get("answer", 200),
                "headers": scope.get("give", []),
            }
        )
        await send({"type": "http.response.body", "body": b"ok"})
    else:
        await send({"type": "passed"})


def _call(app: Any, *, kind: str = "http", path: str = "/v1/models", method: str = "GET", key: str | None = None,
          **scope: Any) -> list[dict[str, Any]]:  # fmt: skip
    headers = [(b"authorization", key.encode())] if key is not None else []
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app({"type": kind, "path": path, "method": method, "headers": headers, **scope}, None, send))
    return sent


def _status(app: Any, **call: Any) -> int:
    return int(_call(app, **call)[0]["status"])


def _guard(module: ModuleType, path: Path) -> Any:
    return module.RequireKey(_app, module.KeyFile(str(path)))


@pytest.mark.parametrize("key", ["Bearer sk-one", "Bearer sk-two", "Bearer sk-last", "bearer sk-one"])
def test_a_known_key_passes(module: ModuleType, keys_file: Path, key: str) -> None:
    """Each line of the file and each part between commas is a key; the word Bearer is of either case."""
    assert _status(_guard(module, keys_file), key=key) == 200


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        "sk-one",
        "Bearer",
        "Bearer ",
        "Bearer sk-three",
        "Bearer # team a",
        "Bearer b",
        "Bearer sk-two , sk-last",
        "Basic sk-one",
        "Bearer sk-one sk-two",
    ],
)
def test_everything_else_is_refused(module: ModuleType, keys_file: Path, key: str | None) -> None:
    """No key, no scheme, another scheme, an unknown key, a comment's text, two keys at once."""
    assert _status(_guard(module, keys_file), key=key) == 401


def test_two_headers_are_refused(module: ModuleType, keys_file: Path) -> None:
    """Two authorization headers are ambiguous: a proxy may have read the other one."""
    headers = [(b"authorization", b"Bearer sk-one"), (b"authorization", b"Bearer sk-one")]
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/v1/models", "method": "GET", "headers": headers}
    asyncio.run(_guard(module, keys_file)(scope, None, send))

    assert sent[0]["status"] == 401


def test_refusal_has_the_shape_of_openai(module: ModuleType, keys_file: Path) -> None:
    """OpenAI's SDKs read the error's message and code."""
    start, body = _call(_guard(module, keys_file))
    error = json.loads(body["body"])["error"]

    assert (b"www-authenticate", b"Bearer") in start["headers"]
    assert error["code"] == "invalid_api_key"
    assert error["message"] == "A known key is needed: authorization: Bearer KEY"


@pytest.mark.parametrize(
    "path", ["/invocations", "/score", "/tokenize", "/metrics", "/docs", "/healthz", "/health/x"]
)
def test_every_path_is_guarded(module: ModuleType, keys_file: Path, path: str) -> None:
    """VLLM's own check leaves these open."""
    assert _status(_guard(module, keys_file), path=path) == 401


@pytest.mark.parametrize("path", ["/health", "/ping"])
def test_liveness_is_open(module: ModuleType, keys_file: Path, path: str) -> None:
    """Whoever asks only whether it lives needs no key."""
    assert _status(_guard(module, keys_file), path=path) == 200


def test_cors_preflight_is_open(module: ModuleType, keys_file: Path) -> None:
    """Browsers send OPTIONS without the key."""
    assert _status(_guard(module, keys_file), method="OPTIONS") == 200


def test_lifespan_passes(module: ModuleType, keys_file: Path) -> None:
    """What is no request, such as starting and stopping, is not asked."""
    assert _call(_guard(module, keys_file), kind="lifespan") == [{"type": "passed"}]


def test_websocket_without_a_key_is_closed(module: ModuleType, keys_file: Path) -> None:
    """1008 is the code for a policy violation."""
    assert _call(_guard(module, keys_file), kind="websocket") == [{"type": "websocket.close", "code": 1008}]


def test_without_its_file_nobody_gets_in(module: ModuleType, tmp_path: Path) -> None:
    """A missing secret closes the endpoint, it does not open it."""
    assert _status(_guard(module, tmp_path / "missing"), key="Bearer sk-one") == 401


def test_an_empty_file_lets_nobody_in(module: ModuleType, tmp_path: Path) -> None:
    """No key is not an empty key."""
    path = tmp_path / "keys"
    path.write_text("\n\n")

    assert _status(_guard(module, path), key="Bearer ") == 401


def test_a_changed_file_is_read_again(module: ModuleType, keys_file: Path) -> None:
    """Keys change without a restart, within ten seconds of the file."""
    now = [0.0]
    keys = module.KeyFile(str(keys_file), clock=lambda: now[0])
    before = keys.accepts("sk-new")
    keys_file.write_text("sk-new\n")
    soon, now[0] = keys.accepts("sk-new"), 10.0

    assert (before, soon, keys.accepts("sk-new"), keys.accepts("sk-one")) == (False, False, True, False)


def test_vllm_can_make_it(module: ModuleType) -> None:
    """VLLM and Starlette make a middleware with the application by its keyword, and nothing else."""
    assert module.RequireKey(app=_app).keys._path == Path("/etc/llm-platform/keys/keys")


@pytest.mark.parametrize("status", [429, 503])
def test_overload_says_when_to_come_back(module: ModuleType, status: int) -> None:
    """Overload gets a retry-after, which OpenAI's SDKs obey."""
    start = _call(module.RetryAfter(_app), answer=status)[0]

    assert (b"retry-after", b"5") in start["headers"]


def test_a_given_retry_after_stays(module: ModuleType) -> None:
    """What Ray itself answers is not contradicted."""
    start = _call(module.RetryAfter(_app), answer=503, give=[(b"Retry-After", b"9")])[0]

    assert start["headers"] == [(b"Retry-After", b"9")]


@pytest.mark.parametrize("status", [200, 500])
def test_other_answers_are_left_alone(module: ModuleType, status: int) -> None:
    """Only overload is worth coming back for."""
    assert _call(module.RetryAfter(_app), answer=status)[0]["headers"] == []


def test_routes_of_the_application_show_through(module: ModuleType, keys_file: Path) -> None:
    """Ray names its metrics by the application's routes."""

    class Routed:
        routes = ("/v1/models",)

    guarded = module.RetryAfter(module.RequireKey(Routed(), module.KeyFile(str(keys_file))))

    assert guarded.routes == ("/v1/models",)


def test_needs_the_standard_library_only() -> None:
    """The file runs in any image: no import of its own beyond Python's."""
    source = (FOLDER / "endpoint_keys.py").read_text()
    imported = {
        line.split()[1].partition(".")[0]
        for line in source.splitlines()
        if line.startswith(("import ", "from "))
    }

    assert imported <= sys.stdlib_module_names
