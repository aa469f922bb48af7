-- Read models: how far each has come, and the reports that people and programs read.

CREATE TABLE ductor.eec_projection (
    name text COLLATE "C" NOT NULL,
    -- each has its tables in a schema of its own
    generation integer NOT NULL,
    -- of the code that fills it
    revision integer NOT NULL,
    -- building: filled beside what is read; serving: what is read; retired: to be dropped
    stage text NOT NULL DEFAULT 'building',
    is_made boolean NOT NULL DEFAULT false,
    is_indexed boolean NOT NULL DEFAULT false,
    -- the place in the feed after which it goes on
    era integer NOT NULL DEFAULT 0,
    transaction_id bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    applied_rows bigint NOT NULL DEFAULT 0,
    -- events of a newer version of the software, which were passed over
    skipped_events bigint NOT NULL DEFAULT 0,
    -- time of the last journal row applied
    applied_at_us bigint NOT NULL DEFAULT 0,
    -- which host fills it, and until when nobody else does
    leader text NOT NULL DEFAULT '',
    leased_until_us bigint NOT NULL DEFAULT 0,
    failed_at_us bigint,
    failed_run_id uuid,
    failed_version bigint,
    error text NOT NULL DEFAULT '',
    PRIMARY KEY (name, generation),
    CONSTRAINT eec_projection_stage CHECK (stage IN ('building', 'serving', 'retired'))
) WITH (fillfactor = 50);
COMMENT ON TABLE ductor.eec_projection IS 'Read models: how far each has come in the feed, and why one stands still.';
CREATE UNIQUE INDEX eec_projection_serving ON ductor.eec_projection (name) WHERE stage = 'serving';

-- The names, columns and types of reports are kept stable for whoever reads them. A projection puts its own query in the
-- place of the empty ones here once its model is complete.

CREATE VIEW ductor.report_runs AS SELECT
    NULL::uuid AS run_id, NULL::text AS tenant, NULL::text AS definition, NULL::text AS manifest_hash,
    NULL::text AS status, NULL::timestamptz AS started_at, NULL::timestamptz AS updated_at,
    NULL::timestamptz AS ended_at, NULL::bigint AS duration_ms, NULL::text AS key, NULL::uuid AS parent_run_id,
    NULL::uuid AS root_run_id, NULL::uuid AS continued_from_run_id, NULL::text AS error_type,
    NULL::text AS error_message, NULL::jsonb AS search_attributes, NULL::bigint AS version,
    NULL::bigint AS steps, NULL::bigint AS attempts, NULL::bigint AS journal_bytes
WHERE false;
COMMENT ON VIEW ductor.report_runs IS 'Every run, open or ended.';
COMMENT ON COLUMN ductor.report_runs.status IS
    'pending, running, waiting, paused, completed, failed, cancelled, terminated or continued.';
COMMENT ON COLUMN ductor.report_runs.updated_at IS 'Time of the newest journal row.';
COMMENT ON COLUMN ductor.report_runs.ended_at IS 'Null while the run is open.';
COMMENT ON COLUMN ductor.report_runs.duration_ms IS 'From start to end; null while the run is open.';
COMMENT ON COLUMN ductor.report_runs.key IS 'The start key; null where none was given.';
COMMENT ON COLUMN ductor.report_runs.continued_from_run_id IS 'The run whose work this one goes on with.';
COMMENT ON COLUMN ductor.report_runs.error_type IS 'Of the error that ended the run; null without one.';
COMMENT ON COLUMN ductor.report_runs.version IS 'Rows of its journal.';
COMMENT ON COLUMN ductor.report_runs.steps IS 'Steps that were carried out and have settled; skipped ones do not count.';
COMMENT ON COLUMN ductor.report_runs.attempts IS 'Attempts dispatched to workers.';
COMMENT ON COLUMN ductor.report_runs.journal_bytes IS 'JSON text of its events.';

