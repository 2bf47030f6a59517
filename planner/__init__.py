"""wideplan: plan and tune disaggregated MoE inference on llm-d and vLLM."""

__version__ = "0.1.0"
