"""Errors that a user can do something about."""


class Refused(Exception):
    """What cannot be done right is refused, before training: what, where, and what to do."""
