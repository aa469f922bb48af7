"""Scenario files: workflows tested without code, in virtual time.

`reader` turns text into `model`, `runner` plays one scenario on the real engine with `answers` for handlers,
`comparison` says what differed, `report` prints it.
"""
