"""Compares a parser's answers with what the driver did, and counts. Pure: no file, clock or process."""

import re

_UUID = "GPU-[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?"
_PLAIN = re.compile(f"|-1|[0-9]{{1,2}}(,[0-9]{{1,2}})*|{_UUID}(,{_UUID})*")

#: What is counted, in the order of the table. `asked` is the sum of the first four.
OUTCOMES = ("agreed", "contradictions", "crashes", "refused", "not_asked")


def judged(compared, vector, answer):
    """The outcome of one answer, and the kind of difference in words; the kind is None where it agrees."""
    what, value = answer
    shown, status = vector["gpus"], vector["status"]
    if what == "not asked":
        return "not_asked", value
    if what == "raised":
        # Where `cuInit` fails too, an exception is no contradiction, and no answer either.
        error = value.split(":")[0]
        return ("crashes", f"raises `{error}`") if shown else ("refused", f"raises `{error}`")
    if compared == "count":
        if value == len(shown):
            return "agreed", None
        if not shown:
            return "contradictions", f"counts GPUs although `cuInit` returns `{status}`"
        return "contradictions", f"counts {'more' if value > len(shown) else 'fewer'} GPUs than are visible"
    if compared == "ordinals":
        return ("agreed", None) if value == shown else ("contradictions", "maps a CUDA ordinal to the wrong GPU")
    same = sorted(set(value)) == sorted(shown)
    if value == shown or (compared == "set" and same):
        return "agreed", None
    if not shown:
        return "contradictions", f"lists GPUs although `cuInit` returns `{status}`"
    if not value:
        return "contradictions", "lists no GPU although some are visible"
    if same:
        order = len(value) == len(shown)
        return "contradictions", "lists the visible GPUs in a different order" if order else "lists a GPU twice"
    if set(value) > set(shown):
        return "contradictions", "also lists GPUs that are not visible"
    if set(value) < set(shown):
        return "contradictions", "omits visible GPUs"
    return "contradictions", "lists GPUs that are not visible and omits visible ones"


def spelling(mask):
    """Which grammar a mask is of: the driver goes by the first entry."""
    if mask is None:
        return "no mask"
    return "UUIDs" if mask.startswith(("GPU-", "MIG-")) else "numbers"


def plain(mask):
    """Whether a value is spelt as documentation spells it: small numbers, or UUIDs whole or by eight digits."""
    return mask is None or _PLAIN.fullmatch(mask) is not None


def counted(question, vectors):
    """A question with its answers replaced by counts, and by the kinds of what did not agree, each with an example.

    The example is the first plain value, else the first that somebody chose, else the shortest generated one.
    """
    counts, kinds = dict.fromkeys(OUTCOMES, 0), {}
    for vector, answer in zip(vectors, question["answers"], strict=True):
        outcome, kind = judged(question["compared"], vector, answer)
        counts[outcome] += 1
        if kind is None:
            continue
        mask = vector["mask"]
        rank = (0, 0) if plain(mask) else (2, len(mask)) if vector["group"] == "Generated" else (1, 0)
        # Why a vector was not asked does not depend on its spelling.
        key = (outcome, kind, "" if outcome == "not_asked" else spelling(mask))
        known = kinds.setdefault(key, {"count": 0, "rank": rank})
        known["count"] += 1
        if "mask" not in known or rank < known["rank"]:
            known.update(rank=rank, mask=mask, order=vector["order"], note=vector["note"], status=vector["status"])
            known.update(machine=vector["machine"], gpus=vector["gpus"], answer=answer[1])
    listed = [
        {"outcome": outcome, "kind": kind, "spelling": spelt, **{k: v for k, v in known.items() if k != "rank"}}
        for (outcome, kind, spelt), known in kinds.items()
    ]
    listed.sort(key=lambda one: (OUTCOMES.index(one["outcome"]), -one["count"], one["kind"], one["spelling"]))
    return {**{k: v for k, v in question.items() if k != "answers"}, "counts": counts, "kinds": listed}
