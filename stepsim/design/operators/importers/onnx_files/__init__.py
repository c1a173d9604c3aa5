"""Operator graphs of ONNX models."""
