"""Public simulators that know of speculative decoding, run on what a trace that ships can tell them (docs/peers.md)."""
