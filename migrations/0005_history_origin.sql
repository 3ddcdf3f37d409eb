-- What a deleted memory needs to come back as it was, and no version told: when it was made, and with which others.

ALTER TABLE history ADD COLUMN created_at TEXT NOT NULL DEFAULT '';
ALTER TABLE history ADD COLUMN batch TEXT;

-- Of a memory that is gone by now its first version is the nearest to its making that is left.
UPDATE history SET
    batch = (SELECT batch FROM memories WHERE id = memory_id),
    created_at = coalesce(
        (SELECT created_at FROM memories WHERE id = memory_id),
        (SELECT timestamp FROM history AS first WHERE first.memory_id = history.memory_id ORDER BY version LIMIT 1)
    );
