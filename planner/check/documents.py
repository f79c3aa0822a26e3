"""Launches in YAML and JSON: engine files, docker-compose, Kubernetes, Helm values, pipelines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from specplan.planner.check.commands import Found, assigned, environment_only, from_shell, from_words
from specplan.planner.engines.aiconfigurator import configuration as aiconfigurator
from specplan.planner.engines.dialects import dialect
from specplan.planner.engines.launch import Launch, Setting, scalar
from specplan.planner.engines.located import HOLE, UNKNOWN, MalformedError, Node, Text, parse_json
from specplan.planner.engines.located_yaml import holes_for_variables, parse_yaml
from specplan.planner.engines.onnxruntime_genai import configuration as onnxruntime_genai
from specplan.planner.engines.sglang import configuration as sglang
from specplan.planner.engines.shell import commands

_WORD_KEYS = ("entrypoint", "command", "args", "cmd")
_SCRIPT = re.compile(r"--spec|LLAMA_ARG_SPEC|--draft-max|-md |nextn|speculative_config")
_SPECULATIVE = re.compile(r"(?:^|_)spec(?:ulative)?[-_]?config$", re.IGNORECASE)      # LLM_SPECULATIVE_CONFIG, too
_VLLM_JSON = re.compile(r"\s*\{.*\"(?:method|num_speculative_tokens)\"", re.DOTALL)
_TENSORRT = frozenset({"decoding_type", "max_draft_len", "draft_len_schedule", "speculative_model_dir"})


def from_document(text: Text, found: Found, *, as_json: bool) -> None:
    """Add the launches of a YAML or JSON text; MalformedError if it is neither."""
    if as_json:
        _Walk(found).visit(parse_json(text))
        return
    shift = text.start
    source = text.value
    try:
        roots = parse_yaml(source)
    except MalformedError as error:
        raise MalformedError(str(error), text.offsets[min(error.offset, len(text))]) from None
    for root in roots:
        if shift or not isinstance(text.offsets, range):
            _shift(root, text)
        _Walk(found).visit(root)


def _shift(root: Node, text: Text) -> None:
    """Move positions inside an embedded text to the file that holds it."""
    last = len(text)
    for node in root.walk():
        node.start, node.end = text.offsets[min(node.start, last)], text.offsets[min(node.end, last)]
        for part in ("text", "key"):
            piece: Text | None = getattr(node, part)
            if piece is not None:
                moved = Text(piece.value, [text.offsets[min(at, last)] for at in piece.offsets])
                setattr(node, part, moved)


class _Walk:
    """One pass over a document. A node is read as one thing only: the first that fits."""

    def __init__(self, found: Found) -> None:
        self.found = found

    def visit(self, node: Node, image: str | None = None) -> None:
        if isinstance(node.value, dict):
            self.mapping(node, image)
        elif isinstance(node.value, list):
            self.sequence(node, image)
        elif isinstance(node.value, str) and node.text is not None and _SCRIPT.search(node.value):
            self.script(node.text, image)

    def mapping(self, node: Node, image: str | None) -> None:
        whole = self.whole(node)
        if whole is not None:
            launch = Launch(whole, _place(node), fragment=True)
            dialect(whole).read_mapping(node, launch)
            self.found.add(launch)
            return
        own = node.get("image")
        image = _image(own) or image
        taken = self.words(node, image)
        for key, child in node.value.items():
            if key in taken:
                continue
            if key.replace("-", "_").lower().lstrip("_") in {"speculative_config", "speculativeconfig"} or (
                    _SPECULATIVE.search(key) and isinstance(child.value, str) and _VLLM_JSON.match(child.value)):
                self.speculative(child, node)
            else:
                self.visit(child, image)

    def whole(self, node: Node) -> str | None:
        """The engine whose file (or section) this mapping is as a whole."""
        if sglang.is_adaptive(node):
            return "sglang"
        if onnxruntime_genai.is_configuration(node):
            return "onnxruntime_genai"
        keys = node.value.keys()
        if any(key.lstrip("-").replace("_", "-") in {"speculative-algorithm", "speculative-num-steps"} for key in keys):
            return "sglang"
        if any(key.startswith(("LLAMA_ARG_SPEC", "LLAMA_ARG_DRAFT")) for key in keys):
            return "llama_cpp"
        return "aiconfigurator" if aiconfigurator.is_configuration(node) else None

    def speculative(self, child: Node, around: Node) -> None:
        """The value of a `speculative_config` key: a mapping, or JSON in a string."""
        if child.value is UNKNOWN or child.value is None:
            return
        launch = Launch("vllm", child.key or _place(child), fragment=True)
        if isinstance(child.value, dict):
            if _TENSORRT & child.value.keys():
                launch.engine = "tensorrt_llm"
            dialect(launch.engine).read_mapping(child, launch, around)
        elif isinstance(child.value, str) and child.key is not None and child.text is not None:
            text = holes_for_variables(child.text)
            launch.put(Setting("--speculative-config", child.key, Node(text.value, child.start, child.end, text=text)))
            dialect("vllm").read_mapping(Node({}, child.start, child.end), launch)
        self.found.add(launch)

    def words(self, node: Node, image: str | None) -> frozenset[str]:
        """Read command, args and environment of a container; the keys that were read."""
        variables, env_key = self.environment(node)
        words: list[Text] = []
        used: set[str] = set()
        for key in _WORD_KEYS:
            child = node.value.get(key)
            if child is None:
                continue
            if _is_words(child):
                words.extend(_words(child.value))
                used.add(key)
            elif isinstance(child.value, str) and child.text is not None and (image or node.get("build")):
                words.extend(_joined(child.text))
                used.add(key)
        before = len(self.found.launches)
        for setting in variables.values():
            if setting.node.text is not None:
                assigned(setting.written, setting.node.text, self.found)
        if words:
            from_words(words, self.found, image=image, env=variables)
        if env_key and not any(launch.engine == "llama_cpp" for launch in self.found.launches[before:]):
            llama = {name: setting for name, setting in variables.items() if name.startswith("LLAMA_ARG_")}
            if any(name.startswith(("LLAMA_ARG_SPEC", "LLAMA_ARG_DRAFT")) for name in llama):
                environment_only(llama, self.found)
        return frozenset(used | ({env_key} if env_key else set()))

    def environment(self, node: Node) -> tuple[dict[str, Setting], str]:
        for key in ("env", "environment", "extraEnv"):
            child = node.value.get(key)
            found = {} if child is None else _variables(child)
            if found:
                return found, key
        return {}, ""

    def sequence(self, node: Node, image: str | None) -> None:
        if _is_words(node) and any(_SCRIPT.search(str(child.text.value)) for child in node.value if child.text):
            words = _words(node.value)
            if words[0].value.startswith("-") or len(words) > 1:
                from_words(words, self.found, image=image)
                return
        for child in node.value:
            self.visit(child, image)

    def script(self, text: Text, image: str | None) -> None:
        before = len(self.found.launches)
        from_shell(holes_for_templates(text), self.found, image=image)
        self.found.launches[before:] = [launch for launch in self.found.launches[before:] if not _is_prose(launch)]


def holes_for_templates(text: Text) -> Text:
    """Text in which `{{ ... }}` is a HOLE (a shell keeps the rest)."""
    if "{{" not in text.value:
        return text
    chars, offsets, at = [], [], 0
    for match in re.finditer(r"\{\{.*?\}\}", text.value, re.DOTALL):
        chars.append(text.value[at:match.start()] + HOLE)
        offsets.extend([*text.offsets[at:match.start()], text.offsets[match.start()]])
        at = match.end()
    return Text("".join([*chars, text.value[at:]]), [*offsets, *text.offsets[at:]])


def _is_prose(launch: Launch) -> bool:
    """True where a sentence mentions the flag: what follows is no JSON, nor meant to be."""
    return any(setting.node.text is not None and not setting.node.text.value.lstrip().startswith(("{", "[", "'"))
               for setting in (launch.settings[name] for name, _ in launch.malformed))


def _place(node: Node) -> Text:
    return node.key or Text("", [node.start])


def _image(node: Node | None) -> str | None:
    if node is None:
        return None
    if isinstance(node.value, str):
        return node.value
    repository, tag = node.get("repository"), node.get("tag")       # Helm
    if repository is not None and isinstance(repository.value, str):
        return repository.value + (f":{tag.value}" if tag is not None and isinstance(tag.value, str) else "")
    return None


def _is_words(node: Node) -> bool:
    return isinstance(node.value, list) and bool(node.value) and all(
        not isinstance(child.value, (dict, list)) and child.text is not None for child in node.value)


def _words(children: Sequence[Node]) -> list[Text]:
    words: list[Text] = []
    for child in children:
        if child.text is None:
            continue
        text = holes_for_variables(holes_for_templates(child.text))
        if re.match(r"--?[A-Za-z][\w.-]*\s", text.value):
            words.extend(_joined(text))
        else:
            words.append(text)
    return words


def _joined(text: Text) -> list[Text]:
    """Words of a command in one string, whose line ends are blanks."""
    flat = Text(re.sub(r"\\?\r?\n", lambda match: " " * len(match[0]), text.value), text.offsets)
    return [word for command in commands(holes_for_templates(flat)) for word in command.words]


def _variables(node: Node) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            if child.key is not None and not isinstance(child.value, (dict, list)):
                found[key] = Setting(key, child.key, child)
    elif isinstance(node.value, list):
        for item in node.value:
            name, value = item.get("name"), item.get("value")
            if name is not None and value is not None and name.text is not None and isinstance(name.value, str):
                found[name.value] = Setting(name.value, name.text, value)
            elif isinstance(item.value, str) and item.text is not None and "=" in item.value:
                at = item.value.index("=")
                value_text = holes_for_variables(item.text[at + 1:len(item.text)])
                found[item.value[:at]] = Setting(item.value[:at], item.text[0:at], Node(
                    scalar(value_text), value_text.start, value_text.end, text=value_text))
    return found
