"""The NPU's own attention and fused layers."""
