"""Words of shell text with the offset of each character: enough of the grammar to find commands and their arguments.

Not an interpreter: what a variable, a command substitution or a template would put in is a HOLE. Here-documents and
arrays (`ARGS=(...)`) are kept, since launch scripts keep configurations in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from specplan.planner.engines.located import HOLE, Text

_EXPORTS = frozenset({"export", "env", "declare", "local", "readonly", "ENV"})
_OPERATORS = "&|;()<>\n"
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?=)")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


@dataclass(slots=True)
class Heredoc:
    """A here-document: its text, the file that the command writes it to, and whether the shell leaves it as it is."""

    text: Text
    target: str | None = None
    literal: bool = False


@dataclass(slots=True)
class Command:
    """One simple command: `NAME=value` words before it, its words, and what stands on its standard input."""

    words: list[Text] = field(default_factory=list)
    assignments: dict[str, tuple[Text, Text]] = field(default_factory=dict)      # name -> (name, value)
    redirects: list[str] = field(default_factory=list)
    heredocs: list[Heredoc] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.words or self.assignments or self.heredocs)


def commands(text: Text) -> list[Command]:
    """All simple commands of a shell text, those inside functions, loops and arrays too."""
    return _Lexer(text).run()


class _Lexer:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.source = text.value
        self.at = 0
        self.current = Command()
        self.done: list[Command] = []
        self.waiting: list[tuple[str, bool, bool, Command]] = []    # here-documents that start after this line

    def run(self) -> list[Command]:
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in " \t\r":
                self.at += 1
            elif char == "\\" and self.source[self.at + 1:self.at + 2] in {"\n", "\r"}:
                self.at += 3 if self.source[self.at + 1:self.at + 3] == "\r\n" else 2
            elif char == "#":
                self.at = self.line_end()
            elif char in _OPERATORS:
                self.operator(char)
            else:
                self.take(self.word())
        self.close()
        return self.done

    def line_end(self) -> int:
        end = self.source.find("\n", self.at)
        return len(self.source) if end < 0 else end

    def close(self) -> None:
        if self.current:
            self.done.append(self.current)
        self.current = Command()

    def operator(self, char: str) -> None:
        if char in "<>":
            self.redirect(char)
            return
        self.at += 1
        if char == "\n":
            self.close()
            self.read_heredocs()
        elif char != "&" or self.source[self.at:self.at + 1] != ">":    # `&>` redirects
            self.close()

    def redirect(self, char: str) -> None:
        rest = self.source[self.at:self.at + 3]
        if rest == "<<<":
            self.at += 3
        elif rest.startswith("<<"):
            self.at += 2
            strips = self.source[self.at:self.at + 1] == "-"
            self.at += strips
            self.skip_blanks()
            literal = self.source[self.at:self.at + 1] in {"'", '"', "\\"}
            self.waiting.append((self.word().value, strips, literal, self.current))
            return
        else:
            self.at += len(re.match(r"[<>]{1,2}[&|]?", self.source[self.at:])[0])       # type: ignore[index]
        self.skip_blanks()
        if self.at < len(self.source) and self.source[self.at] not in _OPERATORS:
            target = self.word().value
            if char == ">":
                self.current.redirects.append(target)

    def skip_blanks(self) -> None:
        while self.source[self.at:self.at + 1] in {" ", "\t"}:
            self.at += 1

    def read_heredocs(self) -> None:
        waiting, self.waiting = self.waiting, []
        for delimiter, strips, literal, command in waiting:
            start = self.at
            end = len(self.source)
            for match in re.compile(r"^(\t*)(.*)$", re.MULTILINE).finditer(self.source, start):
                line = match[2] if strips else match[0]
                if line.rstrip("\r") == delimiter:
                    end, self.at = match.start(), min(match.end() + 1, len(self.source))
                    break
            else:
                self.at = end
            target = command.redirects[-1] if command.redirects else None
            if target is None and command.words and command.words[0].value == "tee":
                target = command.words[-1].value
            command.heredocs.append(Heredoc(self.text[start:end], target, literal))
            if command not in self.done:
                self.done.append(command)

    def take(self, word: Text) -> None:
        if word.value.isdigit() and self.source[self.at:self.at + 1] in {"<", ">"}:
            return      # the 2 of `2>&1`
        match = _ASSIGNMENT.match(word.value)
        if match and not self.current.words:
            if match.end() == len(word.value) and self.source[self.at:self.at + 1] == "(":
                self.at += 1        # an array: its words form a command of their own, up to the `)`
                self.close()
                return
            self.assign(word, match)
        elif self.current.words and self.current.words[0].value in _EXPORTS and match:
            self.assign(word, match)
        else:
            self.current.words.append(word)

    def assign(self, word: Text, match: re.Match[str]) -> None:
        self.current.assignments[match[1]] = (word[0:match.end(1)], word[match.end():len(word)])

    # One word, of bare, quoted and expanded pieces

    def word(self) -> Text:
        self.chars: list[str] = []
        self.places: list[int] = []
        self.quoted = 0         # 1 where a quote closes the word: its text ends before
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in " \t\r" or char in _OPERATORS:
                break
            self.quoted = int(char in "'\"")
            if char == "'":
                self.single()
            elif char == '"':
                self.double()
            elif char == "\\":
                if self.source[self.at + 1:self.at + 2] == "\n":
                    break
                self.put(self.source[self.at + 1:self.at + 2], self.at)
                self.at += 2
            elif not self.expansion():
                self.put(char, self.at)
                self.at += 1
        self.places.append(self.text.offsets[min(self.at - self.quoted, len(self.source))])
        return Text("".join(self.chars), self.places)

    def put(self, char: str, at: int) -> None:
        if char:
            self.chars.append(char)
            self.places.append(self.text.offsets[at])

    def single(self) -> None:
        end = self.source.find("'", self.at + 1)
        end = len(self.source) if end < 0 else end
        template = _TEMPLATE.finditer(self.source, self.at, end)
        holes = {match.start(): match.end() for match in template}
        at = self.at + 1
        while at < end:
            self.put(HOLE if at in holes else self.source[at], at)
            at = holes.get(at, at + 1)
        self.at = end + 1

    def double(self) -> None:
        self.at += 1
        while self.at < len(self.source) and self.source[self.at] != '"':
            char = self.source[self.at]
            follows = self.source[self.at + 1:self.at + 2]
            if char == "\\" and follows and follows in '"\\$`\n':
                if follows != "\n":
                    self.put(follows, self.at)
                self.at += 2
            elif not self.expansion():
                self.put(char, self.at)
                self.at += 1
        self.at += 1

    def expansion(self) -> bool:
        """Replace `$x`, `${x}`, `$(...)`, backquotes and templates by a HOLE."""
        char, start = self.source[self.at], self.at
        if char == HOLE:
            while self.source[self.at:self.at + 1] == HOLE:
                self.at += 1
        elif char == "{" and (match := _TEMPLATE.match(self.source, self.at)):
            self.at = match.end()
        elif char == "`":
            end = self.source.find("`", self.at + 1)
            self.at = len(self.source) if end < 0 else end + 1
        elif char == "$":
            if not self.dollar():
                return False
        else:
            return False
        self.put(HOLE, start)
        return True

    def dollar(self) -> bool:
        follows = self.source[self.at + 1:self.at + 2]
        if follows in {"{", "("}:
            self.at = self.closing(self.at + 1, follows, "}" if follows == "{" else ")")
        elif follows and follows in "@*#?$!-0123456789":
            self.at += 2
        elif match := _NAME.match(self.source, self.at + 1):
            self.at = match.end()
        elif follows == "'" and (end := self.source.find("'", self.at + 2)) >= 0:
            at = self.at + 2
            while at < end:
                escaped = self.source[at] == "\\"
                self.put(_ANSI.get(self.source[at + 1], self.source[at + 1]) if escaped else self.source[at], at)
                at += 1 + escaped
            self.at = end
        else:
            return False
        return True

    def closing(self, at: int, opens: str, closes: str) -> int:
        depth = 0
        for place in range(at, len(self.source)):
            depth += (self.source[place] == opens) - (self.source[place] == closes)
            if depth == 0:
                return place + 1
        return len(self.source)
