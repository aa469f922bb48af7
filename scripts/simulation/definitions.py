"""Random definitions over every step type and every part of the language that can run.

What can run is asked of the engine, so that a step type or a part that gets its behaviour is simulated from then on.
All times are short, so that every run can be brought to its end within the bounds of a campaign.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from ductor.actors.steps import RUNNABLE_TYPES
from ductor.definitions.compile import Compiled, compile_document
from ductor.definitions.errors import DefinitionError
from ductor.definitions.unsupported import refuse_unsupported
from ductor.definitions.values import JsonObject, JsonValue
from scripts.simulation.chance import Chance
from scripts.simulation.child_runs import runs_of
from scripts.simulation.plan import EVENTS, PEOPLE, SIGNALS

TASK: Final = "work"
MAX_STEPS: Final = 12
MAX_TRIES: Final = 200

CONDITIONS: Final = ("context.n % 2 == 0", "trigger.id % 2 == 0", "true", "false", "context.n > 2")
MATCHES: Final = (None, "event.payload.id == trigger.id", "event.payload.id == trigger.id && event.payload.n > 0")
ITEMS: Final = ("[]", "[1, 2, 3]", "[trigger.id, context.n, 1, 2, 3, 4, 5]", '{"a": 1, "b": trigger.id}', "context.n")
ENOUGH: Final = ("succeeded >= 2", "failed > 0", "succeeded + failed >= total - 1", "context.n > 3")
STRATEGIES: Final = ("partition", "include", "drop", "raise")
ERRORS: Final = ("Boom", "Timeout", "Busy")
ON_MAX: Final = ("fail", "continue")
CHECKPOINT: Final = "half"

MAX_BODY_LEVELS: Final = 2
"""Inline bodies within each other."""

MAX_RUNS: Final = 24
"""Runs that one run of a definition makes, itself included, if everything starts that may."""

NOTHING_KNOWN: Final[Mapping[str, int]] = {}


class NoDefinitionError(Exception):
    """No try gave a definition that compiles and can run."""


def random_definition(chance: Chance, name: str, known: Mapping[str, int] = NOTHING_KNOWN) -> JsonObject:
    """A document that compiles and that the engine takes. Raises NoDefinitionError.

    Args:
        known: definitions that it may start, with the number of runs that a run of them may make.
    """
    for _ in range(MAX_TRIES):
        document = _Drawing(chance, known).document(name)
        if runs_of(document, known) <= MAX_RUNS and compiled_or_none(document) is not None:
            return document
    raise NoDefinitionError(f"none of {MAX_TRIES} random documents compiles")


def compiled_or_none(document: JsonObject) -> Compiled | None:
    """The compiled document; None where it breaks a rule of the language, or can't run."""
    try:
        compiled = compile_document(document)
    except DefinitionError:
        return None
    return None if refuse_unsupported(compiled, RUNNABLE_TYPES) else compiled


@cache
def can_run(part: str) -> bool:
    """Whether the engine carries out this part of the language."""
    step: JsonObject = {"ref": "s1", "type": "transform", "value": 1}
    document: JsonObject = {"name": "probe", "steps": [step]}
    if part == "on":
        document["on"] = [{"signal": "go", "effects": {"heard": 1}}]
    else:
        forms: JsonObject = {"emit": [{"event": "paid"}], "signal": [{"run": "${run.id}", "name": "go"}]}
        step[part] = forms[part]
    return compiled_or_none(document) is not None


