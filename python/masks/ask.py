"""Asks one project's parser about every vector, in the process and environment of that project.

    python ask.py ADAPTER.py < VECTORS > ANSWERS

VECTORS is JSON: the UUIDs of one machine, and vectors as lists of the mask, the status and the GPUs. ANSWERS is JSON:
for each question the file that was asked, and for each vector `["answer", value]`, `["raised", text]` or
`["not asked", reason]`.
"""

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import support

#: The parsers read the mask alone. With an unknown order the driver starts for no mask.
ORDERS = (None, "PCI_BUS_ID", "FASTEST_FIRST")


def answer(question, vector):
    if vector.order not in ORDERS:
        return ["not asked", "`CUDA_DEVICE_ORDER` has an unknown value, and the function does not read this variable"]
    if question.compared == "ordinals" and not vector.gpus:
        return ["not asked", "no GPU is visible, so CUDA has no device ordinals"]
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if vector.mask is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = vector.mask
    try:
        value = question.ask(vector)
        return ["answer", value if question.compared == "count" else list(value)]
    except support.NotAsked as reason:
        return ["not asked", str(reason)]
    except Exception as error:  # What a parser raises is an observation.
        return ["raised", f"{type(error).__name__}: {error}"]


def main():
    adapter, asked = Path(sys.argv[1]), json.load(sys.stdin)
    # Its name is not the project's, which it imports.
    spec = importlib.util.spec_from_file_location(f"adapter_{adapter.stem}", adapter)
    module = importlib.util.module_from_spec(spec)
    vectors = [SimpleNamespace(**vector) for vector in asked["vectors"]]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr):
        spec.loader.exec_module(module)
        module.setup(asked["uuids"])
        questions = []
        for question in module.QUESTIONS:
            # It is printed for others to run: at least it has to be Python.
            compile(question.line, question.call, "exec")
            source = Path(question.module.__file__)
            package = next(path for path in sys.path if path and source.is_relative_to(path))
            questions.append(
                {
                    "call": question.call,
                    "compared": question.compared,
                    "claim": question.claim,
                    "line": question.line,
                    "file": str(source.relative_to(package)),
                    "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
                    "answers": [answer(question, vector) for vector in vectors],
                }
            )
    # After the project's name: what of it is loaded, and what is replaced.
    how = " ".join(module.__doc__.split()).partition(". ")[2]
    json.dump({"means": module.MEANS, "how": how, "python": sys.version.split()[0], "questions": questions}, sys.stdout)


if __name__ == "__main__":
    main()
