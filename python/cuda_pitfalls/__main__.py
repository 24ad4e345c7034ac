"""``python -m cuda_pitfalls`` is the command ``cuda-pitfalls`` of the same installation."""

import os
import shutil
import site
import sys
import sysconfig


def program():
    """The path of the program: where this Python installs commands, or the first one on PATH."""
    # `pip install --target FOLDER` puts commands into FOLDER/bin, beside this package.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    folders = [beside, sysconfig.get_path("scripts"), os.path.join(site.getuserbase(), "bin")]
    found = (shutil.which("cuda-pitfalls", path=folder) for folder in folders)
    return next((path for path in found if path), None) or shutil.which("cuda-pitfalls")


def main():
    path = program()
    if path is None:
        sys.exit(
            "cuda_pitfalls: the program `cuda-pitfalls` is neither beside this Python nor on PATH; "
            "`pip install --force-reinstall cuda-pitfalls` installs it"
        )
    try:
        os.execv(path, ["cuda-pitfalls"] + sys.argv[1:])
    except FileNotFoundError:
        # The program is there: what the kernel does not find is its loader.
        sys.exit("cuda_pitfalls: {} does not start without glibc, which NVIDIA's driver needs too".format(path))
    except OSError as error:
        # Such as a wheel of another processor that was unpacked by hand.
        sys.exit("cuda_pitfalls: {} does not start: {}".format(path, error.strerror))


if __name__ == "__main__":
    main()
