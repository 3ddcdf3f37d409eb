-- What lets a search stay quick as a store grows: a short code beside each vector, the owner in the keyword index,
-- the values of the metadata by which memories are filtered, and the telling words of each text.

-- Sign bits lay in sqlite-vec tables of their own until now, one for each space.
DROP TABLE IF EXISTS bits_1;
DROP TABLE IF EXISTS bits_2;
DROP TABLE IF EXISTS bits_3;
DROP TABLE IF EXISTS bits_4;
DROP TABLE chunks;

-- Unit vectors, float32 little endian; several for a text longer than the model's window. The codes of all of a
-- user's vectors, two bits a number, are compared with a query before the vectors of the nearest are read.
CREATE TABLE chunks (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    memory    INTEGER NOT NULL REFERENCES memories (seq) ON DELETE CASCADE,
    space     INTEGER NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    user_id   TEXT NOT NULL,
    code      BLOB NOT NULL CHECK (length(code) * 16 = length(embedding)),
    embedding BLOB NOT NULL
) STRICT;

CREATE INDEX chunks_of_memory ON chunks (memory, space);
-- Covers what a process reads to hold a user's codes in memory: those of new vectors have the highest ids.
CREATE INDEX chunks_codes ON chunks (space, user_id, id, memory, code);

CREATE TRIGGER chunk_of_another_dimension BEFORE INSERT ON chunks
WHEN length(new.embedding) <> 4 * (SELECT dimension FROM spaces WHERE id = new.space) BEGIN
    SELECT RAISE(ABORT, 'a vector of another dimension');
END;

-- A vector that vanishes while its memory stays is owed again.
CREATE TRIGGER chunk_deleted AFTER DELETE ON chunks BEGIN
    INSERT INTO jobs (space, kind, memory, created_at)
        SELECT old.space, 'embed', old.memory, updated_at FROM memories WHERE seq = old.memory
        AND EXISTS (SELECT 1 FROM spaces WHERE id = old.space)
        ON CONFLICT DO NOTHING;
END;

INSERT INTO jobs (space, kind, memory, created_at)
    SELECT s.id, 'embed', m.seq, m.updated_at FROM spaces AS s, memories AS m WHERE true ON CONFLICT DO NOTHING;

-- One word for each user, which no text holds and no stemmer changes: a search of a small user of a large file
-- need not look at the others' memories. It counts for nothing in the ranking.
ALTER TABLE memories ADD COLUMN owner TEXT GENERATED ALWAYS AS ('u' || lower(hex(user_id)) || 'z') VIRTUAL;

DROP TABLE words;
CREATE VIRTUAL TABLE words USING fts5 (
    content, author, day, spaced, owner,
    content = 'memories', content_rowid = 'seq',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M* So' separators '©®°™'"
);
INSERT INTO words (words) VALUES ('rebuild');

DROP TRIGGER memory_inserted;
CREATE TRIGGER memory_inserted AFTER INSERT ON memories BEGIN
    INSERT INTO words (rowid, content, author, day, spaced, owner)
        VALUES (new.seq, new.content, new.author, new.day, new.spaced, new.owner);
    INSERT INTO users (user_id, memories, generation) VALUES (new.user_id, 1, 1)
        ON CONFLICT DO UPDATE SET memories = memories + 1, generation = generation + 1;
    INSERT INTO jobs (space, kind, memory, created_at) SELECT id, 'embed', new.seq, new.updated_at FROM spaces;
END;

DROP TRIGGER memory_deleted;
CREATE TRIGGER memory_deleted AFTER DELETE ON memories BEGIN
    INSERT INTO words (words, rowid, content, author, day, spaced, owner)
        VALUES ('delete', old.seq, old.content, old.author, old.day, old.spaced, old.owner);
    UPDATE users SET memories = memories - 1, generation = generation + 1 WHERE user_id = old.user_id;
    -- Not by foreign keys alone: other programs often leave them off.
    DELETE FROM chunks WHERE memory = old.seq;
    DELETE FROM jobs WHERE memory = old.seq;
END;

DROP TRIGGER memory_words_updated;
CREATE TRIGGER memory_words_updated AFTER UPDATE ON memories
WHEN old.content IS NOT new.content OR old.author IS NOT new.author OR old.day IS NOT new.day
     OR old.spaced IS NOT new.spaced OR old.owner IS NOT new.owner BEGIN
    INSERT INTO words (words, rowid, content, author, day, spaced, owner)
        VALUES ('delete', old.seq, old.content, old.author, old.day, old.spaced, old.owner);
    INSERT INTO words (rowid, content, author, day, spaced, owner)
        VALUES (new.seq, new.content, new.author, new.day, new.spaced, new.owner);
