"""Proving that a site's snapshots equal their defining queries, while users write.

A check reads one moment H of the site and then one moment M of its master, and asks
what may differ between them. At H the site says which position P of the master its
group shows; the rows there are those of P, but for keys that its own log names.

- A row of the master that changed between P and M is in the master's snapshot logs,
  and so is what decides whether it belongs (`snapshots.definitions.parents`): the keys
  A.
- A row that a user of the site changed, and whose answer by the master is not among
  the rows of P, is in the queue and not covered; what a refresh held back is among the
  extra keys: the keys B, all of them read at H.

So a difference whose key is in neither A nor B cannot be explained by work under way.
It is proven, whatever was written, pushed or refreshed meanwhile.

The order matters, H before M. P was read at the master before H began, so that M has
seen all that P has, and no refresh can bring the site ahead of M. What a push brings to
the master between the two moments is logged there, and is in A. And B is cut off by the
place up to which a refresh has covered the queue, which the site knows at H, not by the
marker at M: what the master parks after P changes nothing there, is not in A, and would
be missed. The marker only tells pending changes from answered ones.

If the logs cannot name all changes since P, nothing is proven, and the check says so.
If they reach back no longer because a refresh has finished since H, it begins anew.
"""
