"""Shows the examples in docstrings as code; Markdown would take >>> for quotations."""

import re

from griffe import Extension, Object

EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+", re.MULTILINE)


class Doctests(Extension):
    """Puts runs of lines that begin with >>> into blocks of code."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
