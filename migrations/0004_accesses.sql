-- How often each memory was asked for by its id. Counts follow the reads by half a minute and may miss the last ones.
CREATE TABLE accesses (
    memory  INTEGER PRIMARY KEY REFERENCES memories (seq) ON DELETE CASCADE,
    count   INTEGER NOT NULL,
    last_at TEXT NOT NULL
) STRICT;

-- Changes whenever a memory that a user had is changed or removed, whichever program does it. `generation` moves with
-- every add and every new vector too, which leave what was read of the other memories true.
ALTER TABLE users ADD COLUMN edits INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER memory_edited AFTER UPDATE ON memories BEGIN
    UPDATE users SET edits = edits + 1 WHERE user_id IN (old.user_id, new.user_id);
END;

CREATE TRIGGER memory_removed AFTER DELETE ON memories BEGIN
    UPDATE users SET edits = edits + 1 WHERE user_id = old.user_id;
    DELETE FROM accesses WHERE memory = old.seq;
END;
