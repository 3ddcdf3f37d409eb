"""The error tree: codes that clients know, messages that are told on."""

import pytest

from r3_lite import errors
from r3_lite.errors import R3Error

CODES = {
    "InvalidParameters": "INVALID_PARAMETERS",
    "MemoryNotFound": "MEMORY_NOT_FOUND",
    "StorageError": "STORAGE_ERROR",
    "StorageBusy": "STORAGE_BUSY",
    "ImportFailed": "IMPORT_ERROR",
    "Mem0Failed": "MEM0_API_ERROR",
    "ModelUnavailable": "MODEL_UNAVAILABLE",
}


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_every_error_has_its_documented_code(name: str, code: str) -> None:
    error = getattr(errors, name)("what to do", where="here")
    assert isinstance(error, R3Error)
    assert (error.code, error.message, str(error), error.details) == (
        code,
        "what to do",
        "what to do",
        {"where": "here"},
    )


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    for name, code in CODES.items():
        assert f"{name} " in errors.__doc__
        assert code in errors.__doc__


def test_a_busy_file_is_a_storage_error() -> None:
    assert issubclass(errors.StorageBusy, errors.StorageError)
