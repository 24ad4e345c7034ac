#!/usr/bin/env python3
"""Counts phrases that a reader of English has to read twice, by area; `tests/repository.rs` holds the counts.

    python3 tests/language.py                      # one line per area: its name and its count
    python3 tests/language.py output src/render    # the places of one area, optionally below a path

Areas: `output` (string literals of src, and comments that clap prints as help), `docs` (README.md and docs/*.md without
code), `scenarios` (texts of scenarios/**/*.toml), `comments` (doc comments of Rust). No hit proves nothing: the patterns
find habits, and a sentence can be bad without one.
"""
import glob
import os
import re
import sys

# Name, areas (first letters), pattern, what to write instead.
PATTERNS = [
    ("no-noun", "odsc", r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|more\b|need|way|such|less|doubt|better|worse|problem|guarantee|point|use\b)", "is not a / is not an / has no"),
    ("none-pronoun", "odsc", r"(?<![Tt]here )\b(?:is|are|was|were|be) none\b", "say what it is not; `None` for an Option"),
    ("there-is-none", "odsc", r"\b[Tt]here (?:is|are|was|were|may be) none\b", "if it does not exist / if there isn't one"),
    ("verb-none", "odsc", r"\b(?:has|have|had|needs?|takes?|makes?|gets?|finds?|leaves?|lists?|shows?|names?|gives?|holds?) none\b", "does not have one / reports no GPUs"),
    ("takes-nothing", "odsc", r"\btakes? nothing\b", "allocates nothing / uses no memory"),
    ("nor-inversion", "odsc", r"(?:^|[.;:,] )[Nn]or (?:do|does|did|is|are|was|were|has|have|can|will)\b", "... does not either; or two sentences"),
    ("of-which", "odsc", r"\bof (?:which|whom|whose)\b", "split the sentence; whose / one of the"),
    ("whose-noun", "odsc", r'(?:^|[^\w])[Ww]hose (?:the|every|each|a|it|memory|GPUs)\b|\"Whose\"', "owner / memory by owner / belongs to"),
    ("so-many", "odsc", r"\bso (?:many|much)\b", "N / that many / this number of"),
    ("names-gpu", "odsc", r"\bnam(?:e|es|ed|ing) (?:no|a|the|one|another|every|that) (?:GPU|device)s?\b|\bnames GPU\b", "refers to / is not a valid GPU / lists"),
    ("settles", "odsc", r"\b(?:no|nothing|what|which|whatever|value|message|error|name|attempt)\b[^.;]{0,40}\bsettles?\b", "decides / determines; No exact match"),
    ("beside", "odsc", r"\bbeside\b", "next to / alongside / in addition to / while ... is running"),
    ("stands", "odsc", r"\bstands?\b(?! for\b| alone\b| still\b|-)", "is / is listed / appears"),
    ("is-said", "odsc", r"\b(?:is|are|was|were|be) (?:said|told|heard|spoken)\b", "is reported / documented / the report shows"),
    ("is-asked", "odsc", r"\b(?:is|are|was|were|be|been) asked\b", "is queried / tested / measured / requested"),
    ("ask-thing", "odsc", r"\b[Aa]sk(?:s|ed|ing)? (?:it|itself|here|every|each|this|that|the|a|NVML|CUDA|PyTorch|libcuda)\b(?! user)", "query / run on / test / call"),
    ("asked-cond", "odsc", r"\b[Aa]sked (?:without|with|by|here|again|beside)\b", "measured on a machine without / run by / requested"),
    ("make-context", "odsc", r"\b(?:mak(?:e|es|ing)|made) (?:a|an|no|one|its|the|each|another|their|that)(?: \w+)? contexts?\b|\bcontexts? (?:that )?(?:is|are|was|were) made\b|\bmakes? one\b", "create a context (the driver API's word)"),
    ("goes-on", "odsc", r"\b(?:go|goes|went|going) on\b", "continues / falls back to the CPU"),
    ("charge", "odsc", r"\bcharg(?:e|es|ed)\b", "NVML reports N MiB for the process / is attributed to"),
    ("anew", "odsc", r"\banew\b", "again / regenerate"),
    ("but-for", "odsc", r"\bbut for\b", "except for"),
    ("in-force", "odsc", r"\bin force\b", "in effect / current"),
    ("for-good", "odsc", r"\bfor good\b", "permanently / once"),
    ("whoever", "odsc", r"\b(?:[Ww]hoever|whom|[Ww]ho (?:reads|looks|asks|wants))\b", "the user / the reader / name the role"),
    ("handed-on", "odsc", r"\bhand(?:s|ed|ing)? (?:it |them |\w+ )?on\b", "pass to / share / forward"),
    ("to-tell", "odsc", r"\bcannot be told\b|\b[Tt]o tell\b|\btold (?:apart|by|of)\b|\btells? (?:of|apart|which|whose)\b", "How to check: / cannot be determined / distinguish"),
    ("read-not-measured", "odsc", r"\bread, not measured\b", "source (not reproduced)"),
    ("no-evidence", "odsc", r"\bno evidence\b", "simulated results say nothing about real hardware"),
    ("is-another", "odsc", r"\b(?:is|are|be|was|were|becomes?) (?:another(?: one)?|others)\b(?=[.,;:)]| than| and|$)", "differs / has changed"),
    ("fronted-of", "odsc", r"(?:^|[.;:] )Of (?!course)[a-z0-9`'\[]", "subject first: N of M ... / among"),
    ("per-line", "odsc", r"\b(?:a|one) \w+ a (?:line|file|machine|row)\b|\bone a (?:line|file)\b|\b\w+ in a line\b", "one report per line"),
    ("fragment-doc", "c", r"^(?:One|Those|That|None|Nothing|Of|As|So|Nor|Not|And|But|It|Then|These|They) (?!or |way)", "say what the item is"),
    ("dangling-and", "s", r"^(?:and|but|nor|so|or|then|yet) ", "a complete clause: subject + verb"),
    ("heading-clause", "od", r"^(?:What|Where|How|Who|Whose) (?:is|it|are|was|were|counts|comes|takes|a|the|this)\b[^?.{]{0,32}$", "noun heading: Output, Target, Pass/fail, Memory by owner"),
    ("british", "odsc", r"(?i)\b\w*(?:initialis|synchronis|recognis|organis|serialis|normalis|optimis|summaris|minimis|finalis|uninitialis|behaviour|colour|licence|cancelled|labelled|unlabelled|spelt|grey\b|centre|catalogue|analys(?:e|ed|es|ing)\b)\w*", "American: initialize, behavior, color, license, canceled, labeled, spelled"),
    ("blank", "odsc", r"\bblanks?\b", "space / whitespace / empty"),
    ("is-looked", "odsc", r"\b(?:is|are|was|were|be) looked (?:at|up|for)\b", "is checked / inspected / read"),
    ("what-comes", "odsc", r"\bwhat (?:comes?|came|stands?|follows|becomes|became|begins|belongs|holds)\b", "name the thing"),
    ("is-that-of", "odsc", r"\b(?:is|are|was|were) (?:that|those) of\b", "is the driver's / matches / comes from"),
    ("refused", "odsc", r"\b(?:is|are|was|were|be) refused\b|\brefus(?:es|ed) (?:it|something|them|the child|to the|the limit)\b", "denied (files, syscalls); fails with / returns (calls); rejected (input)"),
    ("comes-with-program", "odsc", r"\bcomes? with (?:the|this) program\b", "built in"),
    ("also-even", "odsc", r", also (?:if|as|when|on|where|in|for|the|one|without|after|before|with|to|by|that)\b|\balso (?:as|if|where|when) ", "even if / even when"),
    ("germanic-of", "odsc", r"\b(?:GPUs?|calls?|lines?|handles?|arrays?|tensors?|releases?|kernels?|librar(?:y|ies)|functions?|builds?|errors?|processes|questions?|version|blocks?|code|streams?|packages?) of (?:NVIDIA|PyTorch|CUDA|CuPy|Python|cuBLAS|cuDNN|NCCL|JAX|libcuda|libcudart|NVML|Numba|cuInit|the distribution|frameworks|a framework)\b", "compound noun: NVIDIA GPU, CUDA call, cuBLAS handle"),
    ("by-tool", "odsc", r"\b(?:[Cc]ount|[Aa]sk|[Rr]ead|[Cc]hoose\w*|folder|done|measured?|found|start\w*|named?|choosing) (?:\w+ ){0,2}by (?:--?\w|NVML\b|uv\b|exec\b)", "with / using"),
    ("the-like", "odsc", r"\b(?:and|or) (?:its|their|the) like\b", "and similar / such as"),
    ("silent-thing", "odsc", r"\bno (?:error|call|message|name|document|list|driver|process list|status|warning)s? (?:says?|tells?|shows?|settles?|warns?)\b|\bwithout a word\b|\bnothing (?:says|tells|warns|notes)\b|\bno call says so\b", "without any error / silently"),
    ("no-harm", "odsc", r"\bdo(?:es)? no harm\b", "is harmless / has no effect"),
    ("mask-means", "odsc", r"\b(?:mask|UUID|number|index|ordinal|entry|token|prefix|device \d)s? (?:means?|meant)\b", "refers to / selects / maps to"),
    ("nothing-but", "odsc", r"\bnothing but\b", "only"),
    ("of-a-kind", "odsc", r"\bof one (?:kind|model|question|meaning)\b|\bnot of (?:one|the same)\b", "of the same kind"),
    ("rooms", "odsc", r"\b(?:rooms?|lanes?) (?:uses?|of|that|has|have|is|are|above|below)\b|\bNo room\b|\beach room\b", "crate / module / worker"),
]
AT_START = {"fragment-doc", "dangling-and", "heading-clause"}
# Keys of scenario files whose values are code or names.
CODE = set("""steps python does_python code ask before needs expect env call calls id name names version package url sources
expect_when tags symptoms owner pattern args script setup run program match is where file command hash argument arguments
like""".split())
PROSE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}|[A-Za-z]{2,} \{|\} [a-z]{3,}")
CODE_LIKE = re.compile(r"^\s*(--|#include|fn |let |import|from \w+ import|def |with |for \w+ in )|;\s*\n")
STRING = re.compile(r'b?r(#*)"(.*?)"\1|"((?:[^"\\]|\\.)*)"|\'(?:\\[^\']*|[^\'\\])\'|//[^\n]*|/\*.*?\*/', re.S)
HELP = re.compile(r"\s*(#\[|[a-z_]+: [A-Z]|[A-Z]\w*(\(|,|\s*\{|$)|pub\([a-z]+\) [a-z_]+: |pub\([a-z]+\) (struct|enum))")


