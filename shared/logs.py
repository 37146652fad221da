"""Logs: one line per outcome on standard error, times in UTC."""

import logging
import sys
import time
from typing import Final

from shared.settings import LogSettings

_QUIET: Final = {"aiokafka": "ERROR", "alembic": "WARNING", "httpx": "WARNING", "httpcore": "WARNING"}


def setup_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=LogSettings().level.upper(), handlers=[handler], force=True)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
