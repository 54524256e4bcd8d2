"""ApiVersions says what the registry holds, in every version."""

from __future__ import annotations

import pytest

from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from tests.unit.net.parties import Scene, framed, header


def answer(version: int) -> ApiVersionsResponse:
    with Scene() as scene:
        peer = scene.dial()
        body = ApiVersionsRequest(client_software_name="a-client.x", client_software_version="1.2.3").encode(version)
        peer.send(framed(header(18, version, 5) + (b"\x00" if version >= 3 else b"") + body))
        scene.wait(lambda: len(peer.frames) == 1)
        assert peer.correlations == [5]
        return ApiVersionsResponse.decode(peer.frames[0][4:], version)


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_registered_apis_with_what_they_advertise(version: int) -> None:
    response = answer(version)
    assert response.error_code == 0
    assert [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys] == [
        (0, 0, 13),
        (3, 0, 13),
        (18, 0, 4),
    ]


def test_finalized_features_are_in_the_answer_from_version_3_on() -> None:
    assert answer(2).finalized_features == []
    response = answer(3)
    assert response.finalized_features_epoch == 42
    assert [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features] == [
        ("metadata.version", 30, 30)
    ]


@pytest.mark.parametrize(("version", "names"), [(3, ["metadata.version"]), (4, ["kraft.version", "metadata.version"])])
def test_a_feature_that_begins_at_0_is_in_the_answer_from_version_4_on(version: int, names: list[str]) -> None:
    assert [feature.name for feature in answer(version).supported_features] == names
