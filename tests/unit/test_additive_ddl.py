"""Which DDL of a group runs while its users go on."""

import pytest

from groups.additive import only_adds_columns


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER TABLE flights ADD gate text",
        'ALTER TABLE public.flights ADD COLUMN IF NOT EXISTS "Gate" varchar(5) NULL;',
        "ALTER TABLE flights ADD a int NOT NULL DEFAULT -5, ADD b numeric(9,2)",
        'ALTER TABLE flights ADD a text COLLATE "C"; ALTER TABLE t ADD b int[]',
        "ALTER TABLE flights ADD a timestamptz, ADD b jsonb, ADD c uuid DEFAULT NULL",
        "ALTER TABLE flights ADD a boolean DEFAULT false NOT NULL",
    ],
)
def test_columns_that_change_no_row(statements: str) -> None:
    assert only_adds_columns(statements)


@pytest.mark.parametrize(
    "statements",
    [
        "",
        "nonsense",
        "SELECT 1",
        "ALTER TABLE flights DROP gate",
        "ALTER TABLE flights ADD gate text; DROP TABLE other",
        "ALTER TABLE flights ADD gate text, DROP carrier",
        "ALTER TABLE flights RENAME carrier TO line",
        "ALTER TABLE flights ALTER delay TYPE bigint",
        "ALTER TABLE flights ADD gate text NOT NULL",
        "ALTER TABLE flights ADD gate text NOT NULL DEFAULT NULL",
        "ALTER TABLE flights ADD gate text UNIQUE",
        "ALTER TABLE flights ADD gate int PRIMARY KEY",
        "ALTER TABLE flights ADD gate int REFERENCES gates",
        "ALTER TABLE flights ADD gate int CHECK (gate > 0)",
        "ALTER TABLE flights ADD CHECK (delay > 0)",
        "ALTER TABLE flights ADD gate serial",
        "ALTER TABLE flights ADD gate gate_number",
        "ALTER TABLE flights ADD gate gate_number[]",
        "ALTER TABLE flights ADD gate int GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE flights ADD gate int GENERATED ALWAYS AS (delay * 2) STORED",
        "ALTER TABLE flights ADD at timestamptz DEFAULT now()",
        "ALTER TABLE flights ADD at timestamptz DEFAULT 'now'",
        "ALTER TABLE flights ADD at date DEFAULT 'today'",
        "ALTER TABLE flights ADD n double precision DEFAULT random()",
        "ALTER TABLE flights ADD who text DEFAULT current_user",
        "ALTER TABLE flights ADD who text DEFAULT 'a' || 'b'",
        "ALTER TABLE ONLY flights ADD gate text",
        "ALTER VIEW flights ADD gate text",
        "DO $$ BEGIN ALTER TABLE flights ADD gate text; END $$",
    ],
)
def test_ddl_that_does_more(statements: str) -> None:
    assert not only_adds_columns(statements)
