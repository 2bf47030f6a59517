"""Fixtures of the cluster tests: a fake server, a connection to it, and a kubeconfig."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
