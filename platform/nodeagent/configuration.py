"""The agent's configuration file: one JSON object, checked before anything else happens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nodeagent.messages import MessageError, decode


class ConfigurationError(ValueError):
    """The configuration file cannot be used; says which field and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGpu:
    """One device that exists only in the configuration."""

    index: int
    memory_bytes: int
    socket: int = 0
    switch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryConfiguration:
    """Which GPUs the node has: read from the driver (`nvml`), or `simulated` and listed here."""

    kind: Literal["simulated", "nvml"]
    gpu_model: str = ""
    gpus: tuple[SimulatedGpu, ...] = ()
    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What one agent needs to know. Folders may be relative to the configuration file."""

    server_url: str
    node: str
    token: str
    work_folder: str
    checkpoint_folder: str
    inventory: InventoryConfiguration
    #: Where the other nodes of a gang reach this one.
    address: str = "127.0.0.1"
    examples_folder: str | None = None
    #: An interpreter whose folder comes first on the jobs' PATH.
    python: str | None = None


def read_configuration(path: Path) -> Configuration:
    """Read and check the file; raise ConfigurationError with the field at fault."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: must be one JSON object")
    folder = path.resolve().parent
    for field in ("work_folder", "checkpoint_folder", "examples_folder"):
        if isinstance(value.get(field), str):
            value[field] = str(folder / value[field])
    try:
        configuration = decode(Configuration, value)
    except MessageError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    _check(path, configuration)
    return configuration


def _check(path: Path, configuration: Configuration) -> None:
    if not configuration.server_url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{path}: server_url: must start with http:// or https://")
    for field in ("node", "token"):
        value: str = getattr(configuration, field)
        if not value or any(character.isspace() or not character.isprintable() for character in value):
            raise ConfigurationError(f"{path}: {field}: must be text without spaces, and not empty")
    inventory = configuration.inventory
    if inventory.kind == "simulated":
        if inventory.gpus and not inventory.gpu_model:
            raise ConfigurationError(f"{path}: inventory.gpu_model: is missing, for example V100")
        indexes = [gpu.index for gpu in inventory.gpus]
        if len(set(indexes)) != len(indexes):
            raise ConfigurationError(f"{path}: inventory.gpus: two devices have the same index")
    elif inventory.gpus or inventory.gpu_model:
        raise ConfigurationError(
            f"{path}: inventory: with kind nvml leave out gpu_model and gpus; the driver says them"
        )
