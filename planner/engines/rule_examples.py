"""Commands for the examples of rules: short, and alike in everything that is not the point."""

from __future__ import annotations

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
EAGLE3 = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
NGRAM = '{"method": "ngram", "num_speculative_tokens": 3}'
MTP = '{"method": "mtp", "num_speculative_tokens": 2}'
CHAIN = ("--speculative-num-steps 3", "--speculative-eagle-topk 1", "--speculative-num-draft-tokens 4")
SGLANG_EAGLE3 = (f"python3 -m sglang.launch_server --model-path {LLAMA} --speculative-algorithm EAGLE3 "
                 f"--speculative-draft-model-path {EAGLE3} ")


def example(file: str, content: str) -> tuple[str, str]:
    """An example of a rule: the name of a file and what is in it."""
    return file, content


def vllm(spec: str, *, target: str = "Qwen/Qwen3-8B", flags: str = "", env: str = "", then: str = ""
         ) -> tuple[str, str]:
    """A `vllm serve` command with its speculative configuration."""
    return "serve.sh", f"{env}vllm serve {target} {flags}--speculative-config '{spec}'{then}\n"


def sglang(*flags: str, algorithm: str = "EAGLE3") -> tuple[str, str]:
    """An SGLang command."""
    drafter = "" if algorithm == "NGRAM" else "--speculative-draft-model-path org/drafter "
    return "serve.sh", ("python3 -m sglang.launch_server --model-path org/target-8B --speculative-algorithm "
                        f"{algorithm} {drafter}{' '.join(flags)}\n")
