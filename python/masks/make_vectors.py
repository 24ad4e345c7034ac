#!/usr/bin/env python3
"""Writes python/cuda_pitfalls/mask_vectors.json from the committed surveys of masks.

    python3 python/masks/make_vectors.py            writes the file
    python3 python/masks/make_vectors.py --check    says whether the file is what this writes; exit 1 if not

A vector is a row of a survey, with the UUIDs of the machine in place of `<uuid0>` and the like. Nothing is
predicted here, and a row without a result is no vector.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Surveys of which every row is a vector.
EVIDENCE = ["reports/survey-mask-h200-x2/survey-mask.json"]

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


def machine(path, data, survey):
    """What the vectors of a survey have in common."""
    facts = survey["machine"]
    if survey["provenance"] != "measured" or not survey["complete"]:
        raise SystemExit(f"{path}: not a complete survey of a real driver")
    return {
        "gpus": [{"uuid": gpu["uuid"], "name": gpu["name"]} for gpu in facts["gpus"]],
        "mig": any(gpu["mig"] for gpu in facts["gpus"]),
        "driver_version": facts["driver_version"],
        "date": survey["survey"]["started_at"][:10],
        "evidence": {"path": path, "sha256": hashlib.sha256(data).hexdigest()},
    }


def vectors(index, survey):
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


def document():
    """The text of the file: a line for each machine and each vector, so that a change can be read."""
    machines, rows = [], []
    for path in EVIDENCE:
        data = (ROOT / path).read_bytes()
        survey = json.loads(data)
        rows.extend(vectors(len(machines), survey))
        machines.append(machine(path, data, survey))

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
