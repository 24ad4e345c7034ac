#!/usr/bin/env python3
"""Writes python/cuda_pitfalls/mask_vectors.json from committed evidence.

    python3 python/masks/make_vectors.py            writes the file
    python3 python/masks/make_vectors.py --check    says whether the file is what this writes; exit 1 if not

A vector is a row of a survey of masks, with the UUIDs of the machine in place of `<uuid0>` and the like; or what
`cuInit` did in a case of a `visibility` scenario that begins with it, by the environment that its process was started
with. Nothing is predicted here, and what has no result is no vector.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Surveys of which every row is a vector.
SURVEYS = ["reports/survey-mask-h200-x2/survey-mask.json"]

#: Reports with other numbers of GPUs, and other GPUs, than the survey.
REPORTS = [
    "reports/h100-x1/report.json",
    "reports/h200-x1/report.json",
    "reports/h200-x1-second/report.json",
    "reports/h100-x2-alone/report.json",
    "reports/h200-x4/report.json",
    "reports/h200-x4-second/report.json",
    "reports/h200-x4-third/report.json",
    "reports/h200-x4-one-gpu/report.json",
]

VECTORS = ROOT / "python/cuda_pitfalls/mask_vectors.json"

#: What every worker of a survey has where the row names no order; docs/surveys/mask.md says so.
DEFAULT_ORDER = "PCI_BUS_ID"

_PLACEHOLDER = re.compile(r"<<|<(uuid|UUID|bare|flat)([0-9]+)(?::([0-9]+|unique|shared))?>|<")


def forms(uuid):
    """The four ways in which a survey writes a UUID; src/core/mask/template.rs has the same."""
    digits = uuid[len("GPU-") :]
    return {
        "uuid": uuid,
        "UUID": "GPU-" + digits.upper(),
        "bare": digits,
        "flat": "GPU-" + digits.replace("-", ""),
    }


def unique(uuids, gpu, form):
    """The fewest characters of this GPU's UUID that no other GPU's begins with, at least one digit."""
    own = forms(uuids[gpu])[form]
    longest = 0 if form == "bare" else len("GPU-")
    for other, uuid in enumerate(uuids):
        alike = 0
        for mine, theirs in zip(own, forms(uuid)[form]):
            if other == gpu or mine != theirs:
                break
            alike += 1
        longest = max(longest, alike)
    return longest + 1


def filled(template, uuids):
    """The mask that a template stands for on a machine with these UUIDs."""

    def fill(match):
        if match.group() == "<<":
            return "<"
        form, gpu, length = match.groups()
        if form is None:
            raise SystemExit(f"{template!r}: `<` opens no placeholder that make_vectors.py knows")
        text = forms(uuids[int(gpu)])[form]
        if length is None:
            return text
        if length.isdigit():
            return text[: int(length)]
        return text[: unique(uuids, int(gpu), form) - (length == "shared")]

    return _PLACEHOLDER.sub(fill, template)


def machine(path, data, evidence):
    """What the vectors of a survey or report have in common."""
    facts = evidence["machine"]
    if evidence["provenance"] != "measured" or not evidence["complete"]:
        raise SystemExit(f"{path}: not a complete one of a real driver")
    libcuda = next(one["path"] for one in facts["libraries"] if one["library"] == "libcuda")
    if not libcuda.endswith(facts["driver_version"]):
        raise SystemExit(f"{path}: {libcuda} is not of the driver {facts['driver_version']}")
    return {
        "gpus": [{"uuid": gpu["uuid"], "name": gpu["name"]} for gpu in facts["gpus"]],
        "mig": any(gpu["mig"] for gpu in facts["gpus"]),
        "driver_version": facts["driver_version"],
        "date": evidence["survey" if "survey" in evidence else "run"]["started_at"][:10],
        "evidence": {"path": path, "sha256": hashlib.sha256(data).hexdigest()},
    }


def of_survey(index, survey):
    """The vectors of a survey whose machine has this index."""
    uuids = [gpu["uuid"] for gpu in survey["machine"]["gpus"]]
    for row in survey["rows"]:
        # Attempts that disagree leave no status, and so no vector.
        if row["unmeasured"] is not None or row["status"] is None or row["gpus"] is None:
            continue
        yield {
            "machine": index,
            "mask": None if row["mask"] is None else filled(row["mask"], uuids),
            "order": DEFAULT_ORDER if row["order"] is None else row["order"],
            "status": row["status"],
            "gpus": row["gpus"],
            "group": row["group"],
            "note": row.get("note", ""),
            "attempts": row["attempts"],
        }


def first_init(attempt):
    """What the first step of an attempt, `cuInit`, returned, and the UUIDs that were visible after it."""
    own = [event for event in attempt["events"] if event.get("step") == 0 and event.get("process") is None]
    status = next((event["status"]["name"] for event in own if event["event"] == "end"), None)
    shown = next((event["probe"]["visible"] for event in own if event["event"] == "probe"), None)
    return status, shown


def of_report(path, index, report):
    """The vectors of a report whose machine has this index: one for each pair of mask and order."""
    uuids = [gpu["uuid"] for gpu in report["machine"]["gpus"]]
    found = {}
    for scenario in report["scenarios"]:
        if not scenario["name"].startswith("visibility/") or not scenario["plan"]:
            continue
        plans = {plan["name"]: plan for plan in scenario["plan"]["cases"]}
        for case in scenario["cases"]:
            plan = plans[case["name"]]
            first = plan["steps"][0]
            if first["call"] != "cuInit" or first.get("on"):
                continue
            mask = plan["env"].get("CUDA_VISIBLE_DEVICES") if plan["mask"] is None else ",".join(plan["mask"])
            order = plan["env"].get("CUDA_DEVICE_ORDER")
            for attempt in case["attempts"]:
                status, shown = first_init(attempt)
                # An attempt that does not count has no outcome.
                if attempt["outcome"] is None or status is None or (status == "CUDA_SUCCESS" and shown is None):
                    continue
                gpus = [uuids.index(uuid) for uuid in shown or []]
                new = {"machine": index, "mask": mask, "order": order, "status": status, "gpus": gpus}
                new.update(group=scenario["name"], note=plan["does"], attempts=0)
                known = found.setdefault((mask, order), new)
                if (known["status"], known["gpus"]) != (status, gpus):
                    raise SystemExit(f"{path}: attempts disagree about the mask {mask!r} with the order {order!r}")
                known["attempts"] += 1
    return found.values()


def unpacked(path):
    """The bytes of a committed document, which is stored packed."""
    packed = ROOT / f"{path}.zst"
    try:
        return subprocess.run(["zstd", "-dcq", packed], stdout=subprocess.PIPE, check=True).stdout
    except FileNotFoundError:
        raise SystemExit(f"`zstd` is needed to read {packed}: install it") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{packed} cannot be unpacked: zstd ended with {error.returncode}") from None


def document():
    """The text of the file: a line for each machine and each vector, so that a change can be read."""
    machines, rows = [], []
    for path in SURVEYS + REPORTS:
        data = unpacked(path)
        evidence = json.loads(data)
        index = len(machines)
        rows.extend(of_survey(index, evidence) if path in SURVEYS else of_report(path, index, evidence))
        machines.append(machine(path, data, evidence))

    def lines(items):
        return ",\n".join("  " + json.dumps(item) for item in items)

    schema = json.dumps({"name": "mask-vectors", "major": 1, "minor": 0})
    return f'{{\n"schema": {schema},\n"machines": [\n{lines(machines)}\n],\n"vectors": [\n{lines(rows)}\n]\n}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is not up to date")
    parser.add_argument("--file", type=Path, default=VECTORS, help="the file (default: %(default)s)")
    arguments = parser.parse_args()
    text = document()
    if not arguments.check:
        arguments.file.write_text(text, encoding="utf-8")
    elif not arguments.file.is_file() or arguments.file.read_text(encoding="utf-8") != text:
        sys.exit(f"{arguments.file} is not what the evidence says; `python3 python/masks/make_vectors.py` writes it")


if __name__ == "__main__":
    main()
