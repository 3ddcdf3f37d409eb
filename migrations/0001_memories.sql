-- Memories, their history, the keyword index, embeddings and the work still to do.
-- Times are ISO 8601 UTC with microseconds ("2026-01-31T09:30:00.000000Z"): they sort as text.

CREATE TABLE memories (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    user_id    TEXT NOT NULL,
    content    TEXT NOT NULL,
    metadata   TEXT NOT NULL DEFAULT '{}' CHECK (json_type(metadata) = 'object'),
    priority   TEXT NOT NULL DEFAULT 'medium' CHECK (priority IN ('critical', 'high', 'medium', 'low')),
    hash       TEXT NOT NULL,
    -- 0 for the one memory that owns its normalised text; above it where a caller insisted on a copy.
    copy       INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- Items imported together; the session of those that name none.
    batch      TEXT,
    -- The content with its Chinese, Japanese, Korean, Thai … characters set apart; without such characters, the words
    -- that have a plainer spelling (ß, Arabic vowels …), in that spelling; empty where there is nothing of the kind.
    spaced     TEXT NOT NULL DEFAULT '',
    -- Stored, not virtual: a search reads them of hundreds of candidates.
    author     TEXT GENERATED ALWAYS AS (CAST(coalesce(
                   metadata ->> '$.author', metadata ->> '$.speaker', metadata ->> '$.name', metadata ->> '$.role'
               ) AS TEXT)) STORED,
    session    TEXT GENERATED ALWAYS AS (CAST(coalesce(
                   metadata ->> '$.session_id', metadata ->> '$.conversation_id',
                   metadata ->> '$.thread_id', metadata ->> '$.run_id', batch
               ) AS TEXT)) STORED,
    day        TEXT GENERATED ALWAYS AS (
                   ltrim(substr(created_at, 9, 2), '0') || ' ' || CASE substr(created_at, 6, 2)
                       WHEN '01' THEN 'January' WHEN '02' THEN 'February' WHEN '03' THEN 'March'
                       WHEN '04' THEN 'April' WHEN '05' THEN 'May' WHEN '06' THEN 'June'
                       WHEN '07' THEN 'July' WHEN '08' THEN 'August' WHEN '09' THEN 'September'
                       WHEN '10' THEN 'October' WHEN '11' THEN 'November' ELSE 'December' END
                   || ' ' || substr(created_at, 1, 4)
               ) VIRTUAL,
    UNIQUE (user_id, hash, copy)
) STRICT;

CREATE INDEX memories_newest ON memories (user_id, created_at, seq);
CREATE INDEX memories_session ON memories (user_id, session, seq);
CREATE INDEX memories_author ON memories (user_id, author);

