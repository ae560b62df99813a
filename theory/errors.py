"""The one exception for input that a user can mend."""


class InvalidInput(ValueError):
    """Input that cannot be used as it stands.

    The message is one line: what is wrong, where (file, row, field or prefix), and the mend. The command
    line prints it and exits with 2; no other exception is turned into a message, so that a defect of ours
    is never dressed up as a mistake of the user's.
    """
