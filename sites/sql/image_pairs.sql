(SELECT *, row_number() OVER () AS snaptide$place FROM snaptide_new AS n ({row})) AS n
                  FULL JOIN (SELECT *, row_number() OVER () AS snaptide$place FROM snaptide_old AS o ({row})) AS o
                  ON n.snaptide$place = o.snaptide$place