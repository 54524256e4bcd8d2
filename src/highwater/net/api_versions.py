"""ApiVersions (18), computed from the registry of its listener."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api, Registry
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API_VERSIONS = Api(key=18, versions=(0, 4), request=ApiVersionsRequest)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Features(NamedTuple):
    supported: Mapping[str, tuple[int, int]]
    epoch: int
    """The metadata offset of the finalized levels; -1 while they are not known."""
    finalized: Mapping[str, int]


def register_api_versions(registry: Registry, features: Callable[[], Features]) -> None:
    """Adds the handler to `registry`. Its response includes APIs that are registered later."""

    def handle(ctx: RequestContext, request: ApiVersionsRequest) -> None:
        if ctx.version >= 3 and not _is_valid(request):
            ctx.respond(ApiVersionsResponse(error_code=Code.INVALID_REQUEST, throttle_time_ms=ctx.throttle_ms))
            return
        response = ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=lowest, max_version=highest)
                for key, lowest, highest in registry.advertised()
            ],
            throttle_time_ms=ctx.throttle_ms,
        )
        if ctx.version >= 3:
            _fill_features(response, features(), ctx.version)
        ctx.respond(response)

    registry.add(API_VERSIONS, handle)


def unsupported_version() -> bytes:
    """The response to an unknown version: it is in version 0 and lists the supported versions (KIP-511)."""
    lowest, highest = API_VERSIONS.versions
    mine = ApiVersion(api_key=API_VERSIONS.key, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=[mine]).encode(0)


def _is_valid(request: ApiVersionsRequest) -> bool:
    return all(map(_SOFTWARE.fullmatch, (request.client_software_name, request.client_software_version)))


def _fill_features(response: ApiVersionsResponse, features: Features, version: int) -> None:
    """Before version 4 a client cannot read a range that begins at 0, so such features are left out (KAFKA-17011)."""
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(features.supported.items())
        if version >= 4 or lowest > 0
    ]
    response.finalized_features_epoch = features.epoch
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(features.finalized.items())
    ]