-- A row per user who ever had a memory. The generation changes with every write that can change an answer,
-- whichever program makes it: caches compare it.
CREATE TABLE users (
    user_id    TEXT PRIMARY KEY,
    memories   INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- What a memory was after each change; kept when the memory is deleted.
CREATE TABLE history (
    memory_id TEXT NOT NULL,
    version   INTEGER NOT NULL,
    user_id   TEXT NOT NULL,
    action    TEXT NOT NULL CHECK (action IN ('created', 'updated', 'deleted', 'restored', 'merged')),
    content   TEXT NOT NULL,
    metadata  TEXT NOT NULL,
    priority  TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    PRIMARY KEY (memory_id, version)
) STRICT, WITHOUT ROWID;

-- One row per embedding model that ever served this file. Vectors of two spaces are never compared.
CREATE TABLE spaces (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL,
    dimension   INTEGER NOT NULL CHECK (dimension > 0),
    fingerprint TEXT NOT NULL UNIQUE,
    used_at     TEXT NOT NULL
) STRICT;

-- Unit vectors, float32 little endian; several for a text longer than the model's window. Their sign bits
-- live in a vec0 table per space, "bits_<space>", made when the space is first used.
CREATE TABLE chunks (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    memory    INTEGER NOT NULL REFERENCES memories (seq) ON DELETE CASCADE,
    space     INTEGER NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    embedding BLOB NOT NULL
) STRICT;

CREATE INDEX chunks_of_memory ON chunks (memory, space);
CREATE INDEX chunks_of_space ON chunks (space);

-- Work that an answered call still owes. A row lives until the work is committed. Space 0: of no embedding model.
CREATE TABLE jobs (
    space      INTEGER NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('embed', 'extract')),
    memory     INTEGER NOT NULL REFERENCES memories (seq) ON DELETE CASCADE,
    attempts   INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    not_before TEXT NOT NULL DEFAULT '',
    last_error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (space, kind, memory)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_of_memory ON jobs (memory);

CREATE VIRTUAL TABLE words USING fts5 (
    content, author, day, spaced,
    content = 'memories', content_rowid = 'seq',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);

-- The words of each user's memories, lower case and without accents: a query's rare words find their other forms,
-- and the compounds that hold them, here. A word stays when the last memory with it is gone, unless it was the last
-- memory of all: it finds nothing then.
CREATE TABLE vocabulary (
    id      INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    word    TEXT NOT NULL,
    UNIQUE (user_id, word)
) STRICT;

CREATE VIRTUAL TABLE parts USING fts5 (
    word, content = 'vocabulary', content_rowid = 'id', tokenize = "trigram case_sensitive 1", detail = none
);

CREATE TRIGGER word_inserted AFTER INSERT ON vocabulary BEGIN
    INSERT INTO parts (rowid, word) VALUES (new.id, new.word);
END;

CREATE TRIGGER word_deleted AFTER DELETE ON vocabulary BEGIN
    INSERT INTO parts (parts, rowid, word) VALUES ('delete', old.id, old.word);
END;

CREATE TRIGGER last_memory_deleted AFTER UPDATE OF memories ON users WHEN new.memories = 0 BEGIN
    DELETE FROM vocabulary WHERE user_id = new.user_id;
END;

CREATE TRIGGER memory_inserted AFTER INSERT ON memories BEGIN
    INSERT INTO words (rowid, content, author, day, spaced)
        VALUES (new.seq, new.content, new.author, new.day, new.spaced);
    INSERT INTO users (user_id, memories, generation) VALUES (new.user_id, 1, 1)
        ON CONFLICT DO UPDATE SET memories = memories + 1, generation = generation + 1;
    INSERT INTO jobs (space, kind, memory, created_at) SELECT id, 'embed', new.seq, new.updated_at FROM spaces;
END;

CREATE TRIGGER memory_deleted AFTER DELETE ON memories BEGIN
    INSERT INTO words (words, rowid, content, author, day, spaced)
        VALUES ('delete', old.seq, old.content, old.author, old.day, old.spaced);
    UPDATE users SET memories = memories - 1, generation = generation + 1 WHERE user_id = old.user_id;
    -- Not by foreign keys alone: other programs often leave them off.
    DELETE FROM chunks WHERE memory = old.seq;
    DELETE FROM jobs WHERE memory = old.seq;
END;

CREATE TRIGGER memory_updated AFTER UPDATE ON memories BEGIN
    UPDATE users SET generation = generation + 1 WHERE user_id = new.user_id;
END;

CREATE TRIGGER memory_words_updated AFTER UPDATE ON memories
WHEN old.content IS NOT new.content OR old.author IS NOT new.author OR old.day IS NOT new.day
     OR old.spaced IS NOT new.spaced BEGIN
    INSERT INTO words (words, rowid, content, author, day, spaced)
        VALUES ('delete', old.seq, old.content, old.author, old.day, old.spaced);
    INSERT INTO words (rowid, content, author, day, spaced)
        VALUES (new.seq, new.content, new.author, new.day, new.spaced);
END;

-- A changed text makes its vectors wrong at once, whoever changed it.
CREATE TRIGGER memory_content_updated AFTER UPDATE OF content ON memories WHEN old.content IS NOT new.content BEGIN
    DELETE FROM chunks WHERE memory = new.seq;
    INSERT INTO jobs (space, kind, memory, created_at) SELECT id, 'embed', new.seq, new.updated_at FROM spaces
        WHERE true ON CONFLICT DO UPDATE SET attempts = 0, not_before = '', last_error = '';
END;

CREATE TRIGGER space_deleted AFTER DELETE ON spaces BEGIN
    DELETE FROM jobs WHERE space = old.id;
END;

-- A vector that vanishes while its memory stays is owed again.
CREATE TRIGGER chunk_deleted AFTER DELETE ON chunks BEGIN
    INSERT INTO jobs (space, kind, memory, created_at)
        SELECT old.space, 'embed', old.memory, updated_at FROM memories WHERE seq = old.memory
        AND EXISTS (SELECT 1 FROM spaces WHERE id = old.space)
        ON CONFLICT DO NOTHING;
END;
