"""The command line: parse, build a pipeline, call a driver, print."""
