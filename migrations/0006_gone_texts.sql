-- What was deleted is looked up by whose it was: an import brings none of it back under another id.

CREATE INDEX history_gone ON history (user_id) WHERE action IN ('deleted', 'merged');
