"""What a broker says of itself: the APIs that it answers, and the features of its cluster."""

from __future__ import annotations

from highwater.client.answers import check
from highwater.client.connection import SOFTWARE_NAME, Connection
from highwater.model import SOFTWARE_VERSION
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse


def ask_versions(connection: Connection) -> ApiVersionsResponse:
    """In the newest version that both know. Raises KafkaError and ClientFailure."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    response = connection.request(request, ApiVersionsResponse)
    check(response.error_code)
    return response
