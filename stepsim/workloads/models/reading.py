"""A model from a user's text: a built-in name, a YAML file, or a config.json."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stepsim.arguments import shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.workloads.models.builtin import MODELS
from stepsim.workloads.models.config_json import read_config
from stepsim.workloads.models.model import Model
from stepsim.workloads.models.shapes import AttentionShape, MoEShape
from stepsim.workloads.models.yaml_file import model_of, read_yaml

_CONFIG = "config.json"
_YAML = (".yaml", ".yml")


def read_model(text: str) -> Model:
    """The model that a text names.

    Parameters
    ----------
    text : the name of a built-in model, a YAML file with dimensions, a Hugging Face config.json, or
        a folder that holds one.

    Raises
    ------
    ArgError
        There is no such model or file, or the file is incomplete or wrong; the message names the
        file and the keys.
    """
    if text in MODELS:
        return MODELS[text]
    path = Path(text)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):  # a name that is too long or has a null byte
        is_folder = is_file = False
    if is_folder:
        return _of_folder(path)
    if is_file:
        return _of_file(path)
    if path.suffix in (*_YAML, ".json") or os.sep in text:
        raise ArgError(
            f"model {text}: there is no such file; check the path, or give the name of a model"
        )
    raise ArgError(
        f"unknown model '{text}'{did_you_mean(text, MODELS)} Expected one of {', '.join(MODELS)}, "
        "or a YAML file with dimensions, a Hugging Face config.json, or a folder that holds one"
    )


def _of_folder(folder: Path) -> Model:
    path = folder / _CONFIG
    if not path.is_file():
        raise ArgError(f"model {folder}: the folder holds no {_CONFIG}; give the folder of a model")
    return _of_file(path)


def _of_file(path: Path) -> Model:
    if path.suffix in _YAML:
        return read_yaml(path)
    if path.suffix == ".json":
        return read_config(path)
    raise ArgError(
        f"model {path}: expected a file that ends in .yaml, .yml or .json, found '{path.suffix}'. "
        f"Give the {_CONFIG} of a model, or a YAML file with its dimensions"
    )


def _of_any(value: object) -> Model:
    """A model from a shape, its dimensions by key, or a text."""
    if isinstance(value, (MoEShape, AttentionShape)):
        return Model.of(value)
    if isinstance(value, Mapping):
        return model_of(value, "model")
    if isinstance(value, str):
        return read_model(value)
    raise ArgError(
        f"expected a name, a YAML file, a config.json or dimensions by key, found {shown(value)}"
    )


Model.reader = _of_any
