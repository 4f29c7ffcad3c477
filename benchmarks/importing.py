"""The time to import adjoint against the time to import NumPy, which it needs."""

import json
import os
import tempfile

from ._common import Report, output

LIMIT = 1.35

TIME = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""

# Prints the packages that an import adds to those of the standard library.
PACKAGES = """
import json, sys
before = set(sys.modules)
import {module}
packages = {{name.partition(".")[0] for name in sys.modules.keys() - before}}
print(json.dumps(sorted(packages - sys.stdlib_module_names)))
"""


def run(rounds: int) -> Report:
    """Import each in fresh interpreters, alternated, and compare the best times."""
    times: dict[str, list[float]] = {"numpy": [], "adjoint": []}
    with tempfile.TemporaryDirectory() as cache:
        env = caching_environment(cache)
        for _ in range(max(10, 5 * rounds)):
            for module, seconds in times.items():
                seconds.append(float(output("-c", TIME.format(module=module), env=env)))
    best = {module: min(seconds) for module, seconds in times.items()}
    return report(best, foreign_packages())


def caching_environment(cache: str) -> dict[str, str]:
    """Variables with which the first import leaves bytecode of both modules to the later ones."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def foreign_packages() -> list[str]:
    """What `import adjoint` loads that is neither its own, NumPy's, nor the standard library's."""
    loaded = {m: json.loads(output("-c", PACKAGES.format(module=m))) for m in ("adjoint", "numpy")}
    return sorted(set(loaded["adjoint"]) - set(loaded["numpy"]) - {"adjoint", "numpy"})


def report(best: dict[str, float], foreign: list[str]) -> Report:
    ratio = best["adjoint"] / best["numpy"]
    for module, seconds in best.items():
        print(f"import {module:8} {seconds * 1e3:7.1f} ms")
    print(f"ratio {ratio:.2f} (at most {LIMIT})")
    print(f"packages beyond the standard library and numpy: {', '.join(foreign) or 'none'}")
    problems = [f"importing: ratio {ratio:.2f} is over {LIMIT}"] if ratio > LIMIT else []
    problems += [f"importing: adjoint loads {package}" for package in foreign]
    return Report({**best, "ratio": ratio, "foreign_packages": foreign}, problems)
