"""Which errors mean that the file itself is damaged. What each error says is tested with the file, in test_db."""

import apsw
import pytest

from r3_lite.errors import StorageBusy, StorageError
from r3_lite.sqlite_errors import is_damage, storage_errors


@pytest.mark.parametrize("raised", [apsw.CorruptError, apsw.NotADBError])
def test_damage_is_known_through_the_error_made_of_it(raised: type[Exception]) -> None:
    with pytest.raises(StorageError) as caught, storage_errors(None):
        raise raised
    assert is_damage(caught.value)


@pytest.mark.parametrize("raised", [apsw.FullError, apsw.ReadOnlyError, apsw.SQLError, OSError])
def test_other_errors_are_no_damage(raised: type[Exception]) -> None:
    with pytest.raises(StorageError) as caught, storage_errors(None):
        raise raised
    assert not is_damage(caught.value)


def test_a_held_lock_can_be_told_apart() -> None:
    with pytest.raises(StorageBusy), storage_errors(None):
        raise apsw.BusyError
