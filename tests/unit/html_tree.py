"""A page as its elements and texts."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "rect", "path", "input", "img"}


class Tree(HTMLParser):
    """Collects what the tests ask about, and complains about elements that do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._pieces: dict[str, list[list[str]]] = {}
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        self.texts = {tag: ["".join(each) for each in pieces] for tag, pieces in self._pieces.items()}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self._pieces.setdefault(tag, []).append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self._pieces[tag][-1].append(data)

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(attribute)) is not None]

    def text(self) -> str:
        return " ".join(" ".join(self.texts["main"]).split())
