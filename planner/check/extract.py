"""All speculative configurations of one file, whatever its kind."""

from __future__ import annotations

import re

from specplan.planner.check.commands import Found, assigned, environment_only, from_shell, from_words
from specplan.planner.check.documents import from_document
from specplan.planner.check.files import Kind
from specplan.planner.engines.launch import Setting, scalar
from specplan.planner.engines.located import MalformedError, Node, Text, parse_json

# A file without any of these holds no speculative configuration: most files are done here
RELEVANT = re.compile(r"speculative|--spec-|-sc\b|LLAMA_ARG_(?:SPEC|DRAFT)|--draft|-md\b|--model-draft|nextn"
                      r"|candidate_steps"
                      r"|max_draft_(?:len|tokens)|num_draft_tokens|ngram_size|SPEC_V2")
_PINNED = re.compile(r"\b(vllm|sglang|tensorrt[-_]llm|lmdeploy|aiconfigurator)(?:\[[\w,]*\])?==v?(\d+\.\d+[\w.]*)")
_SYSTEMD = re.compile(r"^(Exec\w+=[-@:+!]*|Environment=)", re.MULTILINE)
_DOCKER_LIST = re.compile(r"^[ \t]*(CMD|ENTRYPOINT)[ \t]+(?=\[)", re.MULTILINE | re.IGNORECASE)
_DOCKER_FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)", re.MULTILINE | re.IGNORECASE)
_ENV_LINE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(.*)$", re.MULTILINE)


def extract(source: str, kind: Kind, versions: dict[str, str] | None = None) -> Found:
    """The launches in a file; MalformedError where a YAML or JSON file cannot be read."""
    found = Found(versions={**{name.replace("-", "_"): number for name, number in _PINNED.findall(source)},
                            **(versions or {})})
    text = Text.of(source)
    if kind == "json":
        from_document(text, found, as_json=True)
    elif kind == "yaml":
        from_document(text, found, as_json=False)
    elif kind == "env":
        _environment(source, found)
    elif kind == "dockerfile":
        _dockerfile(text, found)
    elif kind == "systemd":
        from_shell(Text(_SYSTEMD.sub(_systemd, source), text.offsets), found)
    else:
        from_shell(text, found)
    for at, (document, target) in enumerate(found.embedded):
        if at < 100:
            try:
                _embedded(document, target, found)
            except MalformedError as error:     # the rest of the script is readable
                found.unread.append(error)
    return found


def _systemd(match: re.Match[str]) -> str:
    return ("export" if match[0].startswith("Env") else "").ljust(len(match[0]))


def _embedded(text: Text, target: str | None, found: Found) -> None:
    """A here-document: a file of some engine, or a script."""
    content = text.value.lstrip()
    document = (target or "").endswith((".yaml", ".yml", ".json")) or "speculative_config:" in content
    if content.startswith("{") or document:
        from_document(text, found, as_json=content.startswith("{"))
    elif RELEVANT.search(content):
        from_shell(text, found)


def _environment(source: str, found: Found) -> None:
    variables = {}
    for match in _ENV_LINE.finditer(source):
        value = match[2].strip()
        start = match.start(2) + match[2].find(value)
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        text = Text.of(value[1:-1] if quoted else value, start + quoted)
        variables[match[1]] = Setting(match[1], Text.of(match[1], match.start(1)),
                                      Node(scalar(text), text.start, text.end, text=text))
        assigned(Text.of(match[1], match.start(1)), text, found)
    if any(name.startswith(("LLAMA_ARG_SPEC", "LLAMA_ARG_DRAFT")) for name in variables):
        environment_only({name: setting for name, setting in variables.items() if name.startswith("LLAMA_ARG_")}, found)


def _dockerfile(text: Text, found: Found) -> None:
    images = _DOCKER_FROM.findall(text.value)
    image = images[-1] if images else None
    words: dict[str, list[Text]] = {}
    plain = text.value
    for match in _DOCKER_LIST.finditer(text.value):
        end = _list_end(text.value, match.end())
        part = text[match.end():end]
        flat = Text(re.sub(r"\\\r?\n", lambda line: " " * len(line[0]), part.value), part.offsets)
        try:
            items = parse_json(flat)
        except MalformedError:
            continue        # then it is the shell form, by Docker's rules
        words[match[1].upper()] = [item.text for item in items.value if item.text is not None]
        plain = plain[:match.start()] + re.sub(r"[^\n]", " ", plain[match.start():end]) + plain[end:]
    joined = words.get("ENTRYPOINT", []) + words.get("CMD", [])
    if joined:
        from_words(joined, found, image=image)
    from_shell(Text(plain, text.offsets), found, image=image)


def _list_end(source: str, start: int) -> int:
    """End of a bracketed list, up to the end of the continued line."""
    at = start
    while True:
        end = source.find("\n", at)
        if end < 0:
            return len(source)
        if not source[:end].rstrip("\r").endswith("\\"):
            return end
        at = end + 1
