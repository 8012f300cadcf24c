"""Suites for people who write sources, operators and sinks; the built-in ones pass the same."""
