# SPDX-License-Identifier: GPL-2.0-only
"""The exception for what was given and cannot be used."""


class InputError(ValueError):
    """Something that was given and cannot be used: what is wrong, where it stands, and what would be right.

    As text it shows the line. Words that begin with ``--`` are options of the command: here they are arguments of the
    same name.
    """

    message: str
    """What is wrong."""
    file: str
    """File that it stands in; ``dict``, ``text``, or the name of an argument."""
    line: int | None
    """Number of the line, from 1; none if the file as a whole is meant."""
    column: int | None
    """Number of the character, from 1."""
    help: str | None
    """What would be right."""

    def __init__(
        self,
        text: str,
        message: str,
        file: str,
        line: int | None,
        column: int | None,
        help: str | None,
    ) -> None:
        # All of them, so that it can be sent to another process.
        super().__init__(text, message, file, line, column, help)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.help = help

    def __str__(self) -> str:
        return str(self.args[0])
