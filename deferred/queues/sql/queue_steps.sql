-- The statements of a queue's function that name columns of the captured table, as c1, c2,
-- ... Each is installed twice: with the names that the columns had when the function was
-- made, and composed for the case that they have other names now (either_way.sql). Names
-- are qualified with r, because a column may be called like a variable, such as NEW.

-- step: insert
INSERT INTO {queue} (call_no, xid, kind, moved, {new_images})
SELECT nextval('snaptide.order_no'), {xact}, {ins}, false, {new_columns}
FROM (SELECT {named} FROM snaptide_new AS r) AS n

-- step: delete
INSERT INTO {queue} (call_no, xid, kind, moved, {old_images})
SELECT nextval('snaptide.order_no'), {xact}, {del}, false, {old_columns}
FROM (SELECT {named} FROM snaptide_old AS r) AS o

-- step: update_by_place
INSERT INTO {queue} (call_no, xid, kind, moved, {old_images}, {new_images})
SELECT nextval('snaptide.order_no'), {xact}, {upd}, p.*
FROM (SELECT NOT ({same_key}), {old_columns}, {new_columns}
      FROM (SELECT {named}, row_number() OVER () AS place FROM snaptide_new AS r) AS n
      FULL JOIN (SELECT {named}, row_number() OVER () AS place FROM snaptide_old AS r) AS o
      ON n.place = o.place
      ORDER BY n.place) AS p

-- step: update_by_key
INSERT INTO {queue} (call_no, xid, kind, moved, {old_images}, {new_images})
SELECT nextval('snaptide.order_no'), {xact},
       CASE WHEN n.{key} IS NULL THEN {del} WHEN o.{key} IS NULL THEN {ins} ELSE {upd} END,
       n.{key} IS NULL OR o.{key} IS NULL,
       {old_columns}, {new_columns}
FROM (SELECT {named} FROM snaptide_new AS r) AS n
FULL JOIN (SELECT {named} FROM snaptide_old AS r) AS o ON {same_key}

-- step: moved_by_key
{select} FROM (SELECT {named} FROM snaptide_new AS r) AS n
FULL JOIN (SELECT {named} FROM snaptide_old AS r) AS o ON {same_key}
WHERE n.{key} IS NULL OR o.{key} IS NULL LIMIT 1

-- step: extra
INSERT INTO {extra} ({extra_keys}) SELECT {keys} FROM (SELECT {named} FROM {rows} AS r) AS r
