"""Writing staged changes to tables of users, in an order that constraints allow."""
