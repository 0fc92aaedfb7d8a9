"""Fitted models as ONNX graphs, which run where there is no Python."""