def is_prose(text):
    return len(text.split()) > 1 and PROSE.search(text) and not CODE_LIKE.search(text)


def files(folder, suffix):
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"target", ".git", "reports"})
        yield from (os.path.join(path, name) for name in sorted(names) if name.endswith(suffix))


def rust_texts(path, text):
    """Kind (`s` a literal, `d` a doc comment), line and text; the lines of one comment are one text."""
    comment = []
    for found in STRING.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        whole = found[0]
        if whole.startswith(("///", "//!")) and not whole.startswith("////"):
            if comment and comment[-1][0] + 1 != line:
                yield "d", comment[0][0], " ".join(part or "\u2029" for _, part in comment)
                comment = []
            comment.append((line, whole[3:].strip()))
            continue
        if comment:
            yield "d", comment[0][0], " ".join(part or "\u2029" for _, part in comment)
            comment = []
        literal = found[2] if found[2] is not None else found[3]
        if literal is not None:
            literal = re.sub(r"\\\n\s*", "", literal).replace("\\n", "\n").replace('\\"', '"')
            yield "s", line, literal
    if comment:
        yield "d", comment[0][0], " ".join(part or "\u2029" for _, part in comment)


def rust_areas():
    for folder in ("src", "xtask", "tests", "scenarios", "python"):
        for path in files(folder, ".rs"):
            text = open(path, encoding="utf-8").read()
            lines = text.split("\n")
            module = re.search(r"#\[cfg\(test\)\]\s*\n(\s*#\[[^\n]*\n)*\s*(pub(\([a-z]+\))? )?mod \w+ \{", text)
            tests = text.count("\n", 0, module.start()) + 1 if module else len(lines) + 1
            is_test = folder != "src" or "/tests/" in path or path.endswith("/tests.rs") or "/fixture" in path
            for kind, line, words in rust_texts(path, text):
                in_test = is_test or line >= tests
                if kind == "s":
                    if not in_test and is_prose(words):
                        yield "output", path, line, words
                    continue
                after = line - 1
                while after < len(lines) and lines[after].strip().startswith("///"):
                    after += 1
                is_help = "use clap" in text and after < len(lines) and HELP.match(lines[after])
                yield "output" if is_help and not in_test else "comments", path, line, words


