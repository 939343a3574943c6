"""Proving that the masters of a group have the same rows, while users write at all.

A check holds one moment M of each master, in any order, and compares the rows of these
moments. Then it holds a later moment Q of each master, and asks there what was queued.

A transaction *is at* a master at its moment if it was made there and M shows it, or if
it has come there: the marker at M, which the apply moves in the same transaction, has
passed it. What a master makes of a transaction depends only on those that are at it. So
two masters that have the same transactions have the same rows, but for what was parked,
or decided by an operator.

Say a transaction is at one of two masters and not at the other. From where it began,
paths lead to both, and no transaction comes to a master before it is at the one that
sends it. So there is a step of a path, from a sender to a destination, that divides
them: the transaction is at one end of the step and not at the other.

- It is at the sender. Then it is in the sender's queue, and was when M was held.
- It is at the destination only: the sender made it, or sent it on, after its own M. But
  it did so before it came to the destination, and so before all Q.

In either case the queue at Q has it, with its keys, for that destination. Whether the
sender's M shows it is told by its id, and whether it has come by its place in the
sender's batches and the marker at the destination's M. These keys, and no others, are
*in flight*. A transaction that is nowhere at M explains nothing, and neither does one
that is everywhere: keys that are written all the time do not hide a fault for long.

It does not matter what a push does on the way. One that compiles many transactions into
one moves the marker once, with their rows. What comes by a second way and is left out
counts as come. A site that is switched to another master brings its changes there, and
they are in that master's queue. A change that a trigger makes is in the queue of the
master where it fires. Paths are changed only when nothing is on its way, and a master
that joins is sent what comes after its copy.

What was parked is named by the error queue with all its rows, and what was decided by
the list of differing rows (`deferred.parked.differing`). Both are read at M and at Q:
a site may take a transaction out of its own queue in between, and then it is parked.

Something may be on its way whose rows nobody can name. What is not explained otherwise
*cannot be told* then:

- a call of a procedure is on its way, or parked: it may change any row;
- a master is away, and its queue with it. The ledgers name the transactions that it has
  brought: if all have come to the same masters, its queue explains nothing. What goes
  over it to others cannot be told for the rows of those transactions;
- one of two masters was restored, and they have not agreed since: places in batches
  mean nothing until the next push;
- calls that had not come were purged, as when a path was ended by force.

If calls are purged between M and Q, or if the group's description changes, the check
begins anew. A master that joins, and one that takes changes unprotected, is not
compared. Neither is one whose description of the group is old.

Rules that do not converge (docs/explanation/convergence.md) leave masters with
different rows when everything has come. Such rows are unexplained: nothing on its way
will make them equal.
"""
