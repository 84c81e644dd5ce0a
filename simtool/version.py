"""The version, in the one place that packaging and every manifest read it from."""

__version__ = "0.1.0"