CREATE VIEW ductor.report_step_statistics AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS step, NULL::timestamptz AS hour,
    NULL::bigint AS settled, NULL::bigint AS succeeded, NULL::bigint AS failed, NULL::bigint AS skipped,
    NULL::bigint AS cancelled, NULL::bigint AS attempts, NULL::bigint AS attempts_failed, NULL::bigint AS attempt_ms,
    NULL::bigint AS duration_ms, NULL::double precision AS duration_ms_p50,
    NULL::double precision AS duration_ms_p95, NULL::double precision AS duration_ms_p99,
    NULL::double precision AS duration_ms_max
WHERE false;
COMMENT ON VIEW ductor.report_step_statistics IS 'What became of each step of each definition, by the hour in which it settled.';
COMMENT ON COLUMN ductor.report_step_statistics.hour IS 'Beginning of the hour (UTC).';
COMMENT ON COLUMN ductor.report_step_statistics.settled IS 'All that settled: succeeded, failed, skipped and cancelled.';
COMMENT ON COLUMN ductor.report_step_statistics.attempts IS 'Attempts that finished in the hour.';
COMMENT ON COLUMN ductor.report_step_statistics.attempts_failed IS 'Those of them that failed, retried or not.';
COMMENT ON COLUMN ductor.report_step_statistics.attempt_ms IS 'Time that workers spent on attempts, in all.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms IS
    'From the first attempt or the beginning of the wait to the end, retries included, in all; skipped steps have none.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_p50 IS 'Median duration, right within 5 %.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_p95 IS 'Right within 5 %.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_p99 IS 'Right within 5 %.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_max IS 'Exact.';

CREATE VIEW ductor.report_step_durations AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS step, NULL::timestamptz AS hour,
    NULL::integer AS bucket, NULL::double precision AS from_ms, NULL::double precision AS to_ms, NULL::bigint AS count
WHERE false;
COMMENT ON VIEW ductor.report_step_durations IS
    'The histograms behind report_step_statistics: to get a percentile over several hours or steps, add up counts.';
COMMENT ON COLUMN ductor.report_step_durations.to_ms IS 'A bucket is 10 % wide: its upper end is 1.1 times its lower one.';

CREATE VIEW ductor.report_step_failures AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS step, NULL::timestamptz AS hour,
    NULL::text AS error_type, NULL::bigint AS failed, NULL::bigint AS attempts_failed, NULL::uuid AS last_run_id,
    NULL::timestamptz AS last_at
WHERE false;
COMMENT ON VIEW ductor.report_step_failures IS 'Failures of steps by the type of the error, and by hour.';
COMMENT ON COLUMN ductor.report_step_failures.failed IS 'Steps that failed for good.';
COMMENT ON COLUMN ductor.report_step_failures.attempts_failed IS 'Attempts that failed, retried or not.';
COMMENT ON COLUMN ductor.report_step_failures.last_run_id IS 'A run to look at: the latest of the hour.';

CREATE VIEW ductor.report_usage AS SELECT
    NULL::text AS tenant, NULL::date AS day, NULL::bigint AS runs_started, NULL::bigint AS runs_ended,
    NULL::bigint AS runs_completed, NULL::bigint AS runs_failed, NULL::bigint AS steps, NULL::bigint AS attempts,
    NULL::double precision AS attempt_seconds, NULL::bigint AS journal_rows, NULL::bigint AS journal_bytes
WHERE false;
COMMENT ON VIEW ductor.report_usage IS 'What each tenant has used on each day (UTC).';
COMMENT ON COLUMN ductor.report_usage.runs_ended IS 'However they ended; a run that was redriven ends again.';
COMMENT ON COLUMN ductor.report_usage.steps IS 'Steps that settled; skipped ones do not count.';
COMMENT ON COLUMN ductor.report_usage.attempts IS 'Attempts that finished.';
COMMENT ON COLUMN ductor.report_usage.attempt_seconds IS 'Time that workers spent on them.';
COMMENT ON COLUMN ductor.report_usage.journal_bytes IS 'JSON text of the events written.';

CREATE VIEW ductor.report_funnel AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS manifest_hash, NULL::text AS measure,
    NULL::text AS step, NULL::text AS target, NULL::bigint AS count
WHERE false;
COMMENT ON VIEW ductor.report_funnel IS 'How runs of each version of a definition went through its graph.';
COMMENT ON COLUMN ductor.report_funnel.measure IS
    'started (runs), entered (step began), settled (step, target: its status), taken and untaken (edge step to target), ended (runs; step: the one that decided it, target: the status of the run).';
