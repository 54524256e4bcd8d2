"""Random but consistent histories of metadata records, as a controller could have written them."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

from highwater.model import Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.access_control_entry_record import AccessControlEntryRecord
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.client_quota_record import ClientQuotaRecord, EntityData
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.delegation_token_record import DelegationTokenRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.fence_broker_record import FenceBrokerRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.producer_ids_record import ProducerIdsRecord
from highwater.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from highwater.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from highwater.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from highwater.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from highwater.wire.messages.topic_record import TopicRecord
from highwater.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from highwater.wire.messages.user_scram_credential_record import UserScramCredentialRecord


class History:
    """Knows what exists, so that no record contradicts the ones before it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.known = SimpleNamespace(brokers={}, topics={}, acls=[], next_pid=0, names=0)
        self.steps = [getattr(self, name) for name in dir(self) if name.startswith("step_")]

    def records(self, count: int) -> list[Message]:
        made: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
        while len(made) < count:
            made.extend(self.random.choice(self.steps)())
        return made

    def uuid(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    def ids(self, most: int = 3) -> list[int]:
        return self.random.sample(range(1, 6), self.random.randint(1, most))

    def step_feature(self) -> list[Message]:
        name = self.random.choice(["group.version", "transaction.version", "kraft.version"])
        return [FeatureLevelRecord(name=name, feature_level=self.random.randint(0, 2))]

    def step_register_broker(self) -> list[Message]:
        broker, epoch = self.random.randint(1, 5), self.random.randint(0, 1000)
        self.known.brokers[broker] = epoch
        record = RegisterBrokerRecord(
            broker_id=broker,
            incarnation_id=self.uuid(),
            broker_epoch=epoch,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=self.random.randint(1, 65535))],
            features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
            rack=self.random.choice([None, "a", "b"]),
            fenced=self.random.random() < 0.5,
            in_controlled_shutdown=self.random.random() < 0.2,
            log_dirs=[self.uuid() for _ in range(self.random.randint(0, 2))],
            cordoned_log_dirs=self.random.choice([None, [], [self.uuid()]]),
        )
        return [record]

    def step_change_broker(self) -> list[Message]:
        if not self.known.brokers:
            return []
        broker, epoch = self.random.choice(sorted(self.known.brokers.items()))
        choice = self.random.randrange(4)
        if choice == 0:
            del self.known.brokers[broker]
            return [UnregisterBrokerRecord(broker_id=broker, broker_epoch=epoch)]
        if choice == 1:
            return [FenceBrokerRecord(id=broker, epoch=epoch)]
        if choice == 2:
            return [UnfenceBrokerRecord(id=broker, epoch=epoch)]
        change = BrokerRegistrationChangeRecord(
            broker_id=broker,
            broker_epoch=epoch,
            fenced=self.random.randint(-1, 1),
            in_controlled_shutdown=self.random.randint(0, 1),
            log_dirs=[self.uuid() for _ in range(self.random.randint(0, 2))],
            cordoned_log_dirs=self.random.choice([None, [self.uuid()]]),
        )
        return [change]

    def step_register_controller(self) -> list[Message]:
        record = RegisterControllerRecord(
            controller_id=self.random.randint(1, 3),
            incarnation_id=self.uuid(),
            end_points=[ControllerEndpoint(name="CONTROLLER", host="h", port=9093)],
            features=[ControllerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        )
        return [record]

    def step_create_topic(self) -> list[Message]:
        self.known.names += 1
        topic, name = self.uuid(), f"topic-{self.known.names}"
        count = self.random.randint(1, 4)
        self.known.topics[topic] = (name, count)
        made: list[Message] = [TopicRecord(name=name, topic_id=topic)]
        for index in self.random.sample(range(count), count):
            replicas = self.ids()
            made.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic,
                    replicas=replicas,
                    isr=replicas[:1],
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[self.uuid() for _ in replicas] if self.random.random() < 0.8 else [],
                    eligible_leader_replicas=self.random.choice([None, replicas[1:]]),
                    last_known_elr=self.random.choice([None, replicas[:1]]),
                )
            )
        return made

    def step_change_partition(self) -> list[Message]:
        if not self.known.topics:
            return []
        topic, (_, count) = self.random.choice(sorted(self.known.topics.items()))
        record = PartitionChangeRecord(topic_id=topic, partition_id=self.random.randrange(count))
        if self.random.random() < 0.5:
            record.isr = self.ids()
        if self.random.random() < 0.5:
            record.leader = self.random.randint(-1, 5)
        if self.random.random() < 0.3:
            record.eligible_leader_replicas = self.ids()
        if self.random.random() < 0.3:
            record.last_known_elr = self.ids(1)
        if self.random.random() < 0.3:
            record.leader_recovery_state = self.random.randint(0, 1)
        if self.random.random() < 0.3:
            record.replicas = self.ids()
            record.directories = [self.uuid() for _ in record.replicas]
            record.adding_replicas, record.removing_replicas = self.ids(1), []
        return [record]

    def step_remove_topic(self) -> list[Message]:
        if not self.known.topics or self.random.random() < 0.5:
            return []
        topic = self.random.choice(sorted(self.known.topics))
        del self.known.topics[topic]
        return [RemoveTopicRecord(topic_id=topic)]

    def step_clear_elr(self) -> list[Message]:
        names = sorted(name for name, _ in self.known.topics.values())
        return [ClearElrRecord(topic_name=self.random.choice(["", *names]))]

    def step_config(self) -> list[Message]:
        names = sorted(name for name, _ in self.known.topics.values())
        kind, name = self.random.choice([(4, ""), (4, "1"), (16, "metrics"), *((2, name) for name in names)])
        value = self.random.choice([None, "1", "2"])
        key = self.random.choice(["retention.ms", "x"])
        return [ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)]

    def step_quota(self) -> list[Message]:
        entity = [EntityData(entity_type="user", entity_name=self.random.choice([None, "", "ann"]))]
        if self.random.random() < 0.5:
            entity.append(EntityData(entity_type="client-id", entity_name="c"))
        return [
            ClientQuotaRecord(entity=entity, key="rate", value=self.random.random(), remove=self.random.random() < 0.3)
        ]

    def step_producer_ids(self) -> list[Message]:
        self.known.next_pid += 1000
        return [ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=self.known.next_pid)]

    def step_acl(self) -> list[Message]:
        if self.known.acls and self.random.random() < 0.4:
            return [RemoveAccessControlEntryRecord(id=self.known.acls.pop())]
        self.known.acls.append(self.uuid())
        return [AccessControlEntryRecord(id=self.known.acls[-1], resource_name="t", principal="User:a", host="*")]

    def step_scram(self) -> list[Message]:
        name, mechanism = self.random.choice("ab"), self.random.randint(1, 2)
        if self.random.random() < 0.3:
            return [RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)]
        return [UserScramCredentialRecord(name=name, mechanism=mechanism, salt=b"s", iterations=4096)]

    def step_token(self) -> list[Message]:
        token = self.random.choice("xy")
        if self.random.random() < 0.3:
            return [RemoveDelegationTokenRecord(token_id=token)]
        return [DelegationTokenRecord(owner="User:a", requester="User:a", token_id=token, renewers=["User:b"])]

    def step_nothing(self) -> list[Message]:
        return [NoOpRecord()]
