"""Making masters equal to one of them, by the ordinary ways, while users write at all.

The operator names the *reference*: no program can know which master is right. For each
row of a *target* that differs, and whose difference nothing explains (`groups.check`),
a *correction* is queued: a deferred transaction by the user `rectify`, whose old values
are the target's row and whose new values are the reference's. A push takes it to the
target, where it is compared, settled by rules, applied or parked as any other.

What makes a correction right:

- It begins with the target's row at a moment at which the same transactions have come
  to reference and target. So what comes to the target after that, from its users or
  from other masters, is a conflict, and is not lost.
- It ends with the reference's row, which is locked until the correction is queued, and
  is the same version that was there at the moment. So what users change at the
  reference after that is queued after the correction, and begins with what it brings.
- It is queued where the target gets the changes of the reference from: at the reference
  itself, if the paths lead from there straight to the target, and else at the master
  that sends them on. On the way they cannot overtake it.
- It takes a route of its own, to the target alone (`groups.table_queue`). The others
  have no use for it, and the target does not send it on.

While it is on its way the row is in flight, for a check and for the next rectify; two
of these for the same target take turns. Before anything is queued, the rows are
compared once more, so it does not matter how old the plan is.
"""
