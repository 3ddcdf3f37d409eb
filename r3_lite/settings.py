"""One frozen Settings, read from the environment: R3_* variables, and the names that r3 used."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from r3_lite.errors import InvalidParameters
from r3_lite.limits import check_user_id
from r3_lite.rates import limits_of


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a container's user without HOME and without an entry in the user database
        return Path(os.sep)


def _folder(find: Callable[..., str], below_home: str) -> Path:
    try:
        return Path(find("r3-lite", appauthor=False))
    except RuntimeError:  # as above
        return HOME / below_home / "r3-lite"


HOME = _home()
DATA_DIRECTORY = _folder(platformdirs.user_data_dir, ".local/share")
CACHE_DIRECTORY = _folder(platformdirs.user_cache_dir, ".cache")


def _import_roots() -> tuple[Path, ...]:
    # A home folder that is the root folder would open the whole machine to imports.
    roots = [HOME] if len(HOME.parts) > 1 else []
    with contextlib.suppress(FileNotFoundError):  # a read-only container may have no folder for temporary files
        roots.append(Path(tempfile.gettempdir()))
    return tuple(roots)


def _alias(*names: str) -> Any:
    return Field(validation_alias=AliasChoices(*names))


_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})


class Settings(BaseSettings):
    """Everything a user can set. No .env file is read: a server starts in other people's project folders.

    Relative paths are taken from the user's home folder, never from the working directory.
    """

    model_config = SettingsConfigDict(
        env_prefix="R3_", env_ignore_empty=True, frozen=True, extra="ignore", populate_by_name=True
    )

    db_path: Path = DATA_DIRECTORY / "memories.db"
    user_id: Annotated[str, _alias("R3_USER_ID", "MEM0_USER_ID")] = "default"
    embedding_model: str | None = None
    model_cache: Path = CACHE_DIRECTORY / "models"
    entity_model: str | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 1
    intelligence: Annotated[Literal["full", "basic"], _alias("R3_INTELLIGENCE", "INTELLIGENCE_MODE")] = "full"
    synchronous: Literal["full", "normal"] = "full"
    journal_mode: Literal["auto", "wal", "delete"] = "auto"
    busy_timeout: Annotated[float, Field(ge=0, le=600)] = 5.0
    cache_max_size: Annotated[int, Field(ge=0)] = 10_000
    rate_limits: str = "auto"
    history_retention_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    import_roots: Annotated[tuple[Path, ...], NoDecode] = Field(default_factory=_import_roots)
    mem0_api_key: Annotated[SecretStr | None, _alias("MEM0_API_KEY")] = None
    mem0_base_url: Annotated[str, _alias("MEM0_BASE_URL")] = "https://api.mem0.ai"
    demo: Annotated[bool, _alias("R3_DEMO", "DEMO_MODE")] = False
    debug: Annotated[bool, _alias("R3_DEBUG", "DEBUG")] = False
    quiet: Annotated[bool, _alias("R3_QUIET", "QUIET_MODE")] = True

    @field_validator("intelligence", mode="before")
    @classmethod
    def _known_mode(cls, value: Any) -> Any:
        # r3 knew more words for "everything on"; only "basic" means something else.
        return "basic" if str(value).strip().lower() == "basic" else "full"

    @field_validator("synchronous", "journal_mode", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("demo", mode="before")
    @classmethod
    def _surely_meant(cls, value: Any) -> Any:
        # A word that is no clear yes must not throw memories away.
        if isinstance(value, str) and value.strip().lower() not in _YES | _NO:
            raise ValueError("is true or false")
        return value.strip().lower() in _YES if isinstance(value, str) else value

    @field_validator("debug", "quiet", mode="before")
    @classmethod
    def _any_word(cls, value: Any) -> Any:
        # DEBUG and its like belong to many programs, which write patterns into them ("app:*"): on, not an error.
        if isinstance(value, str):
            return value.strip().lower() not in _NO
        return value

    @field_validator("rate_limits")
    @classmethod
    def _known_limits(cls, value: str) -> str:
        limits_of(value)
        return value

    @field_validator("user_id", mode="after")
    @classmethod
    def _usable_user(cls, value: str) -> str:
        try:
            return check_user_id(value)
        except InvalidParameters as error:
            raise ValueError(error.message) from None

    @field_validator("import_roots", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("db_path", "model_cache", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return _from_home(value)

    @field_validator("import_roots", mode="after")
    @classmethod
    def _absolute_all(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_resolved(_from_home(path)) for path in value)


def load_settings(**overrides: Any) -> Settings:
    """Read the environment once; `overrides` (field names) win over it.

    Raises InvalidParameters that names each bad variable and what it may hold, without its value.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        problems = "; ".join(f"{_variable(str(e['loc'][0]))}: {e['msg']}" for e in error.errors())
        raise InvalidParameters(f"A setting is not usable ({problems}). Correct or unset it.") from error


def _variable(place: str) -> str:
    """Return the variable behind the place of a validation error, which is a field or the first of its names."""
    for field in Settings.model_fields.values():
        names = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
        if place in names:
            return next((str(name) for name in names if str(name) in os.environ), place)
    return f"R3_{place.upper()}"


def _from_home(path: Path) -> Path:
    try:
        return HOME / path.expanduser()
    except RuntimeError:
        raise ValueError("names a home folder that is unknown here") from None


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        raise ValueError("holds a folder that cannot be followed to its real place") from None
