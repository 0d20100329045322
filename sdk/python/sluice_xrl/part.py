"""A component's part of the configuration, and changes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Part:
    """A part of the configuration, by what stands directly in it, with the shared subtrees that the component takes too."""

    def __init__(self) -> None:
        self.members: dict[str, Any] = {}
        self.lists: dict[str, dict[tuple[str, ...], Any]] = {}
        self.shared: dict[str, Part] = {}

    def after(self, change: Mapping[str, Any]) -> "Part":
        """This with a change carried out."""
        part = Part() if change.get("clear") else self._copy()
        for edit in change["edits"]:
            subtree = edit.get("subtree")
            target = part if subtree is None else part.shared.setdefault(subtree, Part())
            target._edit(edit)
        return part

    def _copy(self) -> "Part":
        part = Part()
        part.members = dict(self.members)
        part.lists = {name: dict(entries) for name, entries in self.lists.items()}
        part.shared = {name: subtree._copy() for name, subtree in self.shared.items()}
        return part

    def _edit(self, edit: Mapping[str, Any]) -> None:
        name, value = edit["name"], edit.get("value")
        place, key = self.members, name
        if "key" in edit:
            place, key = self.lists.setdefault(name, {}), tuple(edit["key"])
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value

    def change(self) -> dict[str, Any]:
        """The change that makes this of nothing."""
        edits: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in self.members.items()]
        for name, entries in self.lists.items():
            edits += [{"name": name, "key": list(key), "value": value} for key, value in entries.items()]
        for subtree, part in self.shared.items():
            edits += [{**edit, "subtree": subtree} for edit in part.change()["edits"]]
        return {"clear": True, "edits": edits}

    def whole(self) -> dict[str, Any]:
        """All of it as the schema has it; a shared subtree is a member of its name."""
        lists = {name: list(entries.values()) for name, entries in self.lists.items() if entries}
        shared = {name: subtree.whole() for name, subtree in self.shared.items()}
        return {**self.members, **lists, **{name: subtree for name, subtree in shared.items() if subtree}}
