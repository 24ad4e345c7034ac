"""The hooks of pytest. What nobody asked for is not imported.

PYTEST_DONT_REWRITE: it has no assertions, and rewriting it takes longer than all else that it does.
"""

import os
from typing import TYPE_CHECKING, Any, Iterator, List, Optional

import pytest

if TYPE_CHECKING:
    from .guard import Guard
    from .process import CudaProcess

_MARKERS = (
    "cuda_clean: the test must not initialize CUDA; where its process has done so before, it gets a process of its own",
    "cuda_contexts(gpus, max_mib=None): in a process of its own the test makes contexts on these GPUs alone (numbers as "
    "the process counts them, or UUIDs), and on none of them takes more memory than max_mib",
    "no_stray_context: in a process of its own the test makes no context on a GPU on which it does no work",
)

#: Tells a process what it is started for (child.py).
_TASK = "CUDA_PITFALLS_PYTEST"
_MARKS = frozenset(("cuda_clean", "cuda_contexts", "no_stray_context"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cuda-pitfalls", "CUDA start-up (cuda-pitfalls)")
    group.addoption(
        "--cuda-clean",
        action="store_true",
        help="fail if collecting tests initializes CUDA, and name the line that did it",
    )
    group.addoption(
        "--cuda-per-worker",
        action="store_true",
        help="give each worker of pytest-xdist one GPU, by its UUID in CUDA_VISIBLE_DEVICES",
    )
    group.addoption("--cuda-program", metavar="PATH", help="the program cuda-pitfalls, if not the installed one")
    parser.addini("cuda_clean", "like --cuda-clean", type="bool", default=False)
    parser.addini("cuda_clean_allow", "modules whose import may initialize CUDA", type="args", default=[])
    parser.addini("cuda_per_worker", "like --cuda-per-worker", type="bool", default=False)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    # Before the first conftest.py is imported.
    _begin(early_config)
    yield


def _begin(config: pytest.Config) -> None:
    """Does what this run is started for. Not the first time where a conftest.py names this plugin."""
    if _TASK in os.environ:
        from . import child

        child.take(config)
    if config.known_args_namespace.cuda_clean or config.getini("cuda_clean"):
        guard_of(config).begin()


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    _begin(config)


def guard_of(config: pytest.Config) -> "Guard":
    """What watches over this run; made where it is first asked for."""
    name = "cuda-pitfalls-guard"
    guard = config.pluginmanager.get_plugin(name)
    if guard is None:
        from .guard import Guard

        guard = Guard(config)
        config.pluginmanager.register(guard, name)
    return guard


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    # A run without such a test has no hook that is called for each test. Most tests share what is around them.
    around = {item.parent for item in items}
    marks = [mark for item in items for mark in item.own_markers]
    marks += [mark for node in around if node is not None for mark in node.iter_markers()]
    if any(mark.name in _MARKS for mark in marks):
        from .marked import MarkedTests

        config.pluginmanager.register(MarkedTests(guard_of(config)), "cuda-pitfalls-marked")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: List[Any]) -> None:
    if config.getoption("cuda_per_worker") or config.getini("cuda_per_worker"):
        from .workers import assign

        assign(config, specs)


def pytest_report_header(config: pytest.Config) -> Optional[List[str]]:
    lines = []
    if config.getoption("cuda_clean") or config.getini("cuda_clean"):
        lines.append("cuda-clean: " + guard_of(config).witness())
    if config.getini("cuda_clean_allow"):
        lines.append("cuda-clean: lines that use CUDA after an import that cuda_clean_allow names may not be noticed")
    if config.getoption("cuda_per_worker") and not config.getoption("tx", None):
        lines.append("cuda-per-worker: there are no workers (pytest-xdist: -n)")
    return lines or None


@pytest.fixture
def cuda_process(request: pytest.FixtureRequest) -> "CudaProcess":
    """Runs code in a fresh process, with a mask of its own: ``cuda_process("import torch; ...", mask="0,0")``."""
    from .process import CudaProcess

    return CudaProcess(request.config)
