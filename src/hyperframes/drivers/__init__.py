"""Carry out a pipeline: offline over files, live over cameras."""
