-- Added once the rows are there, which is faster. A plane or a destination that the
-- data set does not know is no error, so that flights refer to neither.
ALTER TABLE public.airlines ADD PRIMARY KEY (carrier);
ALTER TABLE public.airports ADD PRIMARY KEY (faa);
ALTER TABLE public.planes ADD PRIMARY KEY (tailnum);
ALTER TABLE public.weather ADD PRIMARY KEY (origin, time_hour);
-- No number that two sites could give twice while they do not see each other.
ALTER TABLE public.flights
    ADD PRIMARY KEY (year, month, day, origin, carrier, flight),
    ADD FOREIGN KEY (carrier) REFERENCES public.airlines (carrier),
    ADD FOREIGN KEY (origin) REFERENCES public.airports (faa);
ANALYZE public.airlines, public.airports, public.planes, public.flights, public.weather;
