"""Random configs: the reader answers or refuses with a PlannerError, and what it answers is consistent."""

from __future__ import annotations

import copy
import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.locate import data_root
from planner.catalog.models import read_model
from planner.catalog.models.catalogue import INDEX_FILE
from planner.domain.dtypes import KvDtype
from planner.domain.errors import PlannerError
from planner.domain.model import ModelSpec

ENTRIES = [
    json.loads(f.read_text())
    for f in sorted((data_root() / "profiles" / "models").glob("*.json"))
    if f.name != INDEX_FILE
]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.integers(10**9, 10**30),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.sampled_from(["fp8", "nvfp4", "NVFP4", "re:(", "re:.*", "*", "full_attention", "float32"]),
    st.lists(st.one_of(st.integers(-1, 5), st.none(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def check(spec: ModelSpec) -> None:
    total = spec.total_parameters
    assert math.isfinite(total)
    assert 0 < spec.mean_active_parameters <= spec.active_parameters * (1 + 1e-9) <= total * (1 + 2e-9)
    assert 0 < spec.weight_bytes <= 2 * total * (1 + 1e-9)
    bf16, fp8 = (spec.kv_bytes_per_token(k) for k in (KvDtype.BF16, KvDtype.FP8))
    assert 0 <= fp8 <= bf16
    assert spec.fixed_state_bytes() >= 0
    assert spec.num_layers == sum(g.count for g in spec.layers)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_configs_are_read_or_refused(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(ENTRIES))
    config = copy.deepcopy(entry["config"])
    for _ in range(data.draw(st.integers(1, 4))):
        node = config
        while True:
            key = data.draw(st.sampled_from(sorted(node)))
            if isinstance(node[key], dict) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            break
        if data.draw(st.booleans()):
            node[key] = data.draw(JUNK)
        else:
            del node[key]
        if not config:
            break
        if not node:
            continue
    quant = data.draw(
        st.one_of(st.just(entry.get("quant_config")), st.just({"quantization": data.draw(JUNK)}))
    )
    try:
        spec = read_model(config, model_id="x", quant=quant)
    except PlannerError as e:
        issues = e.issues
    else:
        issues = ()
        check(spec)
    assert all(i.code and i.what and i.why and i.fix for i in issues)


@settings(max_examples=150, deadline=None)
@given(
    layers=st.integers(1, 100),
    hidden=st.integers(1, 200).map(lambda n: 64 * n),
    kv_heads=st.integers(1, 16),
    groups=st.integers(1, 16),
    head_dim=st.sampled_from([32, 64, 96, 128, 192, 256]),
    experts=st.integers(1, 1024),
    top_k=st.integers(1, 64),
    width=st.integers(1, 100).map(lambda n: 64 * n),
    dense=st.integers(0, 10),
    shared=st.integers(0, 4),
    tied=st.booleans(),
)
def test_random_glm_configs_follow_the_closed_form(
    layers, hidden, kv_heads, groups, head_dim, experts, top_k, width, dense, shared, tied
) -> None:
    top_k, dense, vocab = min(top_k, experts), min(dense, layers), 32_000
    heads = kv_heads * groups
    spec = read_model(
        {
            "architectures": ["Glm4MoeForCausalLM"],
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "n_routed_experts": experts,
            "num_experts_per_tok": top_k,
            "moe_intermediate_size": width,
            "n_shared_experts": shared,
            "first_k_dense_replace": dense,
            "intermediate_size": 4 * width,
            "vocab_size": vocab,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": tied,
        },
        model_id="x",
    )
    check(spec)
    attention = hidden * head_dim * (2 * heads + 2 * kv_heads)
    moe = 3 * hidden * width * (experts + shared) + hidden * experts
    expected = (
        layers * attention
        + (layers - dense) * moe
        + dense * 12 * hidden * width
        + vocab * hidden * (1 if tied else 2)
        + (2 * layers + 1) * hidden
    )
    assert spec.total_parameters == expected
    assert expected - spec.active_parameters == (layers - dense) * 3 * hidden * width * (experts - top_k)
    assert spec.kv_bytes_per_token(KvDtype.BF16) == layers * kv_heads * head_dim * 4
