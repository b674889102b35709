"""The server itself: its beginning, its keys, what it counts, what it answers where there is nothing, its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bundles import LINES
from served_models import all_models, server_of_all  # noqa: F401  # fixtures
from serving import Server, fine, refused, serving


def test_health_metrics_and_pages(server: Server) -> None:
    assert fine(server.get("/health")) == {"status": "ok"}
    server.get("/nowhere")
    metrics = server.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in (
        'dragoman_requests_total{path="/health",status="200"}',
        'dragoman_requests_total{path="other",status="404"}',
        'dragoman_request_seconds_bucket{le="0.1",path="/health"}',
        'dragoman_queue_requests{model="second"} 0.0',
        'dragoman_batch_sentences_sum{model="en-de"}',
        'dragoman_tokens_total{model="en-de",side="target"}',
    ):
        assert name in metrics.text
    for path, part in (("/", "<title>dragoman"), ("/docs", "POST /v1/translate"), ("/static/index.html", "<title>")):
        page = server.get(path)
        assert (page.status_code, page.headers["x-content-type-options"]) == (200, "nosniff")
        assert part in page.text
        assert "http://" not in page.text
        assert "https://" not in page.text
    assert "showAttention" in server.get("/views/attention.js").text


def test_addresses_and_methods_that_there_are_not(server: Server) -> None:
    assert "nothing at this address" in refused(server.get("/v2/translate"), 404)
    assert "nothing at this address" in refused(server.get("/static/none.js"), 404)
    refused(server.get("/static/../app.py"), 404)
    refused(server.get("/static/%2e%2e/app.py"), 404)
    answer = server.client.delete("/translate")
    assert "takes no DELETE" in refused(answer, 405)
    assert answer.headers["allow"] == "POST"


def test_no_page_of_another_origin_may_ask(server: Server) -> None:
    answer = server.client.get("/languages", headers={"Origin": "http://elsewhere.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_keys_cors_and_limits(models: Path) -> None:
    options = ["--api-key", "alpha", "--cors", "http://page.example", "--max-characters", "100"]
    with serving(models / "first", *options, env={"DRAGOMAN_API_KEYS": "beta, gamma"}) as server:
        asked = {"q": "key", "source": "en", "target": "de"}
        assert "an API key is needed" in refused(server.post("/translate", **asked), 403)
        for wrong in ("alph", "alphaa", "Alpha", "é", "beta,"):
            assert "not valid" in refused(server.post("/translate", **asked, api_key=wrong), 403)
        for right in ("alpha", "beta", "gamma"):
            fine(server.post("/translate", **asked, api_key=right))
            fine(server.client.post("/translate", json=asked, headers={"X-API-Key": right}))
            fine(server.client.post("/translate", json=asked, headers={"Authorization": f"Bearer {right}"}))
            fine(server.client.post("/translate", data={**asked, "api_key": right}))
        refused(server.get("/metrics"), 403)
        assert server.client.get("/metrics", headers={"X-API-Key": "beta"}).status_code == 200
        settings = fine(server.get("/frontend/settings"))
        assert (settings["keyRequired"], settings["charLimit"]) == (True, 100)
        page = {"Origin": "http://page.example"}
        answer = server.client.post("/translate", json={**asked, "api_key": "beta"}, headers=page)
        assert answer.headers["access-control-allow-origin"] == "http://page.example"
        other = server.client.get("/languages", headers={"Origin": "http://elsewhere.example"})
        assert "access-control-allow-origin" not in other.headers
        assert not any(key in line for key in ("alpha", "beta", "gamma") for line in server.log)
        assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_finishes_what_came(models: Path, number: int) -> None:
    with serving(models / "first", "--grace", "60") as server, ThreadPoolExecutor(8) as pool:
        long = "\n".join(line + str(n) for n in range(4) for line in LINES)
        # Options of its own give each a batch of its own.
        options = [{"beam_size": 16, "length_penalty": n / 4} for n in range(4)]
        answers = [pool.submit(server.post, "/v1/translate", text=long, options=one) for one in options]
        while 'dragoman_queue_requests{model="en-de"} 0.0' in server.get("/metrics").text:
            time.sleep(0.01)
        assert not all(answer.done() for answer in answers)
        assert server.stop(number) == 0
        assert [answer.result().status_code for answer in answers] == [200] * 4
        assert server.log[-1] == "stopped."


def test_a_second_signal_ends_soon(models: Path) -> None:
    with serving(models / "first") as server, ThreadPoolExecutor(4) as pool:
        long = "\n".join(line + str(n) for n in range(60) for line in LINES)
        answers = [pool.submit(server.post, "/v1/translate", text=long, options={"beam_size": 16}) for _ in range(4)]
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        begun = time.monotonic()
        assert server.stop() == 1
        assert time.monotonic() - begun < 10
        lost = [answer for answer in answers if answer.exception() or answer.result().status_code != 200]
        assert len(lost) > 1, [answer.result().text[:100] for answer in answers]
        assert "one signal lets it finish" in server.log[-1]


def test_a_package_that_is_missing(models: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv[1:] = ['serve', 'x']; from dragoman.cli import main"
    code += "; main.main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "dragoman: serving needs uvicorn, which is not installed; pip install 'dragoman[serve]'.\n"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["nowhere"], 1, "nowhere"),
        (["first", "--api-key", ""], 2, "an empty key was given"),
        (["first", "first"], 2, 'two models are called "en-de"; name them'),
        ([], 2, ""),
    ],
)
def test_what_cannot_be_served(run_cli: Any, models: Path, args: list[str], code: int, message: str) -> None:
    result = run_cli("serve", *args, "--port", "0", cwd=models)
    assert (result.rc, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_that_is_taken(run_cli: Any, server: Server, models: Path) -> None:
    result = run_cli("serve", models / "first", "--port", str(server.port))
    assert (result.rc, result.stderr.count("\n")) == (1, 1)
    assert f"cannot listen at 127.0.0.1, port {server.port}: " in result.stderr