def page_areas():
    for path in ["README.md", *sorted(glob.glob("docs/*.md"))]:
        fenced, paragraph, start = False, [], 0
        for line, text in enumerate([*open(path, encoding="utf-8").read().split("\n"), ""], 1):
            fence = text.lstrip().startswith("```")
            begins = re.match(r"\s*([-*]|\d+\.|#+) ", text)
            if paragraph and (fence or begins or not text.strip() or text.startswith("|")):
                yield "docs", path, start, " ".join(paragraph)
                paragraph = []
            fenced ^= fence
            if fenced or fence or text.startswith("<!--") or not text.strip():
                continue
            if text.startswith("|"):
                yield from (("docs", path, line, cell.strip()) for cell in text.strip("|").split("|") if is_prose(cell))
                continue
            start = start if paragraph else line
            paragraph.append(text[begins.end():] if begins else text.strip())


def scenario_areas():
    for path in files("scenarios", ".toml"):
        text = open(path, encoding="utf-8").read()
        for found in re.finditer(r'(?:(\w[\w-]*)\s*=\s*)?("""(.*?)"""|"((?:[^"\\\n]|\\.)*)")', text, re.S):
            words = found[3] or found[4] or ""
            if found[1] not in CODE and is_prose(words):
                yield "scenarios", path, text.count("\n", 0, found.start()) + 1, words


def sentences(text):
    text = re.sub(r"\s+", " ", re.sub(r"\s*\n\s*\n\s*|\u2029", ". ", text))
    parts = (part.strip(" .") for part in re.split(r"(?<=[.?!])[\"”)]?\s+(?=[A-Z`\"'“(\[{0-9—-])", text))
    return [part for part in parts if len(part.split()) > 2]


def main():
    wanted, below = [*sys.argv[1:], "", ""][:2]
    patterns = [(name, areas, re.compile(pattern), hint) for name, areas, pattern, hint in PATTERNS]
    counts = dict.fromkeys(("output", "docs", "scenarios", "comments"), 0)
    for found in (rust_areas(), page_areas(), scenario_areas()):
        for area, path, line, text in found:
            said = sentences(text)
            for name, areas, pattern, hint in patterns:
                if area[0] not in areas:
                    continue
                for sentence in said[:1] if name in AT_START else said:
                    hits = len(pattern.findall(sentence))
                    counts[area] += hits
                    if hits and area == wanted and path.startswith(below):
                        print(f"{path}:{line}: {name}: {sentence[:150]} -> {hint}")
    for area, count in counts.items():
        print(area, count)


main()
