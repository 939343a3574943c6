-- Tables that `groups` owns: replication groups, their masters, tables and paths.

CREATE TABLE snaptide.arrival (
    source text NOT NULL, sender text NOT NULL, transactions bigint NOT NULL,
    last_at timestamptz DEFAULT clock_timestamp(), group_id uuid NOT NULL,
    PRIMARY KEY (group_id, source, sender)
);

CREATE TABLE snaptide.former_sender (
    sender text NOT NULL, group_id uuid NOT NULL,
    PRIMARY KEY (group_id, sender)
);

CREATE TABLE snaptide.quiet_group (
    group_id uuid PRIMARY KEY, quiet_by text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(), why text NOT NULL
);

CREATE TABLE snaptide.replication_group (
    name text NOT NULL, id uuid PRIMARY KEY, definition_site text NOT NULL,
    version bigint NOT NULL, status text NOT NULL DEFAULT 'normal', status_by text,
    status_since timestamptz DEFAULT now(), error_action text NOT NULL DEFAULT 'queue',
    schema_version bigint NOT NULL DEFAULT 1,
    CHECK (status IN ('normal', 'quiescing', 'quiesced')),
    UNIQUE (name)
);

CREATE TABLE snaptide.taken_transaction (
    origin text NOT NULL, transaction bigint NOT NULL, made_at timestamptz NOT NULL,
    certain boolean NOT NULL, target text NOT NULL, part text NOT NULL, sender text,
    group_id uuid NOT NULL,
    PRIMARY KEY (group_id, origin, transaction, made_at, target, part)
);

CREATE TABLE snaptide.group_master (
    master text NOT NULL, target_type text NOT NULL DEFAULT 'full_peer',
    joined boolean NOT NULL DEFAULT true, group_id uuid NOT NULL,
    PRIMARY KEY (group_id, master),
    CHECK (target_type IN
        ('full_peer', 'protected_read_only', 'unprotected_read_only')),
    FOREIGN KEY (group_id) REFERENCES snaptide.replication_group (id) ON DELETE CASCADE
);

CREATE TABLE snaptide.group_path (
    source text NOT NULL, to_master text NOT NULL, from_master text NOT NULL,
    group_id uuid NOT NULL,
    PRIMARY KEY (group_id, source, to_master),
    FOREIGN KEY (group_id) REFERENCES snaptide.replication_group (id) ON DELETE CASCADE
);

CREATE TABLE snaptide.group_table (
    table_schema text NOT NULL, table_name text NOT NULL, group_id uuid NOT NULL,
    PRIMARY KEY (group_id, table_schema, table_name),
    FOREIGN KEY (group_id) REFERENCES snaptide.replication_group (id) ON DELETE CASCADE,
    UNIQUE (table_schema, table_name)
);
