"""Writes docs/mask-vectors.md, and the table that conformance.py prints, from results. Pure."""

from judge import OUTCOMES, plain

HEAD = """\
<!-- Made by `python3 python/masks/conformance.py --from python/masks/results.json --out docs/mask-vectors.md`. -->
# Measured masks, for your own tests

A project that parses `CUDA_VISIBLE_DEVICES` itself has to agree with the driver, which reads it by [rules that surprise](surveys/mask.md). `mask_vectors.json` has {vectors} vectors: a value, the GPUs of a machine, and what a real driver did with the value there. It is part of the wheel, and needs no GPU to be used. Nothing in it was predicted.

Measured on:

{machines}

## In your test suite

`pip install cuda-pitfalls`, then:

```python
from cuda_pitfalls import mask

for vector in mask.vectors():
    if vector.order in (None, "PCI_BUS_ID", "FASTEST_FIRST"):
        assert your_parser(vector.mask, vector.devices) == list(vector.gpus), vector
```

`mask.parse`, the rule of this project, agrees with each vector; a test checks that. A parser that need not know a value may skip it by `vector.group`.

## The format

`python/cuda_pitfalls/mask_vectors.json` is JSON with a line for each machine and each vector. `mask.vectors()` gives the vectors as named tuples, with the machine's fields filled in.

| key | is |
| --- | --- |
| `schema` | `name` (`mask-vectors`), `major`, `minor`. Within a major version no key is removed and none changes its meaning |
| `machines[]` | `gpus[]` (`uuid`, `name`), in NVML's order; `mig`: whether MIG was on; `driver_version`; `date`; `evidence`: the `path` and `sha256` of the survey or report in this repository |
| `vectors[].machine` | the index of the machine in `machines` |
| `vectors[].mask` | the value of `CUDA_VISIBLE_DEVICES`; null where it was not set |
| `vectors[].order` | the value of `CUDA_DEVICE_ORDER`; null where it was not set |
| `vectors[].status` | what `cuInit` returned, by its C name |
| `vectors[].gpus` | the visible GPUs in the order in which CUDA numbered them, as indices into `machines[].gpus`; empty unless `cuInit` succeeded |
| `vectors[].group`, `note` | which sort of value it is and why it was asked: the groups of [surveys/mask.md](surveys/mask.md); `Generated`, without a note; or the scenario that asked it, below [pitfalls/visibility](pitfalls/README.md) |
| `vectors[].attempts` | how many fresh processes were asked; all gave this answer |

A value that a survey asked twice, under two notes, is two vectors. UUIDs in a value are those of the machine. To ask about your own machine: `cuda-pitfalls survey mask`.

What is not in it: more than four GPUs, GPUs of different kinds in one machine, UUIDs that begin alike, MIG that is on, and other drivers.

## Released parsers, held against it

Asked on {date}, without a GPU. Each function was called as released, in an environment of its own; what it asks of NVML was answered by a table of the UUIDs of the machine that the value was measured on. `nvmlDeviceGetHandleByUUID` answers there [as it was measured](pitfalls/visibility/nvml-wants-the-whole-uuid.md): a whole UUID is found, and what is cut short or begins with neither `GPU-` nor `MIG-` is not, of which one example each was asked. Nothing here was run on a GPU beside the driver's own answers.

{table}

- **agreed**: the same GPUs, number or index as the driver's.
- **contradictions**: another answer.
- **crashes**: an exception, where the driver shows GPUs.
- **refused**: an exception, where `cuInit` fails too.
- **not asked**: the function does not claim an answer; each project's section says why.

Many values are rare, and some were generated: these numbers say how a parser differs, not how often it matters. `python3 python/masks/conformance.py` asks again; [python/masks/projects.toml](../python/masks/projects.toml) has the releases. To add a project, give it lines there and an adapter in [python/masks/adapters](../python/masks/adapters), which says what of the project is called and what is replaced.
"""

NAMES = {outcome: outcome.replace("_", " ") for outcome in OUTCOMES}


def version(project):
    return project["requires"][0].split("==")[1]


