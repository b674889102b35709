"""The description of the interface: that it is right, found out by requests made from it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bundles import make_bundle
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from serving import Server, serving

# Each address is asked so often: half with what it takes, half with what it does not.
EXAMPLES = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("model")
    decode = DecodeConfig(beam_size=2, max_length_ratio=1.0, max_length_extra=2)
    save_bundle(replace(make_bundle(), decode=decode), folder / "model")
    with serving(folder / "model") as running:
        yield running
        assert running.process.poll() is None
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


@pytest.fixture(scope="module")
def description(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.get("/openapi.json").json()
    return found


def test_every_address_is_described(description: dict[str, Any]) -> None:
    paths = {path: sorted(methods) for path, methods in description["paths"].items()}
    posted = [
        "/translate",
        "/detect",
        *(f"/v1/{name}" for name in ("translate", "alternatives", "attention", "replay")),
    ]
    gotten = ["/languages", "/frontend/settings", "/v1/models", "/health", "/metrics"]
    assert paths == {path: ["post"] if path in posted else ["get"] for path in (*posted, *gotten)}
    for path in posted:
        operation = description["paths"][path]["post"]
        assert {"200", "400", "403", "408", "413", "415", "500", "503"} <= set(operation["responses"])
        assert operation["requestBody"]["required"]
        assert "422" not in operation["responses"]
    assert "Retry-After" in description["paths"]["/translate"]["post"]["responses"]["429"]["headers"]


def test_the_fields_are_described(description: dict[str, Any]) -> None:
    fields = description["components"]["schemas"]["Translate"]["properties"]
    assert {"text", "split", "prefix", "constraints", "terms", "attention", "alignments", "stream", "options"} <= set(
        fields
    )
    options = description["components"]["schemas"]["DecodeOptions"]["properties"]
    assert set(options) == set(DecodeConfig.model_fields)
    assert options["beam_size"]["anyOf"][0]["maximum"] == 16


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def test_nothing_points_nowhere(description: dict[str, Any]) -> None:
    found = set(references(description))
    assert found
    for reference in found:
        assert reference.removeprefix("#/components/schemas/") in description["components"]["schemas"]


def test_a_server_with_keys_says_so(server: Server, tmp_path: Path, description: dict[str, Any]) -> None:
    assert "securitySchemes" not in description["components"]
    save_bundle(make_bundle(), tmp_path / "model")
    with serving(tmp_path / "model", env={"DRAGOMAN_API_KEYS": "k"}) as other:
        found = other.get("/openapi.json").json()
    assert set(found["components"]["securitySchemes"]) == {"bearer", "key", "address"}
    assert {} in found["paths"]["/translate"]["post"]["security"]
    assert "security" not in found["paths"]["/languages"]["get"]


def test_requests_made_from_the_description(server: Server, description: dict[str, Any]) -> None:
    """schemathesis: whatever is sent, the answer is one that is described, and what is not allowed is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that it imports
        import schemathesis
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi.checks import (
            content_type_conformance,
            negative_data_rejection,
            response_schema_conformance,
            status_code_conformance,
            unsupported_method,
        )
    schema = schemathesis.openapi.from_dict(description)
    schema.config.update(base_url=str(server.client.base_url).rstrip("/"))
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
        negative_data_rejection,
        unsupported_method,
    ]
    asked: dict[str, int] = {}
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            case=st.one_of(
                operation.as_strategy(), operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
            )
        )
        def ask(case: Any) -> None:
            asked[case.path] = asked.get(case.path, 0) + 1
            case.call_and_validate(checks=checks)

        ask()
    assert set(asked) == set(description["paths"])
    assert sum(asked.values()) > 100


def test_the_manual_names_every_address(server: Server, description: dict[str, Any]) -> None:
    page = server.get("/docs").text
    for path, methods in description["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page
    assert "beam_size" in page
    assert json.dumps("script") not in page
