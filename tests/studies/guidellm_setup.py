"""What guidellm needs to run without the network and without PyTorch: a local tokenizer, and the three names it imports.

guidellm takes from torch only the iteration of its data loader; a gigabyte-sized install for that is out of proportion.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

_DATALOADER = '''
class DataLoader:
    """Iterates a dataset item by item in this process."""

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, dataset, collate_fn=None, **kwargs):
        self.dataset, self.collate_fn = dataset, collate_fn

    def __iter__(self):
        return (self.collate_fn([item]) for item in iter(self.dataset))
'''
_DATASET = '''
class IterableDataset:
    """Base of datasets that are iterated."""

    def __class_getitem__(cls, item):
        return cls
'''
_DATA = """
from torch.utils.data.dataloader import DataLoader
from torch.utils.data.dataset import IterableDataset


def get_worker_info():
    return None
"""
_TORCH = '''
import torch.utils.data
import torch.utils.data.dataloader
import torch.utils.data.dataset


class Tensor:
    """Nothing is one."""


class Generator:
    """Stands for a random generator that is only seeded."""

    def manual_seed(self, seed):
        return self
'''


def write_torch(folder: Path) -> Path:
    """A package ``torch`` with what guidellm's loader uses; returns the folder for PYTHONPATH."""
    data = folder / "torch" / "utils" / "data"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "torch" / "__init__.py").write_text(_TORCH)
    (folder / "torch" / "utils" / "__init__.py").write_text("")
    (data / "__init__.py").write_text(_DATA)
    (data / "dataloader.py").write_text(_DATALOADER)
    (data / "dataset.py").write_text(_DATASET)
    return folder


def write_tokenizer(folder: Path) -> Path:
    """A byte-level tokenizer without merges: one token per byte, so texts and token counts convert exactly."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {character: i for i, character in enumerate(_byte_characters())}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": None, "byte_fallback": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model,
            }
        )
    )  # fmt: skip
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1_000_000})
    )
    return folder


def _byte_characters() -> list[str]:
    """The printable character that byte-level vocabularies use for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]


def install(folder: Path) -> Path:
    """guidellm from its package in an environment of its own, without PyTorch; returns the program.

    640 MB and three quarters of a minute of CPU instead of several gigabytes. Raises CalledProcessError when pip cannot.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"

    def pip(*arguments: str) -> None:
        options = ("--quiet", "--disable-pip-version-check")
        subprocess.run([python, "-m", "pip", "install", *options, *arguments], check=True)

    pip("--no-deps", "guidellm")
    listing = "import importlib.metadata as m; print(*m.requires('guidellm'), sep='\\n')"
    required = subprocess.run([python, "-c", listing], capture_output=True, text=True, check=True).stdout
    needed = [r for r in required.splitlines() if "extra ==" not in r and not re.match(r"torch\b", r)]
    pip(*needed, "jinja2")  # which comes with PyTorch otherwise
    return folder / "bin" / "guidellm"


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    try:
        print(install(target))
    except subprocess.CalledProcessError:
        shutil.rmtree(target, ignore_errors=True)  # half of it would look like all of it next time
        sys.exit(1)