COMMENT ON COLUMN ductor.report_funnel.step IS 'Empty where the measure is about no step.';
COMMENT ON COLUMN ductor.report_funnel.target IS 'A step or a status, as the measure says; empty for none.';

CREATE VIEW ductor.report_inbox AS SELECT
    i.run_id, i.tenant, r.definition, i.node AS step, i.kind, i.title, i.people::jsonb AS people, i.status,
    ductor.eec_time(i.since_us) AS since, ductor.eec_time(i.due_at_us) AS due_at
FROM ductor.eec_workflow_inbox i JOIN ductor.eec_workflow_run r USING (run_id);
COMMENT ON VIEW ductor.report_inbox IS 'What waits for people now; kept with the journal itself, so it is never behind.';
COMMENT ON COLUMN ductor.report_inbox.people IS 'Who may act, a JSON list; empty for anybody.';
COMMENT ON COLUMN ductor.report_inbox.since IS 'Since when it waits.';
COMMENT ON COLUMN ductor.report_inbox.due_at IS 'When it stops to wait; null for never.';

CREATE VIEW ductor.report_health AS
SELECT 'runs' AS measure, status AS subject, count(*) AS count, ductor.eec_time(min(updated_at_us)) AS since,
    '' AS detail
FROM ductor.eec_workflow_run WHERE status IN ('pending', 'running', 'waiting', 'paused') GROUP BY status
UNION ALL
SELECT 'overdue timers', '', count(*), ductor.eec_time(min(t.due_at_us)), ''
FROM ductor.eec_workflow_timer t JOIN ductor.eec_workflow_run r USING (run_id)
WHERE t.due_at_us < ductor.eec_now_us() - 60000000 AND r.status IN ('pending', 'running', 'waiting')
UNION ALL
SELECT 'unapplied controls', '', count(*), ductor.eec_time(min(requested_at_us)), ''
FROM ductor.eec_workflow_control WHERE disposition = ''
UNION ALL
SELECT 'unapplied results', '', count(*), ductor.eec_time(min(finished_at_us)), ''
FROM ductor.eec_workflow_step_attempt WHERE disposition = '' AND NOT is_held
UNION ALL
SELECT 'unapplied messages', '', count(*), ductor.eec_time(min(at_us)), ''
FROM ductor.eec_workflow_signal WHERE disposition = '' AND NOT is_held
UNION ALL
SELECT 'inbox', kind, count(*), ductor.eec_time(min(since_us)), '' FROM ductor.eec_workflow_inbox GROUP BY kind
UNION ALL
SELECT 'hosts', '', count(*), ductor.eec_time(min(started_at_us)), ''
FROM ductor.eec_host WHERE heartbeat_at_us > ductor.eec_now_us() - 20000000
UNION ALL
SELECT 'projection', p.name || CASE WHEN p.stage = 'building' THEN ' (building)' ELSE '' END, behind.rows,
    ductor.eec_time(behind.oldest_at_us), p.error
FROM ductor.eec_projection p CROSS JOIN LATERAL (
    SELECT count(*) AS rows, min(at_us) AS oldest_at_us FROM (
        SELECT at_us FROM ductor.eec_workflow_transition t
        WHERE (t.era, t.transaction_id, t.position) > (p.era, p.transaction_id::text::xid8, p.position)
        ORDER BY t.era, t.transaction_id, t.position LIMIT 10000
    ) AS next
) AS behind
WHERE p.stage <> 'retired';
COMMENT ON VIEW ductor.report_health IS 'The state of the whole now: what is open, what waits for a host, and how far reports are behind.';
COMMENT ON COLUMN ductor.report_health.measure IS
    'runs (open, by status), overdue timers (by more than a minute), unapplied controls, results and messages, inbox (by kind), hosts (alive), projection (rows not yet applied, 10,000 at most).';
COMMENT ON COLUMN ductor.report_health.since IS 'The oldest of them; of a run, when its status last changed.';
COMMENT ON COLUMN ductor.report_health.detail IS 'Why a projection stands still; empty for nothing to tell.';
