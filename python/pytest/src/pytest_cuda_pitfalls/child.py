"""Other processes of pytest: the same run once more, for one file or one test."""

import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import pytest

from . import kept
from . import program as _program

#: Tells a child what it is started for, as JSON: `reports`, the file that gets what it says; `clean`, whether its test
#: must be; `path`, where modules are looked for.
TASK = "CUDA_PITFALLS_PYTEST"
#: How long a file may take to be collected once more, and how long a test may take, in seconds.
LIMIT_S = 600

_TASK_KEY: "pytest.StashKey[Dict[str, Any]]" = pytest.StashKey()
#: A module that is run by `-m` would put the current folder in front of all others.
_LAUNCH = "import json, os, sys; sys.path[:] = json.loads(os.environ['%s'])['path']; import pytest; " % TASK
_LAUNCH += "sys.exit(pytest.main())"


def take(config: pytest.Config) -> None:
    """Reads what this process is started for. A pytest that a test starts is no child of ours."""
    what = json.loads(os.environ.pop(TASK))
    config.stash[_TASK_KEY] = what
    config.pluginmanager.register(ChildReporter(config, what["reports"]), "cuda-pitfalls-child")


def task(config: pytest.Config) -> Optional[Dict[str, Any]]:
    """What this process is started for; ``None`` in a process of the user's."""
    return config.stash.get(_TASK_KEY, None)


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
    own = ["--rootdir=%s" % config.rootpath, "--basetemp=" + os.path.join(folder, "tmp")]
    if config.inipath is not None:
        own += ["-c", str(config.inipath)]
    manager = config.pluginmanager
    if manager.hasplugin("cacheprovider"):
        own += ["-o", "cache_dir=" + os.path.join(folder, "cache")]
    if getattr(config.option, "xmlpath", None):
        own.append("--junitxml=" + os.path.join(folder, "junit.xml"))
    if getattr(config.option, "log_file", None):
        own.append("--log-file=" + os.path.join(folder, "log"))
    if manager.hasplugin("xdist") or hasattr(config, "workerinput"):
        own += ["-n", "0"]
    if manager.hasplugin("pytest_cov") or manager.hasplugin("_cov"):
        own.append("--no-cov")
    return [sys.executable, "-c", _LAUNCH, *_arguments(config), *own, *targets]


def target(item: pytest.Item) -> str:
    """A test by a name that does not depend on the folder in which it is asked for."""
    path, between, rest = item.nodeid.partition("::")
    return str(getattr(item, "path", path)) + between + rest


def environment(what: Dict[str, Any]) -> Dict[str, str]:
    """The environment of this process, for a child that is no worker of it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_XDIST", "PYTEST_CURRENT"))}
    env[TASK] = json.dumps({**what, "path": [str(folder) for folder in sys.path]})
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
    with kept.Folder() as folder:
        told = os.path.join(folder, "reports")
        env = environment({"reports": told, "clean": is_clean})
        asked = command(config, [target(item)], folder)
        if options is None:
            ended = kept.run(asked, folder, env, folder_of(config), LIMIT_S)
            code, output = ended.code, ended.stdout + ended.stderr
        else:
            traced = _program.trace(program, asked, folder, options, env, folder_of(config), LIMIT_S)
            code, output = traced.code, traced.stdout + traced.stderr
        reports = read(config, told).reports
    if not any(report.when == "teardown" for report in reports):
        how = "was ended by signal %d" % -code if code < 0 else "ended with %d" % code
        text = "the process of this test %s before the test had ended\n%s" % (how, output[-4000:])
        reports.append(failed(item, "call", text))
    return reports, traced


def failed(item: pytest.Item, when: str, text: str) -> pytest.TestReport:
    """A report of a test that failed for this reason."""
    keywords = {name: 1 for name in item.keywords}
    return pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, when)  # type: ignore[arg-type]


class Said(NamedTuple):
    """What a child said."""

    reports: List[pytest.TestReport]
    #: How its session ended, as pytest's exit code; ``None`` if it did not.
    ended: Optional[int]


def read(config: pytest.Config, path: str) -> Said:
    """What a child wrote into this file."""
    reports, ended = [], None
    if os.path.exists(path):
        with open(path) as lines:
            for data in (json.loads(line) for line in lines if line.endswith("\n")):
                if "ended" in data:
                    ended = data["ended"]
                    continue
                report = config.hook.pytest_report_from_serializable(config=config, data=data)
                # JSON has no tuples; of a skip pytest reads one.
                report.longrepr = tuple(report.longrepr) if isinstance(report.longrepr, list) else report.longrepr
                reports.append(report)
    return Said(reports, ended)


class ChildReporter:
    """In a child: hands on the reports of its test, and how its session ended."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self._config, self._path = config, path

    def say(self, data: Any) -> None:
        with open(self._path, "a") as into:
            into.write(json.dumps(data) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.say(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.say({"ended": int(exitstatus)})
