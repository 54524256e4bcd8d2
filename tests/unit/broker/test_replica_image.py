"""What a metadata image says of one replica."""

from __future__ import annotations

import pytest

from highwater.broker.replica_image import broker_epochs
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, BrokerRegistration, BrokersImage
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import PartitionImage
from highwater.model import NodeId, Uuid

ME, OTHER = NodeId(1), NodeId(2)
HERE, GONE = Uuid(b"h" * 16), Uuid(b"g" * 16)
EPOCH = 7


@pytest.mark.parametrize(
    ("directory", "epoch"),
    [(HERE, EPOCH), (DIRECTORY_UNASSIGNED, EPOCH), (GONE, None), (DIRECTORY_LOST, None)],
    ids=["its own", "not assigned", "gone", "lost"],
)
def test_a_replica_whose_directory_is_not_online_may_not_be_in_the_isr(directory: Uuid, epoch: int | None) -> None:
    """The controller would refuse it, again and again."""
    registration = BrokerRegistration(
        id=OTHER,
        epoch=EPOCH,
        incarnation=Uuid(b"i" * 16),
        listeners=(),
        features={},
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        directories=(HERE,),
        cordoned=None,
    )
    image = MetadataImage("cluster", brokers=BrokersImage({OTHER: registration}))
    part = PartitionImage(
        replicas=(ME, OTHER), directories=(HERE, directory), isr=(ME,), leader=ME, leader_epoch=0, partition_epoch=0
    )
    assert broker_epochs(image, part, part.replicas) == {ME: None, OTHER: epoch}
