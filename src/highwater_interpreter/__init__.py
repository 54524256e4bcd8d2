"""Loaded at the start of every Python of an environment that has Highwater, by `highwater-interpreter.pth`.

PySpark's workers are the `python3` of the PATH, unless PYSPARK_PYTHON says otherwise. A script that an environment's
own interpreter runs would then find no `format("highwater")`, nor any other package of its environment. Where Spark
runs on this machine, the driver's interpreter is the only one that can be right, so it is named when a JVM is about to
be started. Whatever the user says stands, and so does the default of a real cluster, whose machines have Pythons of
their own. Until PySpark starts a JVM nothing is done, and nothing is imported here that Python has not loaded itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

WATCHED = "pyspark.java_gateway"
_SAID = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_ELSEWHERE = ("MASTER", "SPARK_CONF_DIR", "SPARK_HOME")
"""Where these are set, a master may be set by them."""


def is_ours_to_say(master: str | None, environment: Mapping[str, str]) -> bool:
    """Whether Spark will run on this machine and nobody has named an interpreter."""
    if any(name in environment for name in _SAID):
        return False
    if master is None:
        has_master = "--master" in environment.get("PYSPARK_SUBMIT_ARGS", "")
        return not has_master and not any(name in environment for name in _ELSEWHERE)
    return master == "local" or master.startswith(("local[", "local-cluster["))


class Watch:
    """Among the finders of modules: finds none, but sees when PySpark looks for the part that starts JVMs."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            _after_loading(spec.loader)
        return spec


def _after_loading(loader: Any) -> None:
    load = loader.exec_module

    def exec_module(module: Any) -> None:
        # The loader of a zip file, as Spark's workers have it, is one for all modules.
        del loader.exec_module
        load(module)
        module.launch_gateway = _naming_the_interpreter(module.launch_gateway)

    loader.exec_module = exec_module


def _naming_the_interpreter(launch: Any) -> Any:
    from functools import wraps

    @wraps(launch)
    def launch_gateway(conf: Any = None, *rest: Any, **more: Any) -> Any:
        master = None if conf is None else conf.get("spark.master", None)
        if sys.executable and is_ours_to_say(master, os.environ):
            os.environ["PYSPARK_PYTHON"] = sys.executable
        return launch(conf, *rest, **more)

    return launch_gateway


def watch() -> None:
    """Python reads the path files of a virtual environment twice."""
    if WATCHED not in sys.modules and not any(isinstance(finder, Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, Watch())
