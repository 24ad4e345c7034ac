"""The plugin need not be installed: pytest finds it by its entry point. `CUDA_PITFALLS` names the program."""

import os
import pathlib
import re
import sys

import pytest

pytest_plugins = ["pytester"]

_HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(_HERE.parent))


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A folder that says of the plugin what its wheel says."""
    folder = tmp_path_factory.mktemp("installed")
    about = folder / "pytest_cuda_pitfalls-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-cuda-pitfalls\nVersion: 0\n")
    project = (_HERE.parents[1] / "pyproject.toml").read_text()
    entry = re.search(r"^\[project\.entry-points\.pytest11\]\n(\w+) = \"(.+)\"$", project, re.MULTILINE)
    (about / "entry_points.txt").write_text("[pytest11]\n%s = %s\n" % entry.groups())
    return folder


@pytest.fixture(autouse=True)
def plugin(monkeypatch, installed):
    """What pytest is started with in a test: no other plugin is asked for."""
    packages = _HERE.parents[2]
    paths = [str(installed), str(packages / "pytest" / "src"), str(packages)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    options = "-p no:cacheprovider"
    if "CUDA_PITFALLS" in os.environ:
        options += " --cuda-program=" + os.environ["CUDA_PITFALLS"]
    monkeypatch.setenv("PYTEST_ADDOPTS", options)
    monkeypatch.delenv("CUDA_PITFALLS_PYTEST", raising=False)
