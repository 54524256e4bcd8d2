"""What brokers pass on to the controller: which requests, and how they are refused where that fails."""

from __future__ import annotations

import pytest

from highwater.apis import APIS
from highwater.errors import Code
from highwater.faults import Failures, Rule
from highwater.net.registry import Api, Role
from highwater.wire.messages.envelope_request import EnvelopeRequest
from highwater.wire.messages.envelope_response import EnvelopeResponse
from highwater.wire.messages.request_header import RequestHeader
from tests.named_things import codes, contents
from tests.subjects import Subject, advertised
from tests.unit.broker.living import Living

OF_CONTROLLERS = [each for each in advertised() if each.role is Role.CONTROLLER]
FORWARDED = [api for api in APIS[Role.BROKER] if api.forwarded]


def enclosed(subject: Subject) -> EnvelopeRequest:
    header = RequestHeader(
        request_api_key=subject.api.key, request_api_version=subject.version, correlation_id=1, client_id="test"
    )
    body = subject.api.request(**contents(subject.api.key, subject.version)).encode(subject.version)
    data = header.encode(2 if subject.is_flexible else 1) + body
    return EnvelopeRequest(request_data=data, request_principal=None, client_host_address=bytes(4))


def test_an_envelope_may_hold_what_brokers_pass_on_and_nothing_else() -> None:
    with Living().start() as living:
        opened = {
            subject.name: living.ask(enclosed(subject), EnvelopeResponse, 0, port=9093).error_code
            for subject in OF_CONTROLLERS
        }
    assert opened == {
        subject.name: Code.NONE if subject.api.forwarded else Code.INVALID_REQUEST for subject in OF_CONTROLLERS
    }


@pytest.mark.parametrize("api", FORWARDED, ids=lambda api: api.request.__name__)
def test_a_request_that_cannot_be_forwarded_is_refused_for_each_named_entry(api: Api) -> None:
    with Living().start() as living:
        failures = Failures(living.node.server.registries, lambda ids, strike: strike(ids[0]))
        failures.arm(Rule(1, Role.CONTROLLER, EnvelopeRequest.API_KEY, int(Code.POLICY_VIOLATION)))
        for version in range(api.versions[0], api.versions[1] + 1):
            asked = api.request(**contents(api.key, version))
            answer = living.ask(asked, api.response, version)
            assert set(codes(answer)) == {Code.UNKNOWN_SERVER_ERROR}, (version, answer)
