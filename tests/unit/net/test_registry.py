"""Declarations are found beside their handlers, and refused as they say."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from highwater.errors import Code
from highwater.net.registry import Api, Registry, Role, handlers_of
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import MetadataResponse

HANDLER = """
from highwater.net.registry import Api
from highwater.wire.messages.{module} import {message}

API = Api({message}.API_KEY, {message}.VERSIONS, {message})


def handle(part, ctx, request):
    return None
"""


def test_a_handler_file_is_all_that_a_new_api_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "faces"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "k12_heartbeat.py").write_text(HANDLER.format(module="heartbeat_request", message="HeartbeatRequest"))
    (package / "k03_metadata.py").write_text(HANDLER.format(module="metadata_request", message="MetadataRequest"))
    (package / "kinds.py").write_text("raise AssertionError('no handler file')")
    monkeypatch.syspath_prepend(tmp_path)
    found = handlers_of(import_module("faces"))
    assert [(each.api.key, each.api.request) for each in found] == [(3, MetadataRequest), (12, HeartbeatRequest)]
    registry = Registry(Role.BROKER)
    for api, handle in found:
        registry.add(api, handle)
    assert registry.advertised() == [(3, 0, 13), (12, 0, 4)]
    for name in [each for each in sys.modules if each.partition(".")[0] == "faces"]:
        monkeypatch.delitem(sys.modules, name)


def test_an_api_is_registered_once() -> None:
    registry = Registry(Role.BROKER)
    api = Api(12, (0, 4), HeartbeatRequest)
    registry.add(api, lambda ctx, request: None)
    with pytest.raises(ValueError, match="API 12 is registered twice for broker"):
        registry.add(api, lambda ctx, request: None)


def test_a_request_is_refused_by_the_error_of_its_answer_unless_its_api_says_otherwise() -> None:
    plain = Api(12, (0, 4), HeartbeatRequest)
    refused = plain.refusal(HeartbeatRequest(), Code.NOT_COORDINATOR, 4)
    assert refused == HeartbeatResponse(error_code=Code.NOT_COORDINATOR)
    own = Api(3, (0, 13), MetadataRequest, refuse=lambda request, code, version: MetadataResponse(controller_id=code))
    assert own.refusal(MetadataRequest(), Code.NOT_COORDINATOR, 4) == MetadataResponse(controller_id=16)
