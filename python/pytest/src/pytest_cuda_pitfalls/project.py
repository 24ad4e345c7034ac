"""Whose line it is: this project's, somebody else's, or one that the configuration allows."""

import os
import re
from typing import List, NamedTuple, Optional

import pytest

from .program import Line, Way

_IMPORT = re.compile(r"(import|from)\s")
#: Folders with packages that were installed, which may lie below the project's folder.
_INSTALLED = frozenset(("site-packages", "dist-packages"))
_SOURCES = ("", "src", "lib", "python")


class Judged(NamedTuple):
    """A way to ``cuInit``, as this project sees it."""

    way: Way
    #: The project's innermost line in it; ``None`` if there is none.
    own: Optional[Line]
    #: Whether that line only imports something of somebody else's, which did it while it was imported.
    is_foreign: bool
    #: Whether the configuration allows it.
    is_allowed: bool

    def place(self) -> str:
        """The project's line, and then the one that did it."""
        shown = [line for line in (self.own, self.way.at) if line is not None]
        places = list(dict.fromkeys("%s:%d" % (line.file, line.line) for line in shown))
        return ", in ".join(places)

    def module(self) -> str:
        """What `cuda_clean_allow` would name."""
        return next((line.module for line in reversed(self.way.chain) if line.function == "<module>"), self.way.at.module)


class Project:
    """The folder of the run, and what its configuration allows."""

    def __init__(self, config: pytest.Config) -> None:
        self._root = str(config.rootpath)
        self._allowed: List[str] = config.getini("cuda_clean_allow")

    def judge(self, way: Way) -> Judged:
        """Whose way it is."""
        index = max((number for number, line in enumerate(way.chain) if self._is_own(line)), default=-1)
        own = way.chain[index] if index >= 0 else None
        below = way.chain[index + 1 :]
        is_import = bool(below) and (below[0].function == "<module>" or _IMPORT.match(own.source if own else "import "))
        # A function of a module that is allowed is this project's affair, where the project calls it.
        named = ([own] if own else []) + [line for line in below if line.function == "<module>"]
        return Judged(way, own, bool(is_import), any(self.is_allowed(line.module) for line in named))

    def is_allowed(self, module: str) -> bool:
        """Whether the configuration names a module, or one that it is below."""
        return any((module + ".").startswith(name + ".") for name in self._allowed)

    def _is_own(self, line: Line) -> bool:
        """Whether a line is below the folder of the run, or of a package that is, and that is installed from there."""
        below = os.path.relpath(line.path, self._root).split(os.sep)
        if below[0] != os.pardir and not _INSTALLED & set(below):
            return True
        package = line.module.partition(".")[0]
        paths = (os.path.join(self._root, folder, package) for folder in _SOURCES)
        return any(os.path.exists(os.path.join(path, "__init__.py")) or os.path.exists(path + ".py") for path in paths)
