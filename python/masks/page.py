"""Writes docs/mask-vectors.md, and the table that conformance.py prints, from results. Pure."""

from judge import OUTCOMES, plain

HEAD = """\
<!-- Made by `python3 python/masks/conformance.py --from python/masks/results.json --out docs/mask-vectors.md`. -->
# Measured masks, for your own tests

A project that parses `CUDA_VISIBLE_DEVICES` itself must agree with the driver, whose [rules are surprising](surveys/mask.md). `mask_vectors.json` contains {vectors} test vectors. Each has a value, the GPUs of a machine, and the measured result of a real driver with that value on that machine. None of the results are predictions. The file is part of the wheel, and using it requires no GPU.

Measured on:

{machines}

## In your test suite

Install [the wheel](install.md), then:

```python
from cuda_pitfalls import mask

for vector in mask.vectors():
    if vector.order in (None, "PCI_BUS_ID", "FASTEST_FIRST"):
        assert your_parser(vector.mask, vector.devices) == list(vector.gpus), vector
```

A test checks that `mask.parse`, this project's own parser, agrees with every vector. To skip values that your parser does not support, filter by `vector.group`.

## The format

`python/cuda_pitfalls/mask_vectors.json` is JSON with one line for each machine and each vector. `mask.vectors()` returns the vectors as named tuples that include the machine's fields.

| key | value |
| --- | --- |
| `schema` | `name` (`mask-vectors`), `major`, `minor`. Within a major version, no key is removed or changes its meaning |
| `machines[]` | `gpus[]` (`uuid`, `name`), in NVML's order; `mig`: true if MIG was enabled; `driver_version`; `date`; `evidence`: the `path` and `sha256` of the survey or report in this repository |
| `vectors[].machine` | the index of the machine in `machines` |
| `vectors[].mask` | the value of `CUDA_VISIBLE_DEVICES`; null if it was not set |
| `vectors[].order` | the value of `CUDA_DEVICE_ORDER`; null if it was not set |
| `vectors[].status` | the result of `cuInit`, by its C name |
| `vectors[].gpus` | the visible GPUs in CUDA's order, as indices into `machines[].gpus`; empty unless `cuInit` succeeded |
| `vectors[].group`, `note` | the kind of value, and the reason for testing it: a group of [surveys/mask.md](surveys/mask.md); `Generated`, without a note; or the scenario that tested it, from [pitfalls/visibility](pitfalls/README.md) |
| `vectors[].attempts` | the number of fresh processes that tested the value; all had the same result |

If a survey tested a value twice, with two notes, the file contains two vectors. UUIDs in a value belong to the machine of the vector. To test your own machine, run `cuda-pitfalls survey mask`.

Not covered: more than four GPUs, different GPU models in one machine, UUIDs with a common prefix, enabled MIG, and other drivers.

## Results of released parsers

Tested on {date}, without a GPU. Each function was called as released, in its own environment. Instead of NVML, it read a table with the UUIDs of the machine on which the value was measured. The table's `nvmlDeviceGetHandleByUUID` behaves [as measured](pitfalls/visibility/nvml-wants-the-whole-uuid.md): it finds a complete UUID, but not a truncated one or one without the prefix `GPU-` or `MIG-`. One example of each was measured. Only the driver's own results were measured on a GPU.

{table}

- **agreed**: the function found the same GPUs, count or index as the driver.
- **contradictions**: the function returned a different result.
- **crashes**: the function raised an exception although GPUs are visible to the driver.
- **rejected**: the function raised an exception, and `cuInit` failed too.
- **not tested**: the function does not claim to handle the value. The section of each project gives the reason.
- **form**: `UUIDs` if the value begins with `GPU-` or `MIG-`, otherwise `numbers`.

Many values are rare, and some were generated. These numbers show how a parser differs, not how often that matters. To repeat the test, run `python3 python/masks/conformance.py`. [python/masks/projects.toml](../python/masks/projects.toml) lists the releases. To add a project, add it there and add an adapter to [python/masks/adapters](../python/masks/adapters), which defines what is called and what is replaced.
"""

#: The words of the page for outcomes.
NAMES = {outcome: outcome for outcome in OUTCOMES} | {"refused": "rejected", "not_asked": "not tested"}


def version(project):
    return project["requires"][0].split("==")[1]


def table(results, plain=False):
    """Returns the counts of each function, as Markdown or in columns."""
    head = ["project", "version", "function", "tested", *(NAMES[outcome] for outcome in OUTCOMES)]
    rows = []
    for project in results["projects"]:
        if project["error"]:
            rows.append([project["title"], version(project), "could not be tested", *["–"] * 6])
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


