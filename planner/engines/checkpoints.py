"""What the name of a checkpoint tells: block, MTP depth, trained positions, size, family. None where it does not.

Only published facts are listed; a name that is not here yields None and the rules stay silent. Sources: config.json
copies of the models and training configurations (SpecForge a6b6b023), the vLLM recipes, and names themselves.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"(?:block[-_]?|[-_]b)(\d{1,2})(?![\dB])", re.IGNORECASE)
_SIZE = re.compile(r"(?<![\w.])(?:[a-zA-Z]*-)?(\d+(?:\.\d+)?)[xX]?(\d+(?:\.\d+)?)?[bB](?![a-zA-Z])")
_MOE = re.compile(r"-A\d+(?:\.\d+)?B|\d+x\d+B|\d+B-\d+E|deepseek-(?:v[234]|r1)(?!-distill)|kimi-k\d|gpt-oss"
                  r"|minimax-m\d|"
                  r"glm-(?:4\.[5-9]|5)|mimo-v2|llama-4|step-3\.|hy3|inkling", re.IGNORECASE)
_FAMILIES = ("qwen", "llama", "mistral", "gemma", "phi", "deepseek", "glm", "smollm", "granite", "falcon", "opt",
             "olmo")

# Modules in the checkpoint: num_nextn_predict_layers, mtp_num_hidden_layers, num_mtp_modules in config.json
_MTP_DEPTH = (
    (r"minimax-m2(?:\.\d)?(?!\d)", 3), (r"minimax-m3", 7), (r"inkling", 8), (r"step-3\.[57]", 3),
    (r"deepseek-(?:v3|r1)(?!-distill)", 1), (r"glm-(?:4\.[5-9]|5)", 1), (r"qwen3\.[568]|qwen3-next", 1),
    (r"nemotron-3(?:-super|-ultra|\.5)", 1), (r"mimo-7b", 1), (r"hy3", 1),
)
# max_position_embeddings of the drafter, far below what its target serves
_POSITIONS = (
    (r"eagle3?-llama3?\.?1?-instruct-8b|llama-?3\.1-8b.*eagle3|eagle3.*llama-?3\.1.*8b", 2048),
    (r"scout.*eagle3|eagle3.*scout", 2048),
    (r"qwen3[-_](?:coder[-_])?30b.*eagle3|eagle3.*qwen3.*30b", 2048),
    (r"gpt-oss.*eagle3|eagle3.*gpt-oss", 4096),
    (r"llama-?3.*70b.*eagle3|eagle3.*llama-?3.*70b", 4096),
)
# Trained block as the checkpoint counts it: DFlash with the anchor, DSpark without
_BLOCKS = (
    (r"dflash-?2", 8), (r"muse-glimmer.*assistant", 16), (r"dflash", 16), (r"deepseek-v4", 5),
    (r"(?:glm-5\.2|kimi-k3|inkling|qwen3-[48]b).*dspark|dspark.*(?:glm-5\.2|kimi-k3|inkling|qwen3-[48]b)", 7),
)
# num_hidden_layers, of models that people run in part on a CPU
_LAYERS = ((r"qwen3\.[5-8]-27b", 64), (r"qwen3\.[56]-35b-a3b", 40), (r"qwen3-30b-a3b", 48), (r"qwen2\.5-32b", 64),
           (r"llama-3\.\d-70b", 80), (r"gpt-oss-20b", 24), (r"gpt-oss-120b", 36))
_FROM_ANCHOR = re.compile(r"domino|speculators?", re.IGNORECASE)     # may draft from the anchor: D = block


def block(name: str | None) -> int | None:
    """The trained block of a DFlash or DSpark drafter, from its name."""
    if not name:
        return None
    written = _BLOCK.search(name)
    return int(written[1]) if written else _lookup(_BLOCKS, name)


def drafts_from_anchor(name: str | None) -> bool:
    """True where a DFlash-like drafter may fill its whole block (Domino, `sample_from_anchor` of speculators)."""
    return bool(name and _FROM_ANCHOR.search(name))


def mtp_depth(name: str | None) -> int | None:
    """Trained MTP modules of a target."""
    return _lookup(_MTP_DEPTH, name)


def layers(name: str | None) -> int | None:
    """Layers of a target."""
    return _lookup(_LAYERS, name)


def positions(name: str | None) -> int | None:
    """Longest context that a drafter was trained for, where it is short."""
    return _lookup(_POSITIONS, name)


def billions(name: str | None) -> float | None:
    """Parameters in 1e9 as the name says them; of a mixture of experts, all."""
    if not name:
        return None
    found = _SIZE.search(name.rsplit("/", 1)[-1])
    if not found:
        return None
    first = float(found[1])
    return first * float(found[2]) if found[2] else first


def is_moe(name: str | None) -> bool:
    """True for names of mixtures of experts."""
    return bool(name and _MOE.search(name))


def families(name: str | None) -> frozenset[str]:
    """Tokenizer families that a name mentions (a distilled model may mention two)."""
    lowered = (name or "").lower()
    return frozenset(family for family in _FAMILIES if re.search(rf"(?<![a-z]){family}", lowered))


def is_eagle3(name: str | None) -> bool:
    """True for names of EAGLE-3 drafters."""
    return bool(name and re.search(r"eagle[-_]?3", name, re.IGNORECASE))


def is_eagle(name: str | None) -> bool:
    """True for names of EAGLE-1 and -2 drafters."""
    return bool(name and not is_eagle3(name) and re.search(r"eagle(?![-_]?\d|[a-z])", name, re.IGNORECASE))


def _lookup(table: tuple[tuple[str, int], ...], name: str | None) -> int | None:
    lowered = (name or "").lower()
    return next((value for pattern, value in table if re.search(pattern, lowered)), None)
