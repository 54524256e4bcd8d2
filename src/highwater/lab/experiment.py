"""An experiment: its name, its title, and the script that runs it on a bench."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from highwater.cluster import Cluster
from highwater.lab.bench import Bench
from highwater.lab.frame import Frame, Recording, Words


class Experiment(NamedTuple):
    name: str
    title: Words
    script: Callable[[Bench], None]

    def run(self, cluster: Cluster, show: Callable[[Frame], None] = lambda frame: None) -> Recording:
        """Shows each frame as it comes, and leaves the cluster whole. Raises NotSeen if something did not happen."""
        recording = Recording(self.name, self.title)

        def take(frame: Frame) -> None:
            recording.frames.append(frame)
            show(frame)

        try:
            self.script(Bench(cluster, take))
        finally:
            cluster.restore()
        return recording
