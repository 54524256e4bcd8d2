"""A frame as text, in one language and for one width. Pure: the same frame gives the same lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from highwater.lab.frame import Fact, Fetch, Frame, Lane, Read, Words
from highwater.lab.strip import DIVERGING, EPOCH, Scale

_MARGIN = 8
"""The borders and paddings around a strip."""

LEADER = Words("leader", "리더")
FOLLOWER = Words("follower", "팔로워")
NODE = Words("node {node}", "노드 {node}")
DOWN = Words("dead", "죽음")
PAUSED = Words("paused", "멈춤")
IN_ISR = Words("in the ISR", "ISR에 있음")
OUT = Words("out of the ISR", "ISR에서 빠짐")
BEHIND = Words(
    "out of the ISR: {lag} records and {seconds} s behind, limit {limit} s",
    "ISR에서 빠짐: 레코드 {lag}개, {seconds}초 뒤처짐 (한도 {limit}초)",
)
NUMBERS = Words("start {start} · high watermark {hw} · end {end}", "시작 {start} · 하이 워터마크 {hw} · 끝 {end}")
EPOCHS = Words("epochs {starts}", "에포크 {starts}")
PARTS = Words(
    "records that the leader lacks: {count}, from offset {first} on",
    "리더에 없는 레코드: {count}개, 오프셋 {first}부터",
)
ASKED = Words(
    "{ms} ms node {follower} asks for {offset} → {size} bytes, high watermark {hw}",
    "{ms} ms 노드 {follower}: {offset}번 요청 → {size}바이트, 하이 워터마크 {hw}",
)
FETCHES = Words("fetches of followers, as the leader answered them", "팔로워의 페치와 리더의 응답")
READS = Words("fetches of the consumer, and the answers", "컨슈머의 페치와 응답")
READ = Words("node {node} ({role}), offset {offset} → ", "노드 {node}({role}), {offset}번 → ")
SENT_ON = Words("no records: read from node {preferred}", "레코드 없음: 노드 {preferred}에서 읽을 것")
GOT = Words("records: {records}, high watermark {hw}", "레코드 {records}개, 하이 워터마크 {hw}")
HEADINGS = {
    "lost": Words("what was lost, and why", "무엇을 잃었고, 왜 잃었나"),
    "mistake": Words("what the text has wrong or out of date", "글에서 틀렸거나 낡은 내용"),
}
BORDERS = {"step": "blue", "lost": "red", "mistake": "yellow"}


def drawn(frame: Frame, number: int, count: int, language: str, width: int) -> RenderableType:
    title = frame.title.told(language, frame.facts)
    heading = HEADINGS.get(frame.kind)
    if heading is not None:
        title = heading.told(language, {})
    parts: list[RenderableType] = [Text(frame.text.told(language, frame.facts))]
    if frame.lanes:
        scale = Scale(frame.lanes, width - _MARGIN)
        for lane in frame.lanes:
            parts += [Text(), *_lane(lane, scale, language)]
    if frame.fetches:
        parts += [Text(), Text(FETCHES.told(language, {}), "bold")]
        parts += [_fetch(each, language) for each in frame.fetches]
    if frame.reads:
        parts += [Text(), Text(READS.told(language, {}), "bold")]
        parts += [_read(each, language) for each in frame.reads]
    for name, content in frame.files:
        heading_of_file = name.told(language, {}) if isinstance(name, Words) else name
        parts += [Text(), Text(heading_of_file, "bold"), Padding(Text(content.rstrip("\n")), (0, 0, 0, 2))]
    return Panel(
        Group(*parts),
        title=f"{number}/{count} · {title}" if count else f"{number} · {title}",
        title_align="left",
        border_style=BORDERS[frame.kind],
        width=width,
        padding=(0, 1),
    )


def _lane(lane: Lane, scale: Scale, language: str) -> Iterator[RenderableType]:
    is_real = lane.label is None
    head = Text()
    if lane.label is not None:
        head.append("┄┄ ", "dim")
        head.append(lane.label.told(language, {}), "italic")
    else:
        head.append(NODE.told(language, {"node": lane.node}), "bold")
        role = LEADER if lane.is_leader else FOLLOWER
        head.append(f" · {role.told(language, {})}", "bold yellow" if lane.is_leader else "")
        head.append(" · ")
        head.append(*_standing(lane, language))
    yield head
    yield Padding(scale.strip(lane), (0, 0, 0, 2), style="" if is_real else "dim")
    facts: dict[str, Fact] = {"start": lane.log_start, "hw": lane.high_watermark, "end": lane.log_end}
    numbers = Text().append(NUMBERS.told(language, facts), "dim")
    if lane.epochs:
        starts = ", ".join(f"e{epoch}@{start}" for epoch, start in lane.epochs)
        numbers.append(f" · {EPOCHS.told(language, {'starts': starts})}", EPOCH)
    yield Padding(numbers, (0, 0, 0, 2))
    first = scale.parts_at(lane)
    if first is not None:
        told = PARTS.told(language, {"first": first, "count": lane.log_end - first})
        yield Padding(Text(told, DIVERGING), (0, 0, 0, 2))


def _standing(lane: Lane, language: str) -> tuple[str, str]:
    """The membership of the ISR, with its reason, and its style."""
    if lane.state == "down":
        return f"{DOWN.told(language, {})}, {(IN_ISR if lane.in_isr else OUT).told(language, {})}", "bold red"
    if lane.in_isr:
        shown = IN_ISR.told(language, {})
        return (f"{PAUSED.told(language, {})}, {shown}", "red") if lane.state == "paused" else (shown, "green")
    if lane.limit_ms and lane.lag_ms:
        facts: dict[str, Fact] = {
            "lag": lane.lag,
            "seconds": f"{lane.lag_ms / 1000:.1f}",
            "limit": f"{lane.limit_ms / 1000:g}",
        }
        return BEHIND.told(language, facts), "red"
    return OUT.told(language, {}), "red"


def _fetch(fetch: Fetch, language: str) -> RenderableType:
    facts: dict[str, Fact] = {
        "ms": f"{fetch.ms:6.1f}",
        "follower": fetch.follower,
        "offset": fetch.offset,
        "hw": fetch.high_watermark,
    }
    return Padding(Text(ASKED.told(language, {**facts, "size": fetch.size})), (0, 0, 0, 2))


def _read(read: Read, language: str) -> RenderableType:
    role = (LEADER if read.is_leader else FOLLOWER).told(language, {})
    text = Text(READ.told(language, {"node": read.node, "role": role, "offset": read.offset}))
    if read.error:
        text.append(read.error, "red")
    elif read.preferred >= 0:
        text.append(SENT_ON.told(language, {"preferred": read.preferred}), "yellow")
    else:
        text.append(GOT.told(language, {"records": read.records, "hw": read.high_watermark}), "green")
    return Padding(text, (0, 0, 0, 2))