END;

-- The scalar values of the metadata, and the scalars in its lists. True and false are told from 1 and 0, and null
-- from nothing, by being blobs. Longer texts are compared in the metadata itself.
CREATE TABLE attributes (
    user_id TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   ANY NOT NULL,
    memory  INTEGER NOT NULL,
    PRIMARY KEY (user_id, key, value, memory)
) STRICT, WITHOUT ROWID;

CREATE VIEW attribute_values AS
    SELECT m.seq AS memory, m.user_id, v.key,
           CASE v.type WHEN 'true' THEN x'01' WHEN 'false' THEN x'00' WHEN 'null' THEN x'' ELSE v.atom END AS value
    FROM memories AS m, json_each(m.metadata) AS v
    WHERE v.type NOT IN ('array', 'object') AND (v.type <> 'text' OR length(v.atom) <= 200)
    UNION ALL
    SELECT m.seq, m.user_id, v.key,
           CASE e.type WHEN 'true' THEN x'01' WHEN 'false' THEN x'00' WHEN 'null' THEN x'' ELSE e.atom END
    FROM memories AS m, json_each(m.metadata) AS v, json_each(v.value) AS e
    WHERE v.type = 'array' AND e.type NOT IN ('array', 'object') AND (e.type <> 'text' OR length(e.atom) <= 200);

INSERT OR IGNORE INTO attributes (user_id, key, value, memory)
    SELECT user_id, key, value, memory FROM attribute_values;

CREATE TRIGGER attributes_inserted AFTER INSERT ON memories WHEN new.metadata <> '{}' BEGIN
    INSERT OR IGNORE INTO attributes (user_id, key, value, memory)
        SELECT user_id, key, value, memory FROM attribute_values WHERE memory = new.seq;
END;

CREATE TRIGGER attributes_deleted BEFORE DELETE ON memories WHEN old.metadata <> '{}' BEGIN
    DELETE FROM attributes WHERE (user_id, key, value, memory) IN (
        SELECT user_id, key, value, memory FROM attribute_values WHERE memory = old.seq);
END;

CREATE TRIGGER attributes_outdated BEFORE UPDATE OF metadata, user_id ON memories
WHEN old.metadata IS NOT new.metadata OR old.user_id IS NOT new.user_id BEGIN
    DELETE FROM attributes WHERE (user_id, key, value, memory) IN (
        SELECT user_id, key, value, memory FROM attribute_values WHERE memory = old.seq);
END;

CREATE TRIGGER attributes_updated AFTER UPDATE OF metadata, user_id ON memories
WHEN old.metadata IS NOT new.metadata OR old.user_id IS NOT new.user_id BEGIN
    INSERT OR IGNORE INTO attributes (user_id, key, value, memory)
        SELECT user_id, key, value, memory FROM attribute_values WHERE memory = new.seq;
END;

-- The words of a text that every text worded like it shares at least one of, as hashes that differ between users.
CREATE TABLE telling_words (
    word   INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    PRIMARY KEY (word, memory)
) STRICT, WITHOUT ROWID;

CREATE INDEX telling_words_of_memory ON telling_words (memory);

CREATE TRIGGER telling_words_deleted AFTER DELETE ON memories BEGIN
    DELETE FROM telling_words WHERE memory = old.seq;
END;

CREATE TRIGGER telling_words_outdated AFTER UPDATE OF content ON memories WHEN old.content IS NOT new.content BEGIN
    DELETE FROM telling_words WHERE memory = new.seq;
END;

-- We never move a memory to another user; should another program do so, nothing of it stays with the former one.
CREATE TRIGGER memory_moved AFTER UPDATE OF user_id ON memories WHEN old.user_id IS NOT new.user_id BEGIN
    UPDATE users SET memories = memories - 1, generation = generation + 1, graph = graph + 1
        WHERE user_id = old.user_id;
    INSERT INTO users (user_id, memories, generation, graph) VALUES (new.user_id, 1, 1, 1)
        ON CONFLICT DO UPDATE SET memories = memories + 1, generation = generation + 1, graph = graph + 1;
    DELETE FROM chunks WHERE memory = new.seq;
    DELETE FROM telling_words WHERE memory = new.seq;
    DELETE FROM edges WHERE memory = new.seq;
    DELETE FROM mentions WHERE memory = new.seq;
    DELETE FROM extractions WHERE memory = new.seq;
    INSERT INTO jobs (space, kind, memory, created_at) VALUES (0, 'extract', new.seq, new.updated_at)
        ON CONFLICT DO NOTHING;
END;

CREATE INDEX memories_priority ON memories (user_id, priority);
