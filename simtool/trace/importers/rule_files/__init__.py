"""The rule files that ship: which annotation, call or kernel of a serving engine is which op of ours."""
