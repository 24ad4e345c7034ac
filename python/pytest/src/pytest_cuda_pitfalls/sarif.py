"""What the traces of a run found, as one document of SARIF 2.1.0."""

import json
import os
from typing import Any, Dict, List

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def merged(documents: List[Dict[str, Any]]) -> Dict[str, Any]:
    """One run with the rules and results of all, each once; a run without results if there is none."""
    rules: Dict[str, Any] = {}
    results: List[Any] = []
    for run in (run for document in documents for run in document["runs"]):
        for rule in run["tool"]["driver"].get("rules", []):
            rules.setdefault(rule["id"], rule)
        for result in run.get("results", []):
            # It stands for the rule by its place in a list that is another here.
            result = {name: value for name, value in result.items() if name != "ruleIndex"}
            if result not in results:
                results.append(result)
    first = documents[0]["runs"][0] if documents else {"tool": {"driver": {"name": "cuda-pitfalls"}}}
    driver = {**first["tool"]["driver"], "rules": list(rules.values())}
    run = {**first, "tool": {**first["tool"], "driver": driver}, "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def write(path: str, documents: List[Dict[str, Any]]) -> None:
    """Writes the document; an empty one says that nothing was found. Somebody else may have put a link there: it is not
    followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o666), "w") as into:
        json.dump(merged(documents), into, indent=2)
        into.write("\n")
