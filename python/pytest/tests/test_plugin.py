"""What the plugin does, in processes of pytest of their own. No GPU is needed; where there is one, it is not used."""

import ctypes
import fnmatch
import json
import os
import subprocess
import sys
import time
import types

import pytest
import regressions
from pytest_cuda_pitfalls import kept, probe, program, project, verdict, workers

#: A line that initializes CUDA.
INIT = 'ctypes.CDLL("libcuda.so.1").cuInit(0)'
#: No GPU is visible, whatever this machine has.
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
try:
    ctypes.CDLL("libnvidia-ml.so.1")
    #: Whether NVML lists this machine's GPUs, which no mask hides from it.
    HAS_NVML = True
except OSError:
    HAS_NVML = False


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    for name, value in HIDDEN.items():
        monkeypatch.setenv(name, value)


def test_nothing_is_imported_or_said_where_nobody_asks(pytester, monkeypatch):
    # Another plugin may import anything.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test_it():
            own = {name for name in sys.modules if name.startswith(("pytest_cuda_pitfalls", "cuda_pitfalls", "ctypes"))}
            assert own <= {"pytest_cuda_pitfalls", "pytest_cuda_pitfalls.plugin", "pytest_cuda_pitfalls.child",
                           "pytest_cuda_pitfalls.program"}, own
        """
    )
    result = pytester.runpytest_subprocess("--strict-markers", "-p", "pytest_cuda_pitfalls.plugin")
    result.assert_outcomes(passed=1)
    assert "cuda" not in "\n".join(line for line in result.outlines if not line.startswith("plugins:")).lower()


@pytest.mark.parametrize("kind", regressions.KINDS)
def test_a_regression_is_found_at_its_line(tmp_path, kind):
    seeded = regressions.run(str(tmp_path), kind, "ctypes", ["-q"])
    assert seeded.is_right(), "%s\n%s" % (seeded, seeded.output)


def test_the_way_of_imports_is_shown_and_the_option_may_be_in_the_configuration(pytester):
    pytester.makeini("[pytest]\ncuda_clean = true\npythonpath = .\n")
    pytester.makepyfile(**{"pkg/__init__": "from . import gpu", "pkg/gpu": "import ctypes\n\n" + INIT})
    pytester.makepyfile(test_a="def test_a(): pass", test_b="import pkg\n\ndef test_b(): pass")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "cuda-clean: *stand-in*",
            "* ERROR collecting test_b.py *",
            "CUDA was initialized while this file was imported, at pkg/gpu.py:3",
            "  test_b.py:1: import pkg",
            "  pkg/__init__.py:1: from . import gpu",
            "  pkg/gpu.py:3: " + INIT,
            "  cuInit",
            "ERROR test_b.py*",
        ]
    )
    # It is an error of collection like any other.
    result = pytester.runpytest_subprocess("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)


def test_what_a_test_does_is_its_own_unless_it_must_be_clean(pytester):
    pytester.makepyfile(
        """
        import ctypes
        import unittest

        import pytest

        def init():
            %s

        @pytest.fixture
        def dirty():
            init()

        @pytest.mark.cuda_clean
        def test_clean(): pass

        def test_own(): init()

        @pytest.mark.cuda_clean
        def test_clean_elsewhere(): pass

        @pytest.mark.cuda_clean
        def test_body(): init()

        @pytest.mark.cuda_clean
        def test_fixture(dirty): pass

        @pytest.mark.cuda_clean
        class TestClass(unittest.TestCase):
            def test_method(self): init()
            def test_other(self): pass

        @pytest.mark.cuda_clean
        def test_crash():
            import os
            os.abort()
        """
        % INIT
    )
    result = pytester.runpytest_subprocess("--cuda-clean", "-rA", "-p", "no:faulthandler")
    told = {line.split("::", 1)[1].split(" ")[0]: line.split(" ")[0] for line in result.outlines if "py::" in line}
    assert told == {
        "test_clean": "PASSED",
        "test_own": "PASSED",
        "test_clean_elsewhere": "PASSED",
        "test_body": "FAILED",
        "test_fixture": "ERROR",
        "TestClass::test_method": "FAILED",
        "TestClass::test_other": "PASSED",
        "test_crash": "FAILED",
    }
    text = result.stdout.str()
    assert text.count(":7: " + INIT) == 3 and "by a fixture of this test" in text, text
    assert "ended by signal 6" in text or "ended with" in text, text


def test_fixtures_of_a_module_end_around_a_test_in_a_process_of_its_own(pytester):
    module = """
        import ctypes
        import pytest

        @pytest.fixture(scope="module")
        def own():
            yield
            print("end of %s")

        def test_first(own): ctypes.CDLL("libcuda.so.1").cuInit(0)

        @pytest.mark.cuda_clean
        def test_elsewhere(own): pass
        """
    pytester.makepyfile(test_a=module % "a", test_b=module % "b", test_c="def test_c(): pass")
    result = pytester.runpytest_subprocess("--cuda-clean", "-s")
    result.assert_outcomes(passed=5)
    assert result.stdout.str().count("end of a") == 1


def test_a_test_is_judged_from_whatever_folder_and_by_whoever_starts_pytest(pytester):
    dirty = "import ctypes, pytest\n@pytest.mark.cuda_clean\ndef test_dirty(): " + INIT
    pytester.makepyfile(**{"sub/deep/test_it": dirty})
    start = "import os, sys, pytest\nsys.path.insert(0, 'lib')\nsys.exit(pytest.main(['sub']))"
    pytester.makepyfile(**{"start": start, "lib/helper": "", "sub/test_lib": "import helper\n" + dirty})
    for folder, arguments in (("sub", ["deep"]), (".", [str(pytester.path / "sub/deep/test_it.py")]), ("lib", ["../sub/deep"])):
        os.chdir(pytester.path / folder)
        pytester.runpytest_subprocess(*arguments).assert_outcomes(failed=1)
    os.chdir(pytester.path)
    result = pytester.runpython(pytester.path / "start.py")
    result.stdout.fnmatch_lines(["CUDA was initialized by this test, at sub/deep/test_it.py:3", "* 2 failed *"])


def test_whatever_becomes_of_a_test_elsewhere_is_told_as_if_it_had_run_here(pytester):
    pytester.makepyfile(
        test_a="""
        import ctypes, os, subprocess, sys
        import pytest

        pytestmark = pytest.mark.cuda_clean

        @pytest.fixture(scope="module")
        def raises_at_its_end():
            yield
            raise RuntimeError("at the end")

        @pytest.mark.xfail
        def test_expected(): %s

        def test_skipped(): pytest.skip("not here")

        def test_inner(tmp_path):
            (tmp_path / "test_inner.py").write_text("def test_one(): pass\\ndef test_two(): assert False\\n")
            subprocess.run([sys.executable, "-m", "pytest", "-q", str(tmp_path)])

        def test_module(raises_at_its_end): pass
        """
        % INIT,
        test_b="def test_b(): pass",
    )
    result = pytester.runpytest_subprocess("--cuda-clean", "--junitxml=out.xml", "-rA")
    result.assert_outcomes(passed=3, skipped=1, xfailed=1, errors=1)
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_code_that_counts_gpus_without_nvml_alone_is_no_error(pytester):
    # What a framework does: it asks NVML, and calls cuInit where there is none.
    counts = "import ctypes\ntry:\n    ctypes.CDLL('libnvidia-ml.so.1')\nexcept OSError:\n    " + INIT
    pytester.makepyfile(pkg=counts, test_it="import pkg\n\ndef test_it(): pass")
    result = pytester.runpytest_subprocess("--cuda-clean")
    if not HAS_NVML:
        result.assert_outcomes(passed=1, warnings=1)
        result.stdout.fnmatch_lines(["*by code that counts GPUs; beside NVML*"])
        # Where warnings are errors, it is one of collection.
        pytester.runpytest_subprocess("--cuda-clean", "-W", "error:cuda-pitfalls").assert_outcomes(errors=1)


def test_a_mark_that_is_not_valid_says_what_it_takes_and_without_a_gpu_contexts_are_skipped(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cuda_contexts(gpus=0)
        def test_number(): pass

        @pytest.mark.cuda_contexts([0], max_mib="much")
        def test_size(): pass

        @pytest.mark.cuda_contexts([0], mib=1)
        def test_word(): pass

        @pytest.mark.no_stray_context
        def test_skipped(): pass
        """
    )
    result = pytester.runpytest_subprocess("-rs")
    result.stdout.fnmatch_lines(["*gpus is a list of numbers or UUIDs, not 0*", "*max_mib is a number of MiB, not 'much'*"])
    assert "takes nothing else" in result.stdout.str()
    result.assert_outcomes(errors=3, **{"passed" if HAS_NVML else "skipped": 1})


