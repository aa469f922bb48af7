"""Proofs, what-ifs and calls of handlers as text, and the exit codes that they mean."""

from typing import TYPE_CHECKING

from ductor.cli.failures import EXIT_FAILED, EXIT_OK
from ductor.cli.options import OutputFormat
from ductor.cli.output import json_text, print_json, print_table, timestamp

if TYPE_CHECKING:
    from ductor.actors.handler_replay import HandlerReplay
    from ductor.actors.verification import Verification
    from ductor.actors.verify import Divergence
    from ductor.actors.what_if_verdict import WhatIf

VALUE_WIDTH = 2_000


def print_verification(found: "Verification", output: OutputFormat) -> int:
    """What a proof found. The exit code is 1 where something does not hold."""
    if output != "table":
        print_json(found)
    else:
        what = "hashes, folding and decisions" if found.is_recomputed else "hashes and folding"
        if found.holds:
            print(f"run {found.run_id}: {found.rows} rows hold ({what}); {found.status}, epoch {found.epoch}")
        for problem in found.problems:
            print(f"run {found.run_id}: {problem}")
        if found.divergence is not None:
            print_divergence(found.divergence)
    return EXIT_OK if found.holds else EXIT_FAILED


def print_divergence(found: "Divergence") -> None:
    """The first row that does not hold."""
    print(f"run {found.run_id}: row {found.version} ({timestamp(found.at_us)} UTC): {found.rule}: {found.reason}")
    if found.event_index is not None:
        print(f"  recorded: {json_text(found.expected, VALUE_WIDTH)}")
        print(f"  computed: {json_text(found.actual, VALUE_WIDTH)}")


def print_what_if(found: "WhatIf", output: OutputFormat) -> int:
    """What another definition would have made of a run. The exit code is 1 unless that is safe."""
    if output != "table":
        print_json(found)
        return EXIT_OK if found.verdict == "safe" else EXIT_FAILED
    print(f"run {found.run_id} under {found.other_manifest_hash[:12]} instead of {found.manifest_hash[:12]}:")
    print(f"{found.verdict}; the run is {found.recorded_status}, and would be {found.what_if_status}")
    for reason in found.reasons:
        print(f"- {reason.verdict}: {reason.text}")
    difference = found.first_difference
    if difference is not None:
        print(f"first difference: row {difference.version}, event {difference.event_index}")
        print(f"  recorded: {json_text(difference.expected, VALUE_WIDTH)}")
        print(f"  would be: {json_text(difference.actual, VALUE_WIDTH)}")
    print()
    cells = [
        (
            step.step,
            step.finding,
            step.recorded,
            step.what_if,
            f"{step.recorded_attempts or ''}"
            if step.recorded_attempts == step.what_if_attempts
            else f"{step.recorded_attempts}, would be {step.what_if_attempts}",
            ", ".join(f"another {what}" for what in step.reads_otherwise),
        )
        for step in found.steps
    ]
    print_table(("step", "finding", "recorded", "would be", "attempts", "given"), cells)
    return EXIT_OK if found.verdict == "safe" else EXIT_FAILED


def print_handler_replay(found: "HandlerReplay", output: OutputFormat) -> int:
    """What a handler did this time, beside the record. The exit code is 1 where that is something else."""
    if output != "table":
        print_json(found)
        return EXIT_OK if found.is_same else EXIT_FAILED
    recorded = found.recorded
    print(f"step {found.step}, attempt {recorded.generation}, handler {recorded.task}")
    print(f"input:    {json_text(recorded.input, VALUE_WIDTH)}")
    print(f"now:      {_ended(found.error, found.output, 'succeeded' if found.error is None else 'failed')}")
    print(f"recorded: {_ended(recorded.error, recorded.output, recorded.outcome)}")
    print("the same as recorded" if found.is_same else "not as recorded")
    return EXIT_OK if found.is_same else EXIT_FAILED


def _ended(error: object, output: object, outcome: str) -> str:
    if outcome == "failed":
        return f"failed: {getattr(error, 'type', '')}: {getattr(error, 'message', '')}".removesuffix(": ")
    return f"succeeded: {json_text(output, VALUE_WIDTH)}" if outcome == "succeeded" else outcome or "no result"
