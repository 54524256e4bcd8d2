"""Builds the record kernel's C extension where it can; elsewhere the install warns and the pure twin is used."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

KERNEL = "src/highwater/kernel"
PATH_FILE = "src/highwater-interpreter.pth"


class OptionalBuild(build_ext):
    """A missing compiler or missing Python headers cost speed, not the install."""

    def run(self) -> None:
        super().run()
        if not self.is_whole():
            self.warn(
                "the kernel was not compiled: the slower pure Python kernel will be used. "
                "It needs a C compiler and Python's headers (Debian: gcc python3-dev)."
            )

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except BaseException:
            # One that an earlier build left is of another source.
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise

    def is_whole(self) -> bool:
        return all(Path(self.get_ext_fullpath(extension.name)).exists() for extension in self.extensions)


class Wheel(bdist_wheel):
    """One without the extension is for every platform, and its name says so."""

    def run(self) -> None:
        self.run_command("build_ext")
        if not self.get_finalized_command("build_ext").is_whole():
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


class WithPathFile(build_py):
    """Beside the packages, where Python reads it when it starts. An editable install has no such place: setup.sh."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file(PATH_FILE, str(Path(self.build_lib, Path(PATH_FILE).name)))


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        print("warning: Cython is missing: the slower pure Python kernel will be used.")
        return []
    parts = [f"{KERNEL}/_encode.pxi", f"{KERNEL}/_keys.pxi", f"{KERNEL}/_columns.pxi"]
    kernel = Extension("highwater.kernel._fast", [f"{KERNEL}/_fast.pyx"], depends=parts, extra_compile_args=["-O3"])
    compiled: list[Extension] = cythonize([kernel], language_level=3)
    for extension in compiled:
        extension.optional = True  # cythonize drops it
    return compiled


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": OptionalBuild, "build_py": WithPathFile, "bdist_wheel": Wheel},
)
