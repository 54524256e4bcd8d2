"""The response rows of a refused change of settings: each resource of the request has the same error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.errors import KafkaError
from highwater.wire.messages.alter_configs_request import AlterConfigsResource
from highwater.wire.messages.incremental_alter_configs_request import AlterConfigsResource as AlteredResource

Row = TypeVar("Row")


def refused_rows(
    resources: Sequence[AlterConfigsResource] | Sequence[AlteredResource], row: Callable[..., Row], why: KafkaError
) -> list[Row]:
    return [
        row(
            error_code=why.code,
            error_message=why.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]
