"""An environment as a stranger makes it: the built wheel, installed by pip with its extra `spark`.

The packages that the extra needs are those of this environment, seen through links, so that nothing is fetched; pip
checks all the same that they are what the wheel asks for. With HIGHWATER_FRESH_PACKAGES=1 pip fetches them.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

from tests.tidy.test_wheel import wheel

OURS = ("highwater", "pyspark_highwater", "__editable__", "_distutils", "distutils-")
SECONDS = 1800.0


def fresh_environment(folder: Path) -> Path:
    """The folder of its commands."""
    fetches = bool(os.environ.get("HIGHWATER_FRESH_PACKAGES"))
    home = folder / "venv"
    venv.create(home, symlinks=True, with_pip=fetches)
    if not fetches:
        _link_packages(home, folder / "packages")
    (folder / "build").mkdir()
    found = wheel(folder / "build")
    install = [home / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{found}[spark]"]
    done = subprocess.run(
        [*install, *([] if fetches else ["--no-index"])],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return home / "bin"


def _link_packages(home: Path, folder: Path) -> None:
    folder.mkdir()
    here = Path(sysconfig.get_path("purelib"))
    for entry in here.iterdir():
        if not entry.name.startswith(OURS):
            (folder / entry.name).symlink_to(entry)
    [packages] = (home / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(f"{folder}\n")