#: The default title of an issue.
ISSUE = "Some values of CUDA_VISIBLE_DEVICES are read differently from the driver"

#: The page abbreviates longer values.
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
    """Returns the driver's result, and the number of GPUs of the machine."""
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
    """Returns a project's differences, their meaning, and the text of an issue."""
    lines = [f"### {project['title']}", ""]
    if project["error"]:
        return [*lines, f"{project['requires'][0]} could not be tested: {project['error']}", ""]
    lines += [project["means"], "", f"Test setup: {project['how']}", ""]
    for question in project["questions"]:
        lines += [f"**{code(question['call'])}** in `{question['file']}`. {question['claim']}", ""]
        if differs(question):
            lines.append("| difference | form | vectors | example | driver (machine) | function |")
            lines.append("| --- | --- | --: | --- | --- | --- |")
            for one in differs(question):
                cells = [one["kind"], one["spelling"], str(one["count"]), code(value(one))]
                cells += [driver(question, one, document), answered(question, one)]
                lines.append("| " + " | ".join(cells) + " |")
        else:
            lines.append("No difference.")
        others = [one for one in question["kinds"] if one["outcome"] in ("refused", "not_asked")]
        refused = sum(one["count"] for one in others if one["outcome"] == "refused")
        parts = [f"{one['count']} ({one['kind']})" for one in others if one["outcome"] == "not_asked"]
        if refused:
            lines += ["", f"Rejected, and `cuInit` failed too: {refused}."]
        if parts:
            lines += ["", "Not tested: " + "; ".join(parts) + "."]
        lines.append("")
    return lines + issue(project, results, document)


def issue(project, results, document):
    """Returns the text of an issue for the project."""
    asked = [question for question in project["questions"] if differs(question)]
    if not asked:
        return []
    vectors, machines = document["vectors"], document["machines"]
    kinds = sorted({f"{len(machine['gpus'])}× {machine['gpus'][0]['name']}" for machine in machines})
    drivers = sorted({machine["driver_version"] for machine in machines})
    kind = f"{', '.join(kinds)}; driver {', '.join(drivers)}; {min(dates(machines))} to {max(dates(machines))}"
    text = [f"Text for an issue in {project['repository']}:", "", "~~~markdown"]
    text += [f"**{project['issue']}**", ""]
    text += [
        f"We measured how the driver handles values of `CUDA_VISIBLE_DEVICES`, for {len(vectors)} pairs of a value and "
        f"a machine ({kind}). On {results['date']}, we tested {project['requires'][0].replace('==', ' ')} with them, "
        f"without a GPU. A table with the machine's UUIDs replaced NVML and nvidia-smi. {project['how']}",
        "",
    ]
    for question in asked:
        counts = question["counts"]
        total = sum(counts[outcome] for outcome in OUTCOMES if outcome != "not_asked")
        tested = f"`{question['call']}` was tested with {total} of these values."
        text += [f"{tested} For {counts['agreed']}, it agrees with the driver. The main differences:", ""]
        # Stable: contradictions stay before crashes, and the frequent before the rare.
        shown = sorted(filter(short, differs(question)), key=lambda one: not plain(one["mask"]))[:4]
        for one in shown:
            has = driver(question, one, document)
            text.append(
                f"- It {one['kind']} ({one['count']} values, {one['spelling']}). Example: {code(value(one))}. "
                f"Driver: {has}. Function: {answered(question, one)}."
            )
        first = shown[0]
        set_to = "env -u CUDA_VISIBLE_DEVICES" if first["mask"] is None else value(first)
        lines = [f"{set_to} python -c '{DRIVER_LINE}'", f"{set_to} python -c {shell(question['line'])}"]
        text += ["", COMPARE, ""]
        text += ["```sh", *lines, "```", ""]
    text += [
        "These exact commands were not run. Many of the values are unusual. A list of the supported values in the "
        "documentation would also help. `mask_vectors.json` in the Python package cuda-pitfalls contains all values and "
        "the driver's results.",
    ]
    if project["threads"]:
        text += ["", f"Related: {', '.join(project['threads'])}."]
    return [*text, "~~~", ""]


COMPARE = (
    "To compare on a machine with GPUs, print the result of `cuInit` and the number of visible GPUs, then call this "
    "function:"
)
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
    lines += ["## Other projects", "", "Reviewed, but not tested:", ""]
    lines += [f"- {one['project']} {one['reason']}." for one in left_out]
    return "\n".join(lines) + "\n"
