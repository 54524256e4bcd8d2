"""Apache Kafka's message definitions, read out of its jars: the part of them that decides bytes."""

from __future__ import annotations

import json
import keyword
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KAFKA = "4.3.0"
JARS = ("clients", "metadata", "group-coordinator", "transaction-coordinator", "storage")

# Telemetry, share groups and streams groups; quorum-state is a JSON file, remote storage is not ours.
LEFT_OUT_KEYS = {71, 72, *range(76, 80), *range(83, 93)}
LEFT_OUT_NAMES = re.compile(r"(Share|Streams|Remote|QuorumState)")

SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}
PYTHON = {
    "bool": "bool",
    "float64": "float",
    "uuid": "Uuid",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes | memoryview",
}
ZERO = {"bool": "False", "float64": "0.0", "uuid": "ZERO_UUID", "string": '""', "bytes": 'b""', "records": 'b""'}
RESERVED = {"read", "write", "encode", "decode", "unknown_tags"}


@dataclass(frozen=True)
class Versions:
    """An inclusive range; empty where low > high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text == "none":
            return cls(1, 0)
        low, dash, high = text.removesuffix("+").partition("-")
        return cls(int(low), 32767 if text.endswith("+") else int(high) if dash else int(low))

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    @property
    def empty(self) -> bool:
        return self.low > self.high

    def test(self, within: Versions) -> str:
        """The condition for a version of `within` to lie here: "" for always, "False" for never."""
        here = self & within
        if here.empty:
            return "False"
        if here == within:
            return ""
        if here.low == here.high:
            return f"version == {here.low}"
        if here.low == within.low:
            return f"version <= {here.high}"
        if here.high == within.high:
            return f"version >= {here.low}"
        return f"{here.low} <= version <= {here.high}"


@dataclass(frozen=True)
class Field:
    name: str
    element: str  # the type, or the element type of an array
    array: bool
    versions: Versions
    nullable: Versions
    tag: int  # -1: not tagged
    default: str  # a Python expression
    ignorable: bool
    classic: bool  # keeps the classic encoding in flexible versions

    @classmethod
    def parse(cls, spec: dict[str, Any], within: Versions) -> Field:
        element = spec["type"].removeprefix("[]")
        array = element != spec["type"]
        return cls(
            name=snake(spec["name"]),
            element="records" if spec.get("zeroCopy") else element,
            array=array,
            versions=Versions.parse(spec.get("versions", spec.get("taggedVersions"))) & within,
            nullable=Versions.parse(spec.get("nullableVersions")) & within,
            tag=spec.get("tag", -1),
            default=default(element, array, spec.get("default")),
            ignorable=spec.get("ignorable", False),
            classic=spec.get("flexibleVersions") == "none",
        )

    @property
    def struct(self) -> bool:
        return self.element[0].isupper()

    @property
    def presence(self) -> str:
        """The reader's and the writer's word for the null marker of a struct."""
        return "present" if self.tag < 0 else "present_tagged"

    @property
    def fresh(self) -> bool:
        """Whether the default is an object of its own for each message."""
        return self.default[-2:] in ("[]", "()")

    @property
    def annotation(self) -> str:
        python = self.element if self.struct else PYTHON.get(self.element, "int")
        python = f"list[{python}]" if self.array else python
        return python if self.nullable.empty else f"{python} | None"

    @property
    def differs_from_default(self) -> str:
        mine = f"self.{self.name}"
        if self.default == "None":
            return f"{mine} is not None"
        if self.default in ("[]", '""', 'b""', "False"):
            return mine if self.nullable.empty else f"({mine} is None or {mine})"
        return f"not {mine}" if self.default == "True" else f"{mine} != {self.default}"


def default(element: str, array: bool, value: Any) -> str:
    """A default of "null" is null, but a JSON null says nothing."""
    if value == "null":
        return "None"
    if array:
        return "[]"
    if element[0].isupper():
        return f"{element}()"
    if element == "string":
        return f'"{value or ""}"'
    if value in (None, ""):
        return ZERO.get(element, "0")
    return str(value).capitalize() if element == "bool" else str(int(str(value), 0))


def snake(name: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()
    return f"{name}_" if keyword.iskeyword(name) or name in RESERVED else name


@dataclass(frozen=True)
class Definition:
    """One struct: a message itself, or one nested in it."""

    name: str
    fields: list[Field]
    within: Versions  # versions in which it can appear
    flexible: Versions

    def smallest(self, version: int, structs: dict[str, Definition]) -> int:
        """The least bytes an instance takes in `version`."""
        flexible = version in self.flexible
        size = 1 if flexible else 0
        for field in self.fields:
            if version not in field.versions or field.tag >= 0:
                continue
            if field.array or field.element in ("bytes", "records"):
                size += 1 if flexible else 4
            elif field.element == "string":
                size += 1 if flexible and not field.classic else 2
            elif field.struct:
                nullable = version in field.nullable
                size += 1 if nullable else structs[field.element].smallest(version, structs)
            else:
                size += SIZES[field.element]
        return max(size, 1)


def structs(spec: dict[str, Any], versions: Versions) -> dict[str, Definition]:
    """The structs of one message by name, each after those it is made of, the message itself last."""
    flexible = Versions.parse(spec["flexibleVersions"])
    found: dict[str, Definition] = {}

    def collect(name: str, specs: list[dict[str, Any]], within: Versions) -> None:
        fields = [field for field in (Field.parse(spec, within) for spec in specs) if not field.versions.empty]
        for spec in specs:
            inner = Versions.parse(spec.get("versions", spec.get("taggedVersions"))) & within
            if "fields" in spec and not inner.empty:
                collect(spec["type"].removeprefix("[]"), spec["fields"], inner)
        if name in found:
            raise ValueError(f"{name} is defined twice")
        found[name] = Definition(name, fields, within, flexible)

    for common in spec.get("commonStructs", ()):
        collect(common["name"], common["fields"], versions)
    collect(spec["name"], spec["fields"], versions)
    return found


def definitions(classpath: Path) -> dict[str, dict[str, Any]]:
    """Every definition wanted, by name."""
    found: dict[str, dict[str, Any]] = {}
    for jar in JARS:
        with zipfile.ZipFile(find_jar(classpath, f"kafka-{jar}-{KAFKA}.jar")) as archive:
            for entry in archive.namelist():
                if not re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", entry):
                    continue
                spec = json.loads(re.sub(r"^\s*//.*$", "", archive.read(entry).decode(), flags=re.MULTILINE))
                api = spec["type"] in ("request", "response")
                left_out = spec["apiKey"] in LEFT_OUT_KEYS if api else LEFT_OUT_NAMES.match(spec["name"])
                if not left_out and spec["validVersions"] != "none":
                    found[spec["name"]] = spec
    return dict(sorted(found.items()))


def find_jar(classpath: Path, name: str) -> Path:
    entries = classpath.iterdir() if classpath.is_dir() else map(Path, classpath.read_text().strip().split(":"))
    for entry in entries:
        if entry.name == name:
            return entry
    raise SystemExit(f"{name} is not in {classpath}")


def stable_versions(specs: dict[str, dict[str, Any]]) -> dict[str, Versions]:
    """The versions Kafka serves: an unstable latest one is cut off, from the response as from its request."""
    versions = {name: Versions.parse(spec["validVersions"]) for name, spec in specs.items()}
    for name, spec in specs.items():
        if spec.get("latestVersionUnstable"):
            versions[name] = Versions(versions[name].low, versions[name].high - 1)
        if spec["type"] == "response":
            request = name.removesuffix("Response") + "Request"
            versions[name] &= versions[request]
    return versions
