"""Says what this interpreter is, and which versions of the packages that are named have been installed. It imports none."""
import importlib.util
import json
import platform
import sys

try:
    from importlib import metadata
except ImportError:
    metadata = None


def by_module():
    """The distributions of each top-level module."""
    found = {}
    for distribution in metadata.distributions():
        text = distribution.read_text("top_level.txt") or ""
        for name in text.split():
            found.setdefault(name, distribution.version)
    if hasattr(metadata, "packages_distributions"):
        for name, distributions in metadata.packages_distributions().items():
            found.setdefault(name, metadata.version(distributions[0]))
    return found


def version(name, modules):
    if name == "python":
        return platform.python_version()
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
    if name in modules:
        return modules[name]
    try:
        spec = importlib.util.find_spec(name) if "." not in name else None
    except (ImportError, ValueError):
        spec = None
    return None if spec is None else "unknown"


modules = by_module() if metadata else {}
packages = {name: version(name, modules) for name in sys.argv[1:]} if metadata else {}
print(json.dumps({
    "version": platform.python_version(),
    "implementation": platform.python_implementation(),
    "packages": {name: found for name, found in packages.items() if found is not None},
}))