def test_a_fresh_process_has_the_mask_that_it_is_given(pytester):
    pytester.makepyfile(
        """
        def test_it(cuda_process):
            code = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
            assert cuda_process(code, mask="1,0").stdout == "1,0\\n"
            assert cuda_process(code, mask=None).stdout == "None\\n"
            assert cuda_process(code).stdout == "\\n"
            done = cuda_process("raise SystemExit(3)", trace=True)
            assert (done.returncode, done.way, done.contexts) == (3, None, [])
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


#: A third-party module that initializes CUDA while it is imported, by a framework that calls cuInit once.
THIRD = {
    "site-packages/torch/__init__": "",
    "site-packages/torch/cuda/__init__": """
import ctypes, functools

@functools.lru_cache(None)
def count(): return ctypes.CDLL("libcuda.so.1").cuInit(0)

def is_available(): return count() == 0
""",
    "site-packages/third/__init__": "from . import compat\ndef lazy():\n    import torch.cuda\n    torch.cuda.is_available()",
    "site-packages/third/compat": "import torch.cuda\nHAS = torch.cuda.is_available()",
}
OWN = "import third\nimport torch.cuda\n"
TEST = "\ndef test_it(): pass\n"


@pytest.mark.parametrize(
    "ini, own, outcomes, says",
    [
        ("", {"test_a": OWN + TEST}, {"passed": 1, "warnings": 1}, "*at test_a.py:1, in *third/compat.py:2*cuda_clean_allow = third.compat*"),
        ("cuda_clean_allow = third.compat", {"test_a": OWN + TEST}, {"passed": 1}, "*1 passed*"),
        ("cuda_clean_allow =\n    other\n    third", {"test_a": OWN + TEST, "conftest": OWN}, {"passed": 1}, "*1 passed*"),
        ("cuda_clean_allow = thi", {"test_a": OWN + TEST}, {"passed": 1, "warnings": 1}, "*third.compat*"),
        ("filterwarnings = error:cuda-pitfalls", {"test_a": OWN + TEST}, {"errors": 1}, "*at test_a.py:1, in *"),
        # A line of this project, in a file after the one that is allowed: one that calls cuInit once more is found, and one
        # whose framework does so once may not be.
        ("cuda_clean_allow = third", {"test_a": OWN + TEST, "test_b": "import ctypes\n" + INIT + TEST}, {"errors": 1},
         "*, at test_b.py:2"),
        ("cuda_clean_allow = third", {"test_a": OWN + "X = torch.cuda.is_available()" + TEST}, {"passed": 1}, "cuda-clean: *may not be noticed"),
        ("", {"test_a": OWN + "X = torch.cuda.is_available()" + TEST}, {"passed": 1, "warnings": 1}, "*; lines that use CUDA after it may not*"),
        # The project's own package, which was installed.
        ("", {"test_a": OWN + TEST, "src/third/__init__": ""}, {"errors": 1}, "*, at *third/compat.py:2"),
    ],
)
def test_an_import_of_somebody_elses_is_a_warning_unless_it_is_allowed_and_a_line_of_this_project_fails(
    pytester, ini, own, outcomes, says
):
    pytester.makeini("[pytest]\npythonpath = site-packages .\n" + ini)
    pytester.makepyfile(**THIRD, **own)
    result = pytester.runpytest_subprocess("--cuda-clean")
    result.stdout.fnmatch_lines([says])
    result.assert_outcomes(**outcomes)


@pytest.mark.parametrize("package, is_measured", [("bitsandbytes", True), ("nobody_measured_it", False)])
def test_warning_about_an_import_has_its_measured_results(pytester, package, is_measured):
    pytester.makeini("[pytest]\npythonpath = site-packages\n")
    pytester.makepyfile(**{"site-packages/%s/__init__" % package: "import ctypes\n" + INIT})
    pytester.makepyfile(test_a="import %s\n" % package + TEST)
    result = pytester.runpytest_subprocess("--cuda-clean")
    result.assert_outcomes(passed=1, warnings=1)
    says = "*at test_a.py:1, in *Imported without a GPU: import bitsandbytes calls cuInit in *See docs/imports.md."
    assert any(fnmatch.fnmatch(line, says) for line in result.outlines) == is_measured, result.outlines


def test_marked_test_fails_for_its_own_call_after_an_allowed_import(pytester):
    pytester.makeini("[pytest]\npythonpath = site-packages\ncuda_clean_allow = third.compat\n")
    text = "import pytest\npytestmark = pytest.mark.cuda_clean\n" + OWN
    text += "import ctypes\ndef test_clean(): pass\ndef test_dirty(): " + INIT
    pytester.makepyfile(**THIRD, test_a=text)
    result = pytester.runpytest_subprocess("--cuda-clean")
    result.stdout.fnmatch_lines(["CUDA was initialized *, at test_a.py:7"])
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    "ini, outcomes, says",
    [
        ("", {"errors": 1}, "undecided whether CUDA was initialized while this file was imported, at pkg.py:2"),
        ("cuda_clean_allow = pkg", {"passed": 1}, "*1 passed*"),
    ],
)
def test_a_library_that_gave_up_before_it_called_cuinit_is_undecided_and_no_pass(pytester, ini, outcomes, says):
    gives_up = "import ctypes\nctypes.CDLL('libcuda.so.1').cuGetExportTable(ctypes.byref(ctypes.c_void_p()), bytes(16))"
    pytester.makeini("[pytest]\npythonpath = .\n" + ini)
    pytester.makepyfile(pkg=gives_up, test_a="import os\nimport pkg" + TEST)
    result = pytester.runpytest_subprocess("--cuda-clean")
    result.stdout.fnmatch_lines([says])
    result.assert_outcomes(**outcomes)


@pytest.mark.parametrize(
    "ini, outcomes, says",
    [("", {"errors": 1}, "*JAX has chosen*"), ("cuda_clean_allow = jax", {"passed": 1}, "*1 passed*")],
)
def test_jax_that_chose_without_a_gpu_is_undecided(pytester, ini, outcomes, says):
    pytester.makeini("[pytest]\npythonpath = .\n" + ini)
    files = {"jax/_src/xla_bridge": "_backends = {'cpu': 1}", "jax_plugins/xla_cuda13/__init__": ""}
    pytester.makepyfile(**files, test_a="import jax._src.xla_bridge, jax_plugins.xla_cuda13" + TEST)
    result = pytester.runpytest_subprocess("--cuda-clean")
    result.stdout.fnmatch_lines([says])
    result.assert_outcomes(**outcomes)


#: Ignores what it is asked, and starts a process that left its session and its parent.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("pid", "w").write("%d %d" % (parent, os.getpid()))
        time.sleep(600)
    os._exit(0)
time.sleep(600)
""".replace("if os.fork", "parent = os.getpid()\nif os.fork", 1)


def _ended(note):
    """The processes of this note that run still, ten seconds later."""
    until = time.monotonic() + 10
    while True:
        running = []
        for pid in note.read_text().split():
            try:
                with open("/proc/%s/stat" % pid) as stat:
                    running += [pid] if stat.read().rpartition(")")[2].split()[0] != "Z" else []
            except OSError:
                continue
        if not running or time.monotonic() > until:
            [os.kill(int(pid), 9) for pid in running]
            return running
        time.sleep(0.05)


@pytest.mark.parametrize("traced", [False, True])
def test_a_process_whose_time_is_over_ends_with_all_that_it_started(pytester, traced):
    pytester.makepyfile(
        "import pytest, subprocess\nSTUBBORN = %r\n"
        "def test_it(cuda_process):\n"
        "    with pytest.raises(subprocess.TimeoutExpired):\n"
        "        done = cuda_process(STUBBORN, timeout=4, trace=%r)\n"
        "        raise subprocess.TimeoutExpired(STUBBORN, 4) if done.returncode < 0 else AssertionError(done)" % (STUBBORN, traced)
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    assert _ended(pytester.path / "pid") == []


def test_nothing_outlives_a_pytest_that_is_killed_and_the_program_removes_its_folders(pytester, monkeypatch):
    pytester.makepyfile("STUBBORN = %r\ndef test_it(cuda_process): cuda_process(STUBBORN, trace=True)" % STUBBORN)
    place = pytester.mkdir("tmp")
    monkeypatch.setenv("TMPDIR", str(place))
    process = pytester.popen([sys.executable, "-m", "pytest"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    note, until = pytester.path / "pid", time.monotonic() + 120
    while not (note.exists() and len(note.read_text().split()) == 2) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert _ended(note) == []
    # The program's next run removes what the killed one left, and so does the plugin's.
    assert len(list(place.iterdir())) >= 1
    pytester.makepyfile("def test_it(cuda_process): assert not cuda_process('').returncode")
    next_runs = [[program.find(os.environ.get("CUDA_PITFALLS")), "sim", "--", "true"], [sys.executable, "-m", "pytest"]]
    for number, next_run in enumerate(next_runs):
        subprocess.run(next_run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        # The folder of a user's traces stays.
        left = [entry.name for entry in place.glob("cuda-pitfalls-*")]
        assert [name for name in left if not name.startswith("cuda-pitfalls-of-")] == []
        if number == 0:
            # As it is left by a process that was killed.
            dead = place / "cuda-pitfalls-dead"
            dead.mkdir(0o700)
            (dead / "lock").write_bytes(kept._MARK)


def test_workers_take_turns_and_say_so(pytester):
    assert workers.shared(["a", "b"], ["gw0", "gw1", "gw2"]) == {"gw0": "a", "gw1": "b", "gw2": "a"}
    pytest.importorskip("xdist")
    pytester.makepyfile(test_a="def test_a(): pass", test_b="import ctypes\n" + INIT + "\ndef test_b(): pass")
    result = pytester.runpytest_subprocess("--cuda-clean", "-n", "2", "--cuda-per-worker")
    result.stdout.fnmatch_lines(["cuda-per-worker: no worker has a GPU of its own*"])
    result.stdout.fnmatch_lines(["CUDA was initialized while this file was imported, at test_b.py:2"])
    result.assert_outcomes(passed=1, errors=1)


@pytest.mark.parametrize(
    "attempt, is_initialised, failure, warnings",
    [
        ({}, False, "", ""),
        ({"ways": ["own"]}, True, "HEAD, at t.py:5, in t.py:3", ""),
        ({"ways": ["foreign"]}, True, "", "HEAD, at t.py:5, in t.py:3, which is no line"),
        ({"ways": ["foreign", "own"]}, True, "HEAD, at t.py:5, in t.py:3", ""),
        ({"ways": ["allowed"], "unread": "late"}, True, "", ""),
        ({"native": ["f", "cuInit"]}, True, "no line of Python did it: f -> cuInit", ""),
        ({"unread": "late"}, True, "its line is not known: late", ""),
        ({}, True, "", "HEAD, by code that counts GPUs"),
        ({"undecided": ["why"]}, False, "undecided whether HEAD\nwithout a GPU", ""),
        ({"gave_up": ["own"]}, False, "undecided whether HEAD, at t.py:5", ""),
        ({"gave_up": ["foreign"], "undecided": ["why"]}, False, "", "undecided whether HEAD, at t.py:5, in t.py:3: without"),
        ({"gave_up": ["allowed"], "undecided": ["why"]}, False, "", ""),
    ],
)
def test_verdict_follows_from_what_a_trace_showed(attempt, is_initialised, failure, warnings):
    def line(number):
        return program.Line("t.py", number, "", os.path.abspath("t.py"), "t", "f")

    def judged(kind):
        return project.Judged(program.Way(line(3), [line(5), line(3)], []), line(5), kind == "foreign", kind == "allowed")

    ways = {name: [judged(kind) for kind in attempt.get(name, ())] for name in ("ways", "gave_up")}
    lists = {name: attempt.get(name, []) for name in ("native", "undecided")}
    seen = verdict.Attempt(**ways, **lists, unread=attempt.get("unread"), findings=[])
    told = verdict.decide("HEAD", seen, lambda way: way.is_foreign, is_initialised, True)
    assert failure in str(told.failure or "") and bool(failure) == (told.failure is not None)
    assert warnings in "".join(told.warnings) and bool(warnings) == bool(told.warnings)


def test_a_program_that_is_not_there_is_an_error_of_usage(pytester, monkeypatch):
    pytester.makepyfile("def test_it(): pass")
    absent = str(pytester.path / "absent")
    result = pytester.runpytest_subprocess("--cuda-clean", "--cuda-program=" + absent)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the program `%s` is not there*" % absent])
    # The plugin alone is installed, and no program is on PATH.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider")
    monkeypatch.setenv("PATH", str(pytester.path))
    paths = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if not path.endswith("python")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    result = pytester.runpytest_subprocess("--cuda-clean")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "Traceback" not in result.stderr.str()
    result.stderr.fnmatch_lines(["ERROR: cuda-pitfalls: *-m pip install cuda-pitfalls` installs it*"])
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize("is_named", (False, True))
def test_the_program_alone_is_enough(pytester, monkeypatch, is_named):
    path = program.find(os.environ.get("CUDA_PITFALLS"))
    (pytester.path / "bin").mkdir()
    (pytester.path / "bin" / "cuda-pitfalls").symlink_to(os.path.abspath(path))
    folders = [str(pytester.path / "bin"), os.environ["PATH"]]
    named = ["--cuda-program=" + path] if is_named else []
    monkeypatch.setenv("PATH", os.pathsep.join(folders[is_named:]))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider")
    paths = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if not path.endswith("python")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    pytester.makepyfile(test_a="import ctypes\n" + INIT + "\ndef test_a(): pass")
    result = pytester.runpytest_subprocess("--cuda-clean", *named)
    result.stdout.fnmatch_lines(
        [
            "CUDA was initialized while this file was imported, at test_a.py:2",
            "Instead: Ask for CUDA in the body of a test*",
            "ERROR test_a.py - test_a.py:2: CUDA was initialized*",
        ]
    )


def test_the_remedy_of_a_finding_is_beside_its_own_line_only():
    def line(number):
        return program.Line("t.py", number, "", os.path.abspath("t.py"), "t", "f")

    def finding(at, severity="pitfall"):
        return {"at": at, "severity": severity, "workaround": "%s of %s" % (severity, at and at["line"])}

    found = [finding({"file": os.path.abspath("t.py"), "line": number}) for number in (3, 4, 5)]
    found += [finding({"file": "t.py", "line": 3}, "note"), finding({"file": "u.py", "line": 3}), finding(None)]
    way = program.Way(line(3), [line(2), line(3)], [])
    remedies = verdict.remedies(found, project.Judged(way, line(5), False, False)).splitlines()
    assert remedies[1:] == ["Instead: pitfall of 3", "Instead: pitfall of 5"]
    known = [{"at": {"file": "t.py", "line": number}, "import": "import of %d" % number} for number in (2, 4)]
    judged = project.Judged(way, line(5), False, False)
    assert verdict.remedies([*found, *known, *known], judged).splitlines()[3:] == ["import of 2"]


def test_whose_line_it_is_where_a_framework_has_plugins_and_where_it_does_it_while_it_is_imported():
    def frame(function, file, line, owner="package", package=None):
        return {"language": "python", "function": function, "file": file, "line": line, "owner": owner, "package": package}

    lib = "/l/site-packages/"
    plugin = frame("_check_cuda_versions", lib + "jax_plugins/xla_cuda13/__init__.py", 273, package="jax_plugins")
    jax = frame("devices", lib + "jax/_src/xla_bridge.py", 1025, package="jax")
    test = frame("devices", "/p/test_it.py", 6, "program")
    way = program.way_to({"call": "cuInit", "stack": {"frames": [plugin, jax, test]}}, "/p")
    assert (way.at.file, way.at.line) == ("test_it.py", 6)
    asks = frame("is_available", lib + "torch/cuda/__init__.py", 180, package="torch")
    torch = frame("<module>", lib + "torch/quasirandom.py", 219, package="torch")
    way = program.way_to({"call": "cuInit", "stack": {"frames": [asks, torch, test]}}, "/p")
    assert (way.at.file, way.at.line) == (".../site-packages/torch/quasirandom.py", 219)
    assert program.way_to({"stack": {"frames": [plugin]}}, "/p").at.line == 273


@pytest.mark.parametrize(
    "files, mask, sees, can",
    [
        ((), None, True, False),
        ((__file__,), None, False, True),
        ((__file__,), "GPU-1", False, True),
        ((__file__,), "0", True, True),
        ((__file__,), "0", False, False),
    ],
)
def test_a_driver_can_start_where_there_is_one_and_the_mask_does_not_hide_all(monkeypatch, files, mask, sees, can):
    # The wheel's module is not installed, so the program is asked.
    monkeypatch.setitem(sys.modules, "cuda_pitfalls.mask", None)
    monkeypatch.setattr(probe, "_GPU_FILES", files)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert probe.can_initialise(lambda: sees) is can


@pytest.mark.parametrize("status, can", [("CUDA_SUCCESS", True), ("CUDA_ERROR_NO_DEVICE", False)])
def test_the_module_of_the_wheel_is_asked_before_the_program(monkeypatch, status, can):
    parse = types.SimpleNamespace(parse=lambda mask, gpus: types.SimpleNamespace(status=status))
    monkeypatch.setitem(sys.modules, "cuda_pitfalls", types.ModuleType("cuda_pitfalls"))
    monkeypatch.setitem(sys.modules, "cuda_pitfalls.mask", parse)
    monkeypatch.setattr(probe, "_GPU_FILES", (__file__,))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert probe.can_initialise(lambda: not can) is can


def test_this_python_is_one_that_is_supported():
    assert sys.version_info >= (3, 8)