def table(results, plain=False):
    """The counts of each question, as Markdown or in columns."""
    head = ["project", "version", "function", "asked", *(NAMES[outcome] for outcome in OUTCOMES)]
    rows = []
    for project in results["projects"]:
        if project["error"]:
            rows.append([project["title"], version(project), "could not be asked", *["–"] * 6])
        for question in project["questions"]:
            counts = question["counts"]
            asked = sum(counts[outcome] for outcome in OUTCOMES if outcome != "not_asked")
            call = question["call"] if plain else code(question["call"])
            title = project["title"] if plain else f"[{project['title']}](#{anchor(project)})"
            rows.append([title, version(project), call, asked, *(counts[outcome] for outcome in OUTCOMES)])
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    if not plain:
        rows.insert(1, ["---"] * 3 + ["--:"] * 6)
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def anchor(project):
    return project["title"].lower().replace(" ", "-")


def code(text):
    """Text as a code span in a table."""
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def quoted(mask):
    """A mask as a word of bash, in printable ASCII."""
    if all(" " <= character <= "~" and character != "'" for character in mask):
        return f"'{mask}'"
    out = ""
    for byte in mask.encode():
        character = chr(byte)
        out += character if " " <= character <= "~" and character not in "\\'" else f"\\x{byte:02x}"
    return f"$'{out}'"


#: The title of a text for a tracker.
ISSUE = "Some values of CUDA_VISIBLE_DEVICES are read differently from the driver"

#: A longer value is described; the vectors have it.
LONGEST = 130


def value(one):
    """The variable of an example, as it is set in bash."""
    if one["mask"] is None:
        return "CUDA_VISIBLE_DEVICES not set"
    if not short(one):
        return f"CUDA_VISIBLE_DEVICES={quoted(one['mask'][:24])}… ({len(one['mask'].encode())} bytes)"
    return f"CUDA_VISIBLE_DEVICES={quoted(one['mask'])}"


def short(one):
    return len(one["mask"] or "") <= LONGEST


def gpus(indices):
    return "GPU " + ", ".join(map(str, indices)) if indices else "no GPU"


def driver(question, one, document):
    """What the driver did, and of how many GPUs."""
    total = len(document["machines"][one["machine"]]["gpus"])
    if not one["gpus"]:
        return f"`{one['status']}` ({total} GPU{'s' * (total > 1)})"
    shown = str(len(one["gpus"])) if question["compared"] == "count" else gpus(one["gpus"])
    return f"{shown} ({total} GPU{'s' * (total > 1)})"


def answered(question, one):
    if one["outcome"] in ("crashes", "refused"):
        return code(one["answer"])
    return str(one["answer"]) if question["compared"] == "count" else gpus(one["answer"])


def differs(question):
    return [one for one in question["kinds"] if one["outcome"] in ("contradictions", "crashes")]


def section(project, results, document):
    """A project's differences, what they mean, and a text for its tracker."""
    lines = [f"### {project['title']}", ""]
    if project["error"]:
        return [*lines, f"{project['requires'][0]} could not be asked: {project['error']}", ""]
    lines += [f"{project['means']} How it was asked: {project['how']}", ""]
    for question in project["questions"]:
        lines += [f"**{code(question['call'])}** in `{question['file']}`. {question['claim']}", ""]
        if differs(question):
            lines += ["| difference | vectors | example | driver (on) | parser |", "| --- | --: | --- | --- | --- |"]
            for one in differs(question):
                cells = [f"{one['kind']} ({one['spelling']})", str(one["count"]), code(value(one))]
                lines.append("| " + " | ".join([*cells, driver(question, one, document), answered(question, one)]) + " |")
        else:
            lines.append("No difference.")
        others = [one for one in question["kinds"] if one["outcome"] in ("refused", "not_asked")]
        refused = sum(one["count"] for one in others if one["outcome"] == "refused")
        parts = [f"{one['count']}: {one['kind']}" for one in others if one["outcome"] == "not_asked"]
        if refused:
            lines += ["", f"Refused, as by `cuInit`: {refused}."]
        if parts:
            lines += ["", "Not asked: " + "; ".join(parts) + "."]
        lines.append("")
    return lines + issue(project, results, document)


