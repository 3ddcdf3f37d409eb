-- Who and what the memories speak of, and how these are related. All of it is derived from the texts.

CREATE TABLE entities (
    id      INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    type    TEXT NOT NULL CHECK (type IN ('people', 'organizations', 'technologies', 'projects', 'places')),
    -- The form in which all spellings of a name are equal.
    key     TEXT NOT NULL,
    UNIQUE (user_id, key, type)
) STRICT;

-- Each spelling in which a memory names an entity, at its first place in the text. An entity is displayed in the
-- first spelling of its first memory.
CREATE TABLE mentions (
    entity   INTEGER NOT NULL REFERENCES entities (id),
    memory   INTEGER NOT NULL REFERENCES memories (seq),
    position INTEGER NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (entity, memory, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX mentions_of_memory ON mentions (memory);

-- "source TYPE target", once for each memory that says so.
CREATE TABLE edges (
    source     INTEGER NOT NULL REFERENCES entities (id),
    type       TEXT NOT NULL,
    target     INTEGER NOT NULL REFERENCES entities (id) CHECK (target <> source),
    memory     INTEGER NOT NULL REFERENCES memories (seq),
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    PRIMARY KEY (source, type, target, memory)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_to ON edges (target);
CREATE INDEX edges_of_memory ON edges (memory);

-- Which memories have been read for entities, and by which method in which version.
CREATE TABLE extractions (
    memory  INTEGER PRIMARY KEY REFERENCES memories (seq),
    method  TEXT NOT NULL CHECK (method IN ('rules', 'rules+head', 'gliner')),
    version TEXT NOT NULL
) STRICT;

CREATE INDEX extractions_by_method ON extractions (method, version);

CREATE TRIGGER memory_inserted_to_extract AFTER INSERT ON memories BEGIN
    INSERT INTO jobs (space, kind, memory, created_at) VALUES (0, 'extract', new.seq, new.updated_at);
END;

-- What a memory said goes with the memory, and with its old text, whoever changed it.
CREATE TRIGGER memory_graph_deleted AFTER DELETE ON memories BEGIN
    DELETE FROM edges WHERE memory = old.seq;
    DELETE FROM mentions WHERE memory = old.seq;
    DELETE FROM extractions WHERE memory = old.seq;
    DELETE FROM jobs WHERE memory = old.seq;
END;

CREATE TRIGGER memory_graph_updated AFTER UPDATE OF content ON memories WHEN old.content IS NOT new.content BEGIN
    DELETE FROM edges WHERE memory = new.seq;
    DELETE FROM mentions WHERE memory = new.seq;
    DELETE FROM extractions WHERE memory = new.seq;
    INSERT INTO jobs (space, kind, memory, created_at) VALUES (0, 'extract', new.seq, new.updated_at)
        ON CONFLICT DO UPDATE SET attempts = 0, not_before = '', last_error = '';
END;

CREATE TRIGGER mention_deleted AFTER DELETE ON mentions BEGIN
    DELETE FROM entities WHERE id = old.entity AND NOT EXISTS (SELECT 1 FROM mentions WHERE entity = old.entity);
END;

INSERT INTO jobs (space, kind, memory, created_at) SELECT 0, 'extract', seq, updated_at FROM memories;
