"""All settings, each declared once: Kafka's name, type, default, bounds and meaning. Relations between them are checked
at the start.

`NodeConfig.get(SETTING)` returns a node's value with its own type. `LogConfig` has the resolved values of a topic.

The package may use `model` and `errors` only. Start with `setting` (how one is declared), then `node` and `topic`.
"""

from __future__ import annotations

from highwater.config.coordinators import *
from highwater.config.describe import Row as Row
from highwater.config.describe import Source as Source
from highwater.config.describe import Synonym as Synonym
from highwater.config.describe import describe_broker as describe_broker
from highwater.config.describe import describe_broker_default as describe_broker_default
from highwater.config.describe import describe_topic as describe_topic
from highwater.config.kinds import ConfigError as ConfigError
from highwater.config.listeners import Listener as Listener
from highwater.config.listeners import Voter as Voter
from highwater.config.node import SETTINGS as SETTINGS
from highwater.config.node import NodeConfig as NodeConfig
from highwater.config.node import validate_broker_configs as validate_broker_configs
from highwater.config.properties import environment_overrides as environment_overrides
from highwater.config.properties import format_properties as format_properties
from highwater.config.properties import parse_properties as parse_properties
from highwater.config.quorum import *
from highwater.config.replication import *
from highwater.config.server import *
from highwater.config.setting import Setting as Setting
from highwater.config.setting import Update as Update
from highwater.config.storage import *
from highwater.config.topic import TOPIC_SETTINGS as TOPIC_SETTINGS
from highwater.config.topic import LogConfig as LogConfig
from highwater.config.topic import TopicSetting as TopicSetting
from highwater.config.topic import validate_topic_config as validate_topic_config
from highwater.config.topic import validate_topic_configs as validate_topic_configs
