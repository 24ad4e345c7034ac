"""Ten ways in which an import comes to initialize CUDA, of the kinds that maintainers had to repair, each as a small
project; and the same project without the call, which is clean.

``python3 regressions.py FOLDER --way torch`` makes them, runs ``pytest --cuda-clean`` on each and prints as JSON which
were found at the right line. ``--way ctypes`` needs nothing but the standard library.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from typing import Dict, List, NamedTuple

#: How a program comes to ``cuInit``: what it imports, and an expression.
WAYS = {
    "ctypes": ("import ctypes", 'ctypes.CDLL("libcuda.so.1").cuInit(0)'),
    "torch": ("import torch", "torch.cuda.current_device()"),
    "torch-available": ("import torch", "torch.cuda.is_available()"),
    "torch-tensor": ("import torch", 'torch.zeros(1, device="cuda")'),
    "torch-capability": ("import torch", "torch.cuda.get_device_capability()"),
    "triton": ("import triton", "triton.runtime.driver.active.get_current_target()"),
    "cupy": ("import cupy", "cupy.cuda.runtime.getDeviceCount()"),
    "numba": ("import numba.cuda", "numba.cuda.is_available()"),
    "jax": ("import jax", "jax.devices()"),
    "cuda-bindings": ("import cuda.bindings.driver as driver", "driver.cuInit(0)"),
}

#: A mark behind the line that has to be named.
HERE = "# here"

#: The projects: files and their text. `IMPORT` and `CALL` stand for a way.
KINDS: Dict[str, Dict[str, str]] = {
    "constant of a module": {
        "pkg/__init__.py": "from . import gpu\n",
        "pkg/gpu.py": "IMPORT\n\nDEVICE = CALL  # here\n",
        "test_it.py": "import pkg\n\n\ndef test_it():\n    assert pkg\n",
    },
    "default of an argument": {
        "pkg/__init__.py": "from pkg.model import run\n",
        "pkg/model.py": "IMPORT\n\n\ndef run(x, device=CALL):  # here\n    return x\n",
        "test_it.py": "from pkg import run\n\n\ndef test_it():\n    assert run(1) == 1\n",
    },
    "attribute of a class": {
        "pkg/__init__.py": "",
        "pkg/engine.py": "IMPORT\n\n\nclass Engine:\n    stream = CALL  # here\n",
        "test_it.py": "import unittest\n\nfrom pkg.engine import Engine\n\n\nclass TestIt(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertTrue(Engine)\n",
    },
    "decorator": {
        "pkg/__init__.py": "IMPORT\n\n\ndef tuned(f):\n    f.device = CALL  # here\n    return f\n",
        "pkg/kernels.py": "from . import tuned\n\n\n@tuned\ndef kernel():\n    return 1\n",
        "test_it.py": "from pkg.kernels import kernel\n\n\ndef test_it():\n    assert kernel() == 1\n",
    },
    "helper called at import": {
        "pkg/__init__.py": "from .config import Config\n\nCONFIG = Config.detect()\n",
        "pkg/config.py": "class Config:\n    @classmethod\n    def detect(cls):\n        from .probe import probe\n\n"
        "        probe()\n        return cls()\n",
        "pkg/probe.py": "def probe():\n    IMPORT\n\n    return CALL  # here\n",
        "test_it.py": "import pkg\n\n\ndef test_it():\n    assert pkg.CONFIG\n",
    },
    "conftest": {
        "conftest.py": "IMPORT\n\nHAS_GPU = CALL  # here\n",
        "test_it.py": "def test_it():\n    pass\n",
    },
    "condition of a skip": {
        "test_it.py": "import pytest\nIMPORT\n\n\n@pytest.mark.skipif(CALL is None, reason='no GPU')  # here\n"
        "def test_it():\n    pass\n",
    },
    "parameters of a test": {
        "pkg/__init__.py": "",
        "test_it.py": "import pytest\nIMPORT\n\n\ndef devices():\n    return [CALL]  # here\n\n\n"
        "@pytest.mark.parametrize('device', devices())\ndef test_it(device):\n    pass\n",
    },
    "thread begun at import": {
        "pkg/__init__.py": "import threading\n\nIMPORT\n\n\ndef warm_up():\n    CALL  # here\n\n\n"
        "thread = threading.Thread(target=warm_up)\nthread.start()\nthread.join()\n",
        "test_it.py": "import pkg\n\n\ndef test_it():\n    assert pkg\n",
    },
    "lazy attribute": {
        "pkg/__init__.py": "def __getattr__(name):\n    if name == 'ops':\n        from . import _ops\n\n        return _ops\n"
        "    raise AttributeError(name)\n",
        "pkg/_ops.py": "IMPORT\n\n_TARGET = CALL  # here\n",
        "pkg/api.py": "import pkg\n\nops = pkg.ops\n",
        "test_it.py": "from pkg.api import ops\n\n\ndef test_it():\n    assert ops\n",
    },
}


class Seeded(NamedTuple):
    """What became of one project."""

    kind: str
    way: str
    #: Where the call stands.
    wanted: str
    #: Where pytest says that it stands; empty if it says nothing.
    found: str
    #: Exit codes of pytest: with the call, and without it.
    code: int
    clean_code: int
    #: What pytest printed, where something is not as wanted.
    output: str

    def is_right(self) -> bool:
        # 2: pytest was interrupted by an error of collection.
        return self.found == self.wanted and self.code == 2 and self.clean_code == 0


def write(folder: str, kind: str, way: str) -> str:
    """Writes a project; without a call for the way "". Returns where the call stands."""
    imports, call = WAYS[way] if way else ("import os", "os.getpid()")
    wanted = ""
    for name, text in KINDS[kind].items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        text = text.replace("IMPORT", imports).replace("CALL", call)
        with open(path, "w") as into:
            into.write(text)
        wanted += "".join("%s:%d" % (name, at + 1) for at, line in enumerate(text.split("\n")) if HERE in line)
    with open(os.path.join(folder, "pytest.ini"), "w") as into:
        into.write("[pytest]\npythonpath = .\n")
    return wanted


def run(folder: str, kind: str, way: str, options: List[str]) -> Seeded:
    """Makes a project and its clean twin in ``folder``, and runs pytest on both."""
    codes, outputs, wanted = [], [], ""
    for name, of in (("seeded", way), ("clean", "")):
        project = os.path.join(folder, name)
        at = write(project, kind, of)
        wanted = wanted or at
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cuda-clean", *options]
        done = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        codes.append(done.returncode)
        outputs.append(done.stdout.decode(errors="replace"))
    said = re.search(r"^CUDA was initialized .*, at (\S+:\d+)$", outputs[0], re.MULTILINE)
    seeded = Seeded(kind, way, wanted, said.group(1) if said else "", codes[0], codes[1], "")
    return seeded if seeded.is_right() else seeded._replace(output="\n".join(outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="an empty folder for the projects")
    parser.add_argument("--way", action="append", choices=WAYS, help="each kind in turn takes the next one")
    parser.add_argument("options", nargs="*", help="more options of pytest, behind --")
    given = parser.parse_args()
    ways = given.way or ["ctypes"]
    all_of_them = [
        run(os.path.join(given.folder, kind.replace(" ", "-")), kind, ways[number % len(ways)], given.options)
        for number, kind in enumerate(KINDS)
    ]
    print(json.dumps([seeded._asdict() for seeded in all_of_them], indent=1))
    right = sum(seeded.is_right() for seeded in all_of_them)
    print("%d of %d found at the right line, each with a clean twin" % (right, len(all_of_them)), file=sys.stderr)
    sys.exit(0 if right == len(all_of_them) else 1)


if __name__ == "__main__":
    main()
