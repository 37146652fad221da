class StackError(Exception):
    """What is wrong, in one line that a person can act on."""


class StopAskedError(Exception):
    """Someone asked the stack to stop while it was still starting."""
