"""Tables of users: describing, creating and locking them."""
