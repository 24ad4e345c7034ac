#!/usr/bin/env python3
"""Compares other projects' parsers of CUDA_VISIBLE_DEVICES with the measured masks.

    python3 python/masks/conformance.py                    tests all, prints a table
    python3 python/masks/conformance.py --project torch    tests one (repeatable)
    … --json python/masks/results.json --out docs/mask-vectors.md     writes results and the page
    python3 python/masks/conformance.py --check            checks that the page matches the results; tests nothing

Needs Python 3.11 and uv, which creates a temporary environment for each project's release. No GPU is needed or used:
a table of the measured machine's UUIDs answers NVML queries. Exits with 1 if a project could not be tested, or if
--check finds a difference. A parser that differs from the driver does not change the exit code.
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import tomllib
except ImportError:
    sys.exit("conformance.py needs Python 3.11 or newer, for tomllib")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"
PAGE = ROOT / "docs/mask-vectors.md"
VECTORS = ROOT / "python/cuda_pitfalls/mask_vectors.json"

sys.path.insert(0, str(HERE))

import page  # noqa: E402
from judge import counted  # noqa: E402


def ran(command, limit, **options):
    """What a command wrote; its error is the last lines of what it complained about."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, **options)
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is not installed; `pip install uv` is one way to get uv") from None
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {limit} s: {' '.join(map(str, command[:3]))} …") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError("; ".join(lines[-3:]) or f"{command[0]} exited with {done.returncode}")
    return done.stdout


def asked(project, document, python, arguments):
    """The result of one project: its questions with their counts, or why it could not be tested."""
    result = {key: project[key] for key in ("name", "title", "repository")}
    result.update(threads=project.get("threads", []), issue=project.get("issue", page.ISSUE))
    result.update(requires=project["requires"], error=None, questions=[])
    with tempfile.TemporaryDirectory(prefix="masks-") as folder:
        environment, empty = Path(folder, "environment"), Path(folder, "empty")
        empty.mkdir()
        install = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", environment / "bin/python"]
        if "platform" in project:
            install += ["--python-platform", project["platform"]]
        # Else uv takes wheels of a macOS that is too old for some.
        settings = {"MACOSX_DEPLOYMENT_TARGET": "14.0", **os.environ}
        # What a parser may read beside the mask, and what could lead it to a GPU of this machine.
        clean = {"PATH": "/usr/bin:/bin", "HOME": folder, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran(["uv", "venv", "--quiet", "--python", python, environment], 300)
            ran([*install, *project["requires"]], arguments.install_limit, env=settings)
            questions, vectors = [], []
            for index, machine in enumerate(document["machines"]):
                # A process for each: parsers remember what they have seen of a machine.
                of_machine = [vector for vector in document["vectors"] if vector["machine"] == index]
                question = json.dumps({"uuids": [gpu["uuid"] for gpu in machine["gpus"]], "vectors": of_machine})
                command = [environment / "bin/python", HERE / "ask.py", HERE / f"adapters/{project['name']}.py"]
                told = json.loads(ran(command, arguments.limit, input=question, env=clean, cwd=empty))
                result.update(means=told["means"], how=told["how"], python=told["python"])
                vectors += of_machine
                for known, new in zip(questions, told["questions"]):
                    known["answers"] += new["answers"]
                questions = questions or told["questions"]
            result["questions"] = [counted(question, vectors) for question in questions]
        except RuntimeError as error:
            # No path of this machine.
            result["error"] = str(error).replace(folder, "…")
    return result


def digest(data):
    """The SHA-256 of the vectors alone: a report may be rewritten and still show the same of every mask."""
    return hashlib.sha256(json.dumps(json.loads(data)["vectors"]).encode()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", action="append", metavar="NAME", help="test only this project (repeatable)")
    parser.add_argument("--from", dest="results", type=Path, metavar="FILE", help="read results, test nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--check", action="store_true", help="test nothing; exit 1 unless the page matches the results")
    parser.add_argument("--page", type=Path, default=PAGE, help="page for --check (default: docs/mask-vectors.md)")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="for a test (default: 300)")
    parser.add_argument("--install-limit", type=int, default=1800, metavar="SECONDS", help="to install (default: 1800)")
    arguments = parser.parse_args()

    wanted = tomllib.loads((HERE / "projects.toml").read_text(encoding="utf-8"))
    data = VECTORS.read_bytes()
    names = [project["name"] for project in wanted["project"]]
    for name in arguments.project or []:
        if name not in names:
            parser.error(f"unknown project {name}; expected one of {', '.join(names)}")
    if arguments.out and arguments.project:
        parser.error("--out writes the page of all projects; leave out --project")

    if arguments.check or arguments.results:
        results = json.loads((arguments.results or RESULTS).read_text(encoding="utf-8"))
    else:
        results = {
            "schema": {"name": "mask-conformance", "major": 1, "minor": 0},
            "date": datetime.date.today().isoformat(),
            "vectors": {"count": len(json.loads(data)["vectors"]), "sha256": digest(data)},
            "projects": [],
        }
        for project in wanted["project"]:
            if not arguments.project or project["name"] in arguments.project:
                print(f"testing {' '.join(project['requires'])}", file=sys.stderr)
                results["projects"].append(asked(project, json.loads(data), wanted["python"], arguments))
    written = page.written(results, json.loads(data), wanted["left_out"])

    if arguments.check:
        wrong = []
        if results["vectors"]["sha256"] != digest(data):
            wrong.append("the results are of other vectors: test again, with --json python/masks/results.json")
        if [one["requires"] for one in results["projects"]] != [one["requires"] for one in wanted["project"]]:
            wrong.append("the results are of other releases than projects.toml lists: test again, with --json")
        if not arguments.page.is_file() or arguments.page.read_text(encoding="utf-8") != written:
            how = "--from python/masks/results.json --out docs/mask-vectors.md"
            wrong.append(f"{arguments.page} is out of date; write it with {how}")
        sys.exit("\n".join(wrong) or 0)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if arguments.out:
        arguments.out.write_text(written, encoding="utf-8")
    print(page.table(results, plain=True))
    failed = [project for project in results["projects"] if project["error"]]
    for project in failed:
        print(f"{project['title']} could not be tested: {project['error']}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
