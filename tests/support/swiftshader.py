"""SwiftShader, a second driver that computes on the CPU: it comes with Chromium."""

import os
from pathlib import Path

import pytest

FILE = "vk_swiftshader_icd.json"
FOLDERS = ("/usr/lib/chromium", "/usr/lib/chromium-browser")
WHERE = f"no {FILE} in {' or '.join(FOLDERS)} (package chromium-common), or as ADJOINT_SWIFTSHADER"


def driver() -> str | None:
    """The file that tells of the driver."""
    places = [os.environ.get("ADJOINT_SWIFTSHADER", ""), *(f"{f}/{FILE}" for f in FOLDERS)]
    return next((place for place in places if Path(place).is_file()), None)


def environment() -> dict[str, str] | None:
    """The environment of a process that sees no driver but SwiftShader, if that is there."""
    file = driver()
    if file is None:
        return None
    inherited = {k: v for k, v in os.environ.items() if k != "ADJOINT_ADAPTER"}
    return inherited | {"VK_DRIVER_FILES": file, "VK_ICD_FILENAMES": file}


def is_chosen() -> bool:
    """Whether this process sees no driver but SwiftShader: it takes ten times as long as Mesa's, so
    arrays whose point is to be large may be smaller there."""
    file = driver()
    return file is not None and os.environ.get("VK_DRIVER_FILES") == file


# For what depends on WebGPU's limits, which are the same for all drivers, and takes long.
one_driver_is_enough = pytest.mark.skipif(is_chosen(), reason="another driver has done it")
