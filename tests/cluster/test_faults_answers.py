"""Answers that say nothing but an error: well-formed in every version, with the code at its place."""

from __future__ import annotations

import pytest

from highwater.apis import APIS
from highwater.errors import Code
from highwater.net.registry import Api, Role
from highwater.wire.messages.fetch_request import FetchRequest
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.produce_request import ProduceRequest
from highwater.wire.produce import ProduceRequestFlat
from tests.named_things import codes, contents

CODE = Code.POLICY_VIOLATION
SUBJECTS = [pytest.param(api, id=f"{role.value} {api.request.__name__}") for role in Role for api in APIS[role]]


@pytest.mark.parametrize("api", SUBJECTS)
def test_every_version_of_an_answer_carries_the_code_and_nothing_else(api: Api) -> None:
    for version in range(api.versions[0], api.versions[1] + 1):
        asked = api.request(**contents(api.key, version))
        request = (api.decode or api.request.decode)(memoryview(asked.encode(version)), version)  # type: ignore[call-arg]
        refusal = api.refusal(request, CODE, version)
        assert refusal is not None
        answer = api.response.decode(memoryview(refusal.encode(version)), version)
        assert set(codes(answer)) == {CODE}, (version, answer)
        assert answer.encode(version) == refusal.encode(version)


def test_a_produce_that_expects_no_answer_gets_none() -> None:
    [api] = [api for api in APIS[Role.BROKER] if api.key == ProduceRequest.API_KEY]
    assert api.refusal(ProduceRequestFlat(None, 0, 1000, [("t", [(3, None)])]), CODE, 9) is None


def test_a_fetch_that_names_nothing_is_refused_as_a_whole() -> None:
    [api] = [api for api in APIS[Role.BROKER] if api.key == FetchRequest.API_KEY]
    assert api.decode is not None
    body = FetchRequest(session_id=7, session_epoch=2).encode(17)
    refusal = api.refusal(api.decode(memoryview(body), 17, 10), CODE, 17)
    assert isinstance(refusal, FetchResponse)
    assert (refusal.error_code, refusal.responses) == (CODE, [])
