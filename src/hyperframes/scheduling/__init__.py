"""Which hyperframe runs when: pure decisions, no I/O, no clock, no threads."""