class _Drawing:
    """Draws one document, or one body of it."""

    def __init__(self, chance: Chance, known: Mapping[str, int], level: int = 0) -> None:
        self._chance, self._known, self._level = chance, known, level
        self._types: dict[str, Callable[[JsonObject], None]] = {
            "task": self._task,
            "transform": self._transform,
            "conditional": self._conditional,
            "rule": self._rule,
            "wait": self._wait,
            "approval": self._approval,
            "human_loop": self._human_loop,
            "interaction": self._interaction,
            "event_set": self._event_set,
            "digest": self._digest,
            "subworkflow": self._subworkflow,
            "scatter": self._scatter,
            "gather": self._gather,
        }
        self._scatters: list[JsonObject] = []
        self._sources: dict[str, set[str]] = {}
        self._refs: list[str] = []

    def document(self, name: str) -> JsonObject:
        chance = self._chance
        steps = self._steps(chance.one_of((1, 2, 4, 6, 8, MAX_STEPS)))
        document: JsonObject = {"ductor": 1, "name": name, "context": {"n": 0}, "steps": steps}
        if chance.happens(0.15):
            document |= {"timeout": f"{chance.whole(8, 40)}s", "on_timeout": chance.one_of(("fail", "cancel"))}
        if chance.happens(0.3):
            document["defer"] = [self._deferred(number) for number in range(1, chance.whole(1, 2) + 1)]
        if chance.happens(0.2):
            document["output"] = {"n": "${context.n}"}
        if chance.happens(0.15):
            document["repeat"] = self._rounds()
        if chance.happens(0.1) and runs_of(document, self._known) == 1:
            # a run that is continued again and again before it comes to its end has to end some time, and meanwhile it
            # must not start others again and again
            document |= {"continue_as_new_after": chance.whole(3, 12), "timeout": f"{chance.whole(8, 40)}s"}
        if chance.happens(0.1):
            document["lease"] = self._lease("run")
        if can_run("on") and chance.happens(0.3):
            document["on"] = self._handlers()
        return document

    def body(self) -> JsonObject:
        """An inline body: what a child run carries out."""
        body: JsonObject = {"steps": self._steps(self._chance.whole(1, 3))}
        if self._chance.happens(0.5):
            body["output"] = {"n": "${context.n}", "id": "${trigger.id}"}
        return body

    def _steps(self, count: int) -> list[JsonValue]:
        chance = self._chance
        self._refs = [f"s{number}" for number in range(1, count + 1)]
        self._sources = {ref: set() for ref in self._refs}
        known = sorted(self._types.keys() & RUNNABLE_TYPES)
        weighted = [*known, *("task",) * 7, "wait", "wait", "wait"]
        if self._level == 0 or self._known:
            weighted += ["subworkflow", "subworkflow"]
        steps = [self._step(number, chance.one_of(weighted)) for number in range(count)]
        for step in steps:
            self._join(step)
        return list(steps)

    def _rounds(self) -> JsonObject:
        chance = self._chance
        rounds: JsonObject = {"until": chance.one_of(CONDITIONS), "max": chance.whole(1, 4)}
        if chance.happens(0.4):
            rounds["every"] = chance.one_of(("200ms", "2s"))
        return rounds | {"on_max": chance.one_of(("fail", "continue"))}

    # --- what all steps have ------------------------------------------------------------------------------------------

    def _step(self, number: int, type_name: str) -> JsonObject:
        chance = self._chance
        step: JsonObject = {"ref": self._refs[number], "type": type_name}
        if chance.happens(0.6):
            step["on_error"] = "continue"
        if chance.happens(0.15):
            step |= {"run_if": chance.one_of(CONDITIONS), "on_skip": chance.one_of(("continue", "stop"))}
        if chance.happens(0.5):
            step["effects"] = {"n": "${context.n + 1}"}
        if chance.happens(0.12):
            step["lease"] = self._lease("step")
        self._types[type_name](step)
        if chance.happens(0.25):
            has_child = step["type"] == "subworkflow" and chance.happens(0.7)
            step["compensate"] = {"child": True} if has_child else self._undo()
        if chance.happens(0.3):
            step["checkpoint"] = CHECKPOINT
        self._edges(step, self._refs[number + 1 :])
        if step["type"] == "scatter":
            self._scatters.append(step)
        others = [ref for ref in self._refs if ref != step["ref"]]
        if others and chance.happens(0.08):
            step["cancels"] = [chance.one_of(others)]
        if can_run("emit") and chance.happens(0.08):
            step["emit"] = [{"event": chance.one_of(EVENTS), "payload": {"id": "${trigger.id}", "n": 1}}]
        if can_run("signal") and type_name != "wait" and chance.happens(0.06):
            step["signal"] = [{"run": "${run.id}", "name": chance.one_of(SIGNALS), "payload": "${context.n}"}]
        return step

    def _undo(self) -> JsonObject:
        chance = self._chance
        undo: JsonObject = {"task": TASK, "input": {"id": "${trigger.id}", "n": "${context.n}"}}
        if chance.happens(0.1):
            undo["input"] = {"id": "${output.missing}"}
        if chance.happens(0.6):
            undo["retry"] = {"max_attempts": chance.whole(2, 4), "initial": chance.one_of(("0s", "200ms", "2s"))}
        if chance.happens(0.3):
            undo["timeout"] = {"attempt": f"{chance.whole(1, 9)}s"}
        return undo

    def _lease(self, name: str) -> JsonObject:
        """Steps and runs have keys of their own, so that no run waits for what it holds itself."""
        chance = self._chance
        lease: JsonObject = {"key": chance.one_of((name, name + "-${trigger.id % 3}")), "limit": chance.whole(1, 3)}
        return lease | {"timeout": f"{chance.whole(1, 9)}s"}

    def _edges(self, step: JsonObject, later: list[str]) -> None:
        chance = self._chance
        edges: JsonObject = {}
        outcomes = {"conditional": ["true", "false"], "approval": ["approved", "rejected"]}
        names = [*outcomes.get(str(step["type"]), ["success"]), "done"]
        if step.get("on_error") == "continue":
            names.append("error")
        if "timeout" in step and step["type"] != "task":
            names.append("timeout")
        near = later[:3]
        for outcome in names:
            if near and chance.happens(0.85 if outcome in {"success", "true", "approved"} else 0.35):
                targets = chance.some_of(near, chance.whole(1, 2))
                self._point(str(step["ref"]), targets)
                edges[outcome] = self._choice(targets) if outcome == "success" else list(targets)
        if edges:
            step["next"] = edges
        if "next" not in step and step.get("on_skip") == "stop":
            step.pop("on_skip")

    def _point(self, source: str, targets: list[str]) -> None:
        for target in targets:
            self._sources[target].add(source)

    def _choice(self, targets: list[str]) -> JsonValue:
        if len(targets) < 2 or self._chance.happens(0.6):
            return list(targets)
        return {"choice": [{"when": self._chance.one_of(CONDITIONS), "to": targets[0]}, {"to": targets[1]}]}

    def _join(self, step: JsonObject) -> None:
        chance, count = self._chance, len(self._sources[str(step["ref"])])
        if count > 1 and chance.happens(0.7):
            joins: tuple[str | int, ...] = ("any", "every", "all", 2)
            step["join"] = join = chance.one_of(joins)
            if join in {"any", 2} and chance.happens(0.4):
                step["cancel_rest"] = True

    def _timeout(self, step: JsonObject, likely: float, *others: str) -> None:
        chance = self._chance
        if chance.happens(likely):
            step["timeout"] = f"{chance.whole(1, 12)}s"
            if chance.happens(0.7):
                step["on_timeout"] = chance.one_of(("fail", "skip", *others))

    # --- each type ----------------------------------------------------------------------------------------------------

    def _task(self, step: JsonObject) -> None:
        chance = self._chance
        step |= {"task": TASK, "input": {"id": "${trigger.id}", "n": "${context.n}"}}
        if chance.happens(0.6):
            policy: JsonObject = {"max_attempts": chance.whole(2, 4), "initial": chance.one_of(("0s", "200ms", "2s"))}
            if chance.happens(0.3):
                policy[chance.one_of(("only", "except"))] = [chance.one_of(ERRORS)]
            step["retry"] = policy
        limits: JsonObject = {
            kind: f"{chance.whole(1, 9)}s" for kind in ("attempt", "start", "heartbeat") if chance.happens(0.2)
        }
        if chance.happens(0.2):
            limits["total"] = f"{chance.whole(9, 15)}s"
        if limits:
            step["timeout"] = limits
        if chance.happens(0.15):
            repeat: JsonObject = {"until": "output.n % 4 == 0", "max": chance.whole(2, 4)}
            repeat |= {"every": chance.one_of(("0s", "1s", "3s")), "on_max": chance.one_of(("fail", "continue"))}
            step["repeat"] = repeat
        if chance.happens(0.3):
            step["priority"] = chance.whole(-2, 2)

    def _transform(self, step: JsonObject) -> None:
        step["value"] = {"n": "${context.n}", "id": "${trigger.id}"}
        if self._chance.happens(0.06):
            step["end"] = self._chance.one_of(("completed", "failed", "cancelled"))

    def _conditional(self, step: JsonObject) -> None:
        step["when"] = self._chance.one_of(CONDITIONS)

    def _rule(self, step: JsonObject) -> None:
        chance = self._chance
        rules: list[JsonValue] = [
            {"when": chance.one_of(CONDITIONS), "then": {"row": number}} for number in range(chance.whole(1, 3))
        ]
        step |= {"rules": rules, "hit": chance.one_of(("first", "unique", "all", "collect"))}
        if chance.happens(0.6):
            step["default"] = {"row": None}

    def _wait(self, step: JsonObject) -> None:
        chance = self._chance
        form = chance.one_of(("duration", "until_expr", "signal", "signal", "event", "event", "cron"))
        if form == "duration":
            step["duration"] = chance.one_of(("0s", "500ms", "4s", "15s"))
        elif form == "until_expr":
            step["until_expr"] = chance.one_of(('"PT3S"', "now", '"2026-01-01T00:00:20Z"'))
        elif form == "cron":
            step["cron"] = "* * * * *"
        else:
            step[form] = chance.one_of(SIGNALS if form == "signal" else EVENTS)
            match = chance.one_of(MATCHES)
            if form == "event" and match is not None:
                step["match"] = match
            if form == "event" and chance.happens(0.8):
                step["lookback"] = chance.one_of(("2s", "30s", "30s"))
        self._timeout(step, 0.3)

    def _approval(self, step: JsonObject) -> None:
        chance = self._chance
        step |= {"approvers": list(PEOPLE), "title": "run ${trigger.id}", "quorum": chance.whole(1, 3)}
        step["veto"] = chance.happens(0.3)
        self._timeout(step, 0.4, "approve")

    def _human_loop(self, step: JsonObject) -> None:
        step |= {"title": "case ${trigger.id}", "assignee": self._chance.one_of(PEOPLE)}
        self._timeout(step, 0.4)

    def _interaction(self, step: JsonObject) -> None:
        step |= {"ask": "how many?", "to": self._chance.one_of(PEOPLE)}
        step["schema"] = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        self._timeout(step, 0.4)

    def _event_set(self, step: JsonObject) -> None:
        chance = self._chance
        names = chance.some_of(EVENTS, chance.whole(1, 2))
        awaited: list[JsonValue] = []
        for name in names:
            one: JsonObject = {"name": name}
            match = chance.one_of(MATCHES)
            if match is not None:
                one["match"] = match
            awaited.append(one)
        step["events"] = awaited
        policy = chance.one_of(("all_required", "any", "quorum", "count", "until_timeout"))
        step["policy"] = policy
        if policy in {"quorum", "count"}:
            step[policy] = chance.whole(1, len(names))
        if chance.happens(0.2):
            step["until"] = {"event": chance.one_of(EVENTS)}
        self._timeout(step, 1.0 if policy == "until_timeout" else 0.3)

    def _digest(self, step: JsonObject) -> None:
        chance = self._chance
        window: JsonObject = {"duration": chance.one_of(("500ms", "3s", "10s"))}
        if chance.happens(0.4):
            window["count"] = chance.whole(2, 4)
        step |= {"key": chance.one_of(("${trigger.id}", "all")), "item": {"id": "${trigger.id}"}, "window": window}

    def _subworkflow(self, step: JsonObject) -> None:
        """A child run; where there is none to start, a step of another type."""
        chance = self._chance
        if not self._known and self._level >= MAX_BODY_LEVELS:
            step["type"] = "transform"
            self._transform(step)
            return
        if self._known and (self._level >= MAX_BODY_LEVELS or chance.happens(0.6)):
            step["definition"] = chance.one_of(sorted(self._known))
            if chance.happens(0.2):
                step["key"] = chance.one_of(("${trigger.id}", "kid-${run.id}", "kid-${trigger.id}-${context.n}"))
        else:
            step["do"] = _Drawing(chance, self._known, self._level + 1).body()
        step["input"] = {"id": "${trigger.id}"}
        if chance.happens(0.3):
            step["mode"] = "async"
        else:
            if chance.happens(0.3):
                step["wait_for"] = f"checkpoint:{CHECKPOINT}"
            if chance.happens(0.35):
                step["timeout"] = f"{chance.whole(1, 12)}s"
                step["on_timeout"] = chance.one_of(("fail_parent", "detach", "continue_with_error"))
        if chance.happens(0.3):
            step["on_parent_close"] = "abandon"
        if chance.happens(0.15):
            rounds: JsonObject = {"until": chance.one_of(CONDITIONS), "max": chance.whole(2, 3)}
            step["repeat"] = rounds | {"every": chance.one_of(("0s", "1s")), "on_max": chance.one_of(ON_MAX)}

    def _scattered(self) -> JsonObject:
        """What each child of a scatter does."""
        chance = self._chance
        if self._level < MAX_BODY_LEVELS and chance.happens(0.2):
            return _Drawing(chance, self._known, self._level + 1).body()
        child: JsonObject = {"type": "task"}
        if (self._known or self._level < MAX_BODY_LEVELS) and chance.happens(0.25):
            child["type"] = "subworkflow"
            self._subworkflow(child)
            if chance.happens(0.3):
                child["compensate"] = {"child": True}
        else:
            self._task(child)
            if chance.happens(0.4):
                child["input"] = {"id": "${trigger.id}", "n": "${item}"}
        if chance.happens(0.3):
            child["effects"] = {"n": "${context.n + 1}"}
        if chance.happens(0.15):
            child["lease"] = self._lease("child")
        return child

    def _scatter(self, step: JsonObject) -> None:
        chance = self._chance
        step |= {"do": self._scattered(), "items_expr": chance.one_of(ITEMS)}
        if chance.happens(0.3):
            step["mode"] = "child_workflow"
        if chance.happens(0.5):
            step["concurrency"] = chance.whole(1, 3)
        if chance.happens(0.3):
            step["interval_ms"] = chance.one_of((200, 1_500))
        if chance.happens(0.3):
            step["complete_when"] = chance.one_of(ENOUGH)

    def _gather(self, step: JsonObject) -> None:
        """Of the last scatter; without one it is a step of another type."""
        if not self._scatters:
            step["type"] = "transform"
            self._transform(step)
            return
        scatter = self._scatters[-1]
        step |= {"scatter_ref": scatter["ref"], "strategy": self._chance.one_of(STRATEGIES)}
        edges = scatter.setdefault("next", {})
        assert isinstance(edges, dict)
        done = edges.setdefault("done", [])
        assert isinstance(done, list)
        if step["ref"] not in done:
            done.append(step["ref"])
            self._point(str(scatter["ref"]), [str(step["ref"])])

    def _deferred(self, number: int) -> JsonObject:
        if self._chance.happens(0.5):
            return {"ref": f"d{number}", "type": "transform", "value": "${run.status}"}
        return {"ref": f"d{number}", "type": "task", "task": TASK, "input": {"id": "${trigger.id}", "n": 0}, "retry": 2}

    def _handlers(self) -> JsonValue:
        chance = self._chance
        effects: JsonObject = {"heard": "${event.payload}"}
        heard: list[JsonValue] = [{"signal": chance.one_of(SIGNALS), "effects": effects}]
        event: JsonObject = {"event": chance.one_of(EVENTS), "match": MATCHES[1], "effects": effects}
        if chance.happens(0.5):
            event["cancels"] = [chance.one_of(self._refs)]
        return [*heard, event]
