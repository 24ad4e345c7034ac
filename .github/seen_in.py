"""Reports messages of scenarios/errors.toml that the newest wheel of their package no longer contains.

`seen_in` of an entry names, for each of `says`, the newest release in whose files the message was found. Arguments are
packages; without any, all of them. Exit codes: 0, nothing is gone; 1, a message is gone; 2, there is no wheel.
"""
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ERRORS = Path(__file__).parent.parent / "scenarios/errors.toml"
# Adjacent literals are one string to the program, and quotes in them are escaped.
JOINT = re.compile(rb"[\"']\s*[rfb]*[\"']")
# With these options pip installs nothing and runs no code of a package.
FETCH = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--python-version", "3.13"]


def newest_messages(package):
    """Returns the messages found in the newest release; older releases printed the others."""
    rows = {}
    for advice in tomllib.loads(ERRORS.read_text())["advice"]:
        for message, release in zip(advice.get("says", []), advice.get("seen_in", [])):
            if release.startswith(package + " "):
                version = tuple(int(part) for part in release.split()[1].split("."))
                rows.setdefault(version, []).append(max(message.split("*"), key=len))
    return rows[max(rows)]


def find_missing(wheel, messages):
    missing = set(messages)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if not re.search(r"\.so(\.|$)", name):
                content += JOINT.sub(b"", content).replace(b"\\", b"")
            missing -= {message for message in missing if message.encode() in content}
    return missing


status = 0
found = re.findall(r'^seen_in = \[(.*)\]$', ERRORS.read_text(), re.MULTILINE)
for package in sys.argv[1:] or sorted({release.split()[0] for row in found for release in re.findall(r'"([^"]+)"', row)}):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*FETCH, "-d", folder, package], check=False)
        wheel = next(Path(folder).glob("*.whl"), None)
        if wheel is None:
            print(f"{package}: no wheel")
            status = 2
            continue
        missing = find_missing(wheel, newest_messages(package))
        print(f"{wheel.name}: {len(missing)} messages are gone", *sorted(missing), sep="\n  ")
        status = max(status, int(bool(missing)))
sys.exit(status)
