"""Multi-token-prediction modules: how many a checkpoint has and what their layer looks like."""

from __future__ import annotations

from dataclasses import replace

from specplan.planner.models.architecture import Ffn, LatentAttention, Layer, Mixer, MtpModules
from specplan.planner.models.attention import mtp_mixer
from specplan.planner.models.feed_forward import dense_ffn, moe_ffn
from specplan.planner.models.fields import Fields
from specplan.planner.models.layer_kinds import hybrid_blocks

# Modules in the weights without a field: MiMo-V2 ships three of dense FFN and window attention, 0.33 B parameters each
# (MiMo-V2-Flash technical report, section on MTP).
WITHOUT_FIELD = {"mimo_v2_flash": 3, "mimo_v2": 3}
# Families whose modules have window attention and a dense FFN although the model is a mixture of experts.
# Step: legacy entries of layer_types beyond the layers; Inkling: transformers 5.24 `mtp_mlp_layer_types`.
LIGHT_MODULES = ("mimo_v2", "step3", "inkling")


def read_mtp(fields: Fields, layers: list[Layer]) -> MtpModules | None:
    """The MTP modules, None where the checkpoint has none. A module's layer is the last layer's unless known better."""
    if fields.values.get("use_mtp") is False:
        return None
    family = fields.family
    modules = _modules(fields, family)
    if not modules or not layers:
        return None
    mixer, ffn = _layer(fields, family, layers)
    return MtpModules(modules=modules, layer=Layer(mixer=mixer, ffn=ffn), layers=fields.size("mtp_layers", default=1))


def _modules(fields: Fields, family: str) -> int:
    nested = fields.part("mtp_config")
    if fields.has("mtp_modules"):
        return fields.size("mtp_modules", low=0, high=64)
    if nested is not None and nested.values.get("num_nextn_predict_layers") is not None:
        return nested.named_size("num_nextn_predict_layers", low=0)
    if family in WITHOUT_FIELD:
        fields.note("mtp-without-field", f"{WITHOUT_FIELD[family]} MTP modules assumed: the published weights of "
                                         f"{family} have them, its config.json has no field for them")
        return WITHOUT_FIELD[family]
    return 0


def _layer(fields: Fields, family: str, layers: list[Layer]) -> tuple[Mixer | None, Ffn | None]:
    blocks = hybrid_blocks(fields, letters="mtp_letters", blocks="mtp_blocks")
    if blocks:      # Nemotron: one block of each half makes one layer
        mixer = mtp_mixer(fields, None) if {"attention", "full_attention"} & set(blocks) else None
        ffn: Ffn | None = None
        if "moe" in blocks or "mlp" in blocks:
            ffn = moe_ffn(fields) if "moe" in blocks else dense_ffn(fields)
        return mixer, ffn
    light = family.startswith(LIGHT_MODULES)
    last_mixer = next((layer.mixer for layer in reversed(layers) if layer.mixer is not None), None)
    last_ffn = next((layer.ffn for layer in reversed(layers) if layer.ffn is not None), None)
    mixer = mtp_mixer(fields, last_mixer, sliding=light)
    if isinstance(mixer, LatentAttention) and mixer.index is not None:
        mixer = replace(mixer, index=replace(mixer.index, own_scorer=True))
    return mixer, dense_ffn(fields) if light else last_ffn
