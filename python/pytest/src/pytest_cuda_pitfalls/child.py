"""Other processes of pytest: the same run once more, for one file or one test."""

import json
import os
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

import pytest

from . import program as _program

#: Tells a child what it is started for, as JSON.
TASK = "CUDA_PITFALLS_PYTEST"
#: How long a file may take to be collected once more, and how long a test may take, in seconds.
LIMIT_S = 600


def task() -> Optional[Dict[str, Any]]:
    """What this process is started for; ``None`` in a process of the user's."""
    text = os.environ.get(TASK)
    return json.loads(text) if text else None


def _arguments(config: pytest.Config) -> List[str]:
    """The options of this run, without what it was to collect."""
    worker = getattr(config, "workerinput", None)
    given = [str(argument) for argument in (worker["mainargv"][1:] if worker else config.invocation_params.args)]
    for name in getattr(config.option, "file_or_dir", None) or ():
        # From the end: a file is named after the options, and an option may have a value that reads the same.
        for number in range(len(given) - 1, -1, -1):
            if given[number] == name:
                del given[number]
                break
    return [argument for argument in given if argument not in ("--pdb", "--trace")]


def command(config: pytest.Config, targets: Sequence[str], folder: str) -> List[str]:
    """pytest for ``targets``, with the options of this run and nothing of it overwritten."""
    own = ["-o", "cache_dir=" + os.path.join(folder, "cache"), "--basetemp=" + os.path.join(folder, "tmp")]
    manager = config.pluginmanager
    if getattr(config.option, "xmlpath", None):
        own.append("--junitxml=" + os.path.join(folder, "junit.xml"))
    if manager.hasplugin("xdist") or hasattr(config, "workerinput"):
        own += ["-n", "0"]
    if manager.hasplugin("pytest_cov") or manager.hasplugin("_cov"):
        own.append("--no-cov")
    return _program.python(["-m", "pytest", *_arguments(config), *own, *targets])


def environment(what: Dict[str, Any]) -> Dict[str, str]:
    """The environment of this process, for a child that is no worker of it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_XDIST", "PYTEST_CURRENT"))}
    env[TASK] = json.dumps(what)
    return env


def folder_of(config: pytest.Config) -> str:
    """Where pytest was started."""
    worker = getattr(config, "workerinput", None)
    return os.getcwd() if worker else str(config.invocation_params.dir)


def rerun(
    config: pytest.Config, item: pytest.Item, is_clean: bool, program: str, options: Optional[Sequence[str]]
) -> Tuple[List[pytest.TestReport], Optional[_program.Traced]]:
    """Runs a test in a process of its own; with ``options`` of ``trace`` it is traced. Its reports, and the trace."""
    traced = None
    with tempfile.TemporaryDirectory(prefix="cuda-pitfalls-") as folder:
        told = os.path.join(folder, "reports")
        env = environment({"does": "test", "reports": told, "clean": is_clean})
        asked = command(config, [item.nodeid], folder)
        if options is None:
            code, output = _run(asked, env, str(config.rootpath))
        else:
            traced = _program.trace(program, asked, folder, options, env, str(config.rootpath), LIMIT_S)
            code, output = traced.code, traced.stdout + traced.stderr
        reports = _read(config, told)
    if not any(report.when == "teardown" for report in reports):
        how = "was ended by signal %d" % -code if code < 0 else "ended with %d" % code
        text = "the process of this test %s before the test had ended\n%s" % (how, output[-4000:])
        reports.append(failed(item, "call", text))
    return reports, traced


def _run(asked: List[str], env: Dict[str, str], folder: str) -> Tuple[int, str]:
    """The exit code of a command and what it printed; it is killed when its time is over."""
    pipes: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run(asked, env=env, cwd=folder, timeout=LIMIT_S, **pipes)
    except subprocess.TimeoutExpired as late:
        return -9, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def failed(item: pytest.Item, when: str, text: str) -> pytest.TestReport:
    """A report of a test that failed for this reason."""
    keywords = {name: 1 for name in item.keywords}
    return pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, when)  # type: ignore[arg-type]


def _read(config: pytest.Config, path: str) -> List[pytest.TestReport]:
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        data = [json.loads(line) for line in lines if line.endswith("\n")]
    return [config.hook.pytest_report_from_serializable(config=config, data=one) for one in data]


class ChildReporter:
    """In a child: hands the reports of its test on."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self._config, self._path = config, path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with open(self._path, "a") as into:
            into.write(json.dumps(data) + "\n")