def issue(project, results, document):
    """The text to paste into the project's tracker."""
    asked = [question for question in project["questions"] if differs(question)]
    if not asked:
        return []
    vectors, machines = document["vectors"], document["machines"]
    kinds = sorted({f"{len(machine['gpus'])}× {machine['gpus'][0]['name']}" for machine in machines})
    drivers = sorted({machine["driver_version"] for machine in machines})
    kind = f"{', '.join(kinds)}; driver {', '.join(drivers)}; {min(dates(machines))} to {max(dates(machines))}"
    text = [f"To paste into the tracker of {project['repository']}:", "", "~~~markdown"]
    text += [f"**{project['issue']}**", ""]
    text += [
        f"We measured what the driver does with a value of `CUDA_VISIBLE_DEVICES` for {len(vectors)} pairs of a value "
        f"and a machine ({kind}), and asked {project['requires'][0].replace('==', ' ')} about them, on "
        f"{results['date']} and without a GPU: what it asks of NVML or nvidia-smi was answered by a table of the UUIDs "
        f"of the machine. {project['how']}",
        "",
    ]
    for question in asked:
        counts = question["counts"]
        total = sum(counts[outcome] for outcome in OUTCOMES if outcome != "not_asked")
        asked_of = f"`{question['call']}` was asked about {total} of them and agrees for {counts['agreed']}."
        text += [f"{asked_of} Mostly it differs so:", ""]
        # Stable: contradictions stay before crashes, and the frequent before the rare.
        shown = sorted(filter(short, differs(question)), key=lambda one: not plain(one["mask"]))[:4]
        for one in shown:
            has = driver(question, one, document)
            text.append(
                f"- {code(value(one))}: driver: {has}; this function: {answered(question, one)}. "
                f"{one['count']} of them: {one['kind']} ({one['spelling']})."
            )
        first = shown[0]
        set_to = "env -u CUDA_VISIBLE_DEVICES" if first["mask"] is None else value(first)
        lines = [f"{set_to} python -c '{DRIVER_LINE}'", f"{set_to} python -c {shell(question['line'])}"]
        text += ["", "To compare, with GPUs: what `cuInit` returns and how many are visible, then this function.", ""]
        text += ["```sh", *lines, "```", ""]
    text += [
        "These lines were not run as they stand. Many of the values are unusual. It would help as well if the "
        "documentation said which are supported. All values, with what the driver did: `mask_vectors.json` in the "
        "Python package cuda-pitfalls.",
    ]
    if project["threads"]:
        text += ["", f"Related: {', '.join(project['threads'])}."]
    return [*text, "~~~", ""]


DRIVER_LINE = (
    'import ctypes; c = ctypes.CDLL("libcuda.so.1"); n = ctypes.c_int(0); '
    "r = c.cuInit(0); c.cuDeviceGetCount(ctypes.byref(n)); print(r, n.value)"
)


def dates(machines):
    return [machine["date"] for machine in machines]


def shell(line):
    return f'"{line}"' if "'" in line else f"'{line}'"


def written(results, document, left_out):
    """The page."""
    machines = document["machines"]
    rows = ["| machine | driver | MIG | date | vectors | evidence |", "| --- | --- | --- | --- | --: | --- |"]
    for index, machine in enumerate(machines):
        count = sum(vector["machine"] == index for vector in document["vectors"])
        path = machine["evidence"]["path"]
        cells = [f"{len(machine['gpus'])}× {machine['gpus'][0]['name']}", machine["driver_version"]]
        cells += ["on" if machine["mig"] else "off", machine["date"], str(count), f"[{path}](../{path}.zst)"]
        rows.append("| " + " | ".join(cells) + " |")
    text = HEAD.format(
        vectors=len(document["vectors"]), machines="\n".join(rows), date=results["date"], table=table(results)
    )
    lines = [text]
    for project in results["projects"]:
        lines += section(project, results, document)
    lines += ["## Looked at, and not asked", ""]
    lines += [f"- {one['project']}: {one['reason']}." for one in left_out]
    return "\n".join(lines) + "\n"
