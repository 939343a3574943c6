"""A shop whose stores are described by one file, for tests of such files."""

from __future__ import annotations

from pathlib import Path

from sites import Directory
from snaptide import plan
from tests.linked_table import run

SHOP = """
CREATE TYPE public.mood AS ENUM ('low', 'it''s "high"');
CREATE DOMAIN public.price AS numeric(8,2) DEFAULT 1.0 NOT NULL
    CONSTRAINT "not negative" CHECK (VALUE >= 0) CHECK (VALUE < 100000);
CREATE TYPE public.address AS (street text COLLATE "C", moods public.mood[]);
CREATE TYPE public.span AS RANGE (SUBTYPE = int4);
CREATE SCHEMA "Back Office";
CREATE DOMAIN "Back Office"."Code" AS varchar(10);
CREATE TABLE public.customer (
    id int PRIMARY KEY, store_id int NOT NULL, name text, home public.address,
    mood public.mood[]
);
CREATE TABLE public.rental (
    id int PRIMARY KEY, customer_id int NOT NULL REFERENCES public.customer,
    days public.span_multirange, kind text
);
CREATE TABLE public.payment (
    id int PRIMARY KEY,
    rental_id int NOT NULL REFERENCES public.rental ON DELETE CASCADE,
    amount public.price
);
CREATE TABLE "Back Office"."Note" (
    id int PRIMARY KEY, code "Back Office"."Code", text text
);
CREATE INDEX ON public.customer (store_id);
CREATE INDEX ON public.rental (customer_id);
CREATE INDEX ON public.payment (rental_id);
INSERT INTO public.customer
    SELECT g, 1 + g % 3, 'c' || g, ROW('s', '{low}'::public.mood[])::public.address,
        '{low}'::public.mood[]
    FROM generate_series(1, 9) g;
INSERT INTO public.rental
    SELECT g, 1 + g % 9, '{[1,3)}'::public.span_multirange, 'k'
    FROM generate_series(1, 36) g;
INSERT INTO public.payment SELECT g, 1 + g % 36, g FROM generate_series(1, 108) g;
INSERT INTO "Back Office"."Note" VALUES (1, 'JFK', 'a'), (2, 'it''s', 'b');
"""

FILE = """\
[site]
name = "store${store}"

[groups.shop]
master = "hq"

[snapshots.payment]
follow = ["rental"]
updatable = true

[snapshots.rental]
follow = ["customer"]
where = "kind <> 'test'"
updatable = true
grants = {clerk = ["SELECT", "insert"]}

[snapshots.customer]
where = "store_id = ${store}"
updatable = true

[snapshots."Back Office.Note"]
columns = ["id", "code"]

[tables.customer]
groups = {names = ["name"]}

[[tables.customer.update]]
group = "names"
method = "discard"

[destinations.hq]
age = "7d"
size = "10GB"

[[schedules]]
kind = "refresh"
subject = "shop"
every = "5m"
options = {keep_pending = false}

[[schedules]]
kind = "purge"
every = "1d"
paused = true
"""


def write(folder: Path, text: str = FILE, name: str = "store.toml") -> Path:
    """Write a file that describes a site."""
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def planned(directory: Directory, file: Path, **values: str) -> plan.Plan:
    """What would make a site what a file says."""
    return plan.plan(directory, plan.read(file, values))


def applied(
    directory: Directory,
    file: Path,
    *,
    prune: bool = False,
    allow_mass_delete: bool = False,
    **values: str,
) -> plan.Applied:
    """Make a site what a file says."""
    return plan.apply(
        directory,
        plan.read(file, values),
        prune=prune,
        allow_mass_delete=allow_mass_delete,
    )


def make_clerk(directory: Directory) -> None:
    """Create the role that the file grants rights to; roles belong to the cluster."""
    run(
        next(iter(directory.values())),
        "DO $$ BEGIN IF to_regrole('clerk') IS NULL THEN CREATE ROLE clerk; END IF;"
        " END $$",
    )
