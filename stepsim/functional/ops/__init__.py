"""Evaluators by operator family; importing the package registers those of every module in it."""

import pkgutil
from importlib import import_module

__all__: list[str] = []

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
