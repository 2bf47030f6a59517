"""Bring every generated page, picture and output up to date. Run from anywhere.

python docs/build_all.py            writes all of it; then look at the difference before committing
python docs/build_all.py --check    says what is stale, exit status 1
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
# pages last: their outputs include what the others write
SCRIPTS = ("build_errors", "build_cli", "build_glossary", "build_schemas", "build_figures", "run_pages")


def main(arguments: list[str]) -> int:
    """Run the scripts one after the other; returns 1 when one of them found something."""
    failed = 0
    for script in SCRIPTS:
        sys.stderr.write(f"{script}\n")
        done = subprocess.run(
            [sys.executable, DOCS / f"{script}.py", *arguments], cwd=DOCS.parent, check=False
        )
        failed += done.returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main([a for a in sys.argv[1:] if a == "--check"]))
