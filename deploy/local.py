"""The embedded stack: `python deploy/local.py --help`. The parts are in `deploy/stack`."""

import sys
from pathlib import Path

# Started as a script, Python looks for modules beside it: the project's root is meant.
sys.path[0] = str(Path(__file__).resolve().parents[1])

try:
    from deploy.stack.cli import main
except ModuleNotFoundError as missing:
    if (missing.name or "").startswith("deploy"):
        raise
    sys.exit(f"error: {missing.name} is not installed here; run `make install` and use .venv/bin/python")

if __name__ == "__main__":
    sys.exit(main())
