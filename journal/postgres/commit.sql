-- Parts of the one statement that commits many ticks. A batch takes the parts its commits need (`statements.py`), so that
-- a lone tick does not pay for tables it does not touch. Winners are named by commit id; `IN (SELECT ... FROM won)` is a
-- hash of at most one batch, while a join to `won` would be a nested loop over it.
-- Order of tables, the same in all statements: start key, head, journal, payload, head update, timer, control, attempt.

-- name: keys
-- A key is tried for only where the run is not there, and `winners_with_starts` undoes a half-won start.
keyed AS (
    INSERT INTO ductor.eec_start_key (tenant, definition, key, run_id)
    SELECT s.tenant, s.definition, s.key, s.run_id
    FROM unnest(:start_run_id::uuid[], :start_tenant::text[], :start_definition::text[], :start_key::text[])
        AS s (run_id, tenant, definition, key)
    WHERE s.key IS NOT NULL
        AND (SELECT t.version FROM ductor.eec_workflow_transition t WHERE t.run_id = s.run_id AND t.version = 1) IS NULL
        AND (SELECT r.run_id FROM ductor.eec_workflow_run r WHERE r.run_id = s.run_id) IS NULL
    ORDER BY s.tenant, s.definition, s.key
    ON CONFLICT (tenant, definition, key) DO NOTHING
    RETURNING run_id
),

-- name: starts
started AS (
    INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, key, manifest_hash, status, started_at_us,
        updated_at_us, ended_at_us, parent_run_id, root_run_id, error_type, search_attributes, chain_run_id, iteration,
        successor_run_id, parent_node, compensated)
    SELECT s.run_id, s.tenant, s.definition, s.key, s.manifest_hash, s.status, s.started_at_us,
        s.updated_at_us, s.ended_at_us, s.parent_run_id, s.root_run_id, s.error_type, s.search_attributes,
        s.chain_run_id, s.iteration, s.successor_run_id, s.parent_node, s.compensated
    FROM unnest(:start_run_id::uuid[], :start_tenant::text[], :start_definition::text[], :start_key::text[],
            :start_manifest_hash::text[], :start_status::text[], :start_started_at_us::bigint[],
            :start_updated_at_us::bigint[], :start_ended_at_us::bigint[], :start_parent_run_id::uuid[],
            :start_root_run_id::uuid[], :start_error_type::text[], :start_search_attributes::json[],
            :start_chain_run_id::uuid[], :start_iteration::integer[], :start_successor_run_id::uuid[],
            :start_parent_node::text[], :start_compensated::text[])
        AS s (run_id, tenant, definition, key, manifest_hash, status, started_at_us, updated_at_us, ended_at_us,
            parent_run_id, root_run_id, error_type, search_attributes, chain_run_id, iteration, successor_run_id,
            parent_node, compensated)
    WHERE {has_key}
        AND (SELECT t.version FROM ductor.eec_workflow_transition t WHERE t.run_id = s.run_id AND t.version = 1) IS NULL
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_id, key
),

-- name: has_key
(s.key IS NULL OR s.run_id IN (SELECT run_id FROM keyed))

-- name: has_no_key
s.key IS NULL

-- name: rows
-- A scalar subquery stays an index look-up; EXISTS under OR would become a hash of the whole journal.
won AS (
    INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
    SELECT b.run_id, b.version, b.commit_id, b.at_us, b.events, b.hash
    FROM unnest(:row_run_id::uuid[], :row_version::bigint[], :row_commit_id::uuid[], :row_at_us::bigint[],
            :row_events::json[], :row_hash::bytea[])
        AS b (run_id, version, commit_id, at_us, events, hash)
    WHERE {has_previous}
    ON CONFLICT (run_id, version) DO NOTHING
    RETURNING commit_id, version
)

-- name: has_previous
(SELECT p.version FROM ductor.eec_workflow_transition p WHERE p.run_id = b.run_id AND p.version = b.version - 1)
        IS NOT NULL

-- name: has_previous_or_head
CASE WHEN b.version = 1 THEN b.run_id IN (SELECT run_id FROM started) ELSE
        (SELECT p.version FROM ductor.eec_workflow_transition p WHERE p.run_id = b.run_id AND p.version = b.version - 1)
        IS NOT NULL END

-- name: payloads
, payloads AS (
    INSERT INTO ductor.eec_payload (run_id, hash, body)
    SELECT p.run_id, p.hash, p.body
    FROM unnest(:payload_run_id::uuid[], :payload_commit_id::uuid[], :payload_hash::text[], :payload_payload::json[])
        AS p (run_id, commit_id, hash, body)
    WHERE p.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id, hash) DO NOTHING
)

-- name: heads
, heads AS (
    UPDATE ductor.eec_workflow_run r
    SET status = h.status, ended_at_us = h.ended_at_us, error_type = h.error_type, updated_at_us = h.updated_at_us,
        successor_run_id = h.successor_run_id, compensated = h.compensated
    FROM unnest(:head_run_id::uuid[], :head_commit_id::uuid[], :head_status::text[], :head_ended_at_us::bigint[],
            :head_error_type::text[], :head_updated_at_us::bigint[], :head_successor_run_id::uuid[],
            :head_compensated::text[])
        AS h (run_id, commit_id, status, ended_at_us, error_type, updated_at_us, successor_run_id, compensated)
    WHERE r.run_id = h.run_id AND h.commit_id IN (SELECT commit_id FROM won)
)

-- name: timers
-- UPSERT alone: a delete and an insert of one key in one statement would leave nothing.
, timers AS (
    INSERT INTO ductor.eec_workflow_timer (run_id, due_at_us)
    SELECT t.run_id, t.due_at_us
    FROM unnest(:timer_run_id::uuid[], :timer_commit_id::uuid[], :timer_due_at_us::bigint[])
        AS t (run_id, commit_id, due_at_us)
    WHERE t.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id) DO UPDATE SET due_at_us = EXCLUDED.due_at_us
)

-- name: controls
-- No commit id: a disposition that depends on no row.
, controls AS (
    UPDATE ductor.eec_workflow_control c
    SET disposition = d.disposition, outcome = d.outcome, applied_version = d.version
    FROM unnest(:control_run_id::uuid[], :control_commit_id::uuid[], :control_version::bigint[],
            :control_request_id::text[], :control_disposition::text[], :control_outcome::text[])
        AS d (run_id, commit_id, version, request_id, disposition, outcome)
    WHERE c.run_id = d.run_id AND c.request_id = d.request_id AND c.disposition = ''
        AND (d.commit_id IS NULL OR d.commit_id IN (SELECT commit_id FROM won))
)

-- name: attempts
, attempts AS (
    UPDATE ductor.eec_workflow_step_attempt a
    SET disposition = d.disposition, applied_version = d.version
    FROM unnest(:attempt_run_id::uuid[], :attempt_commit_id::uuid[], :attempt_version::bigint[],
            :attempt_node::text[], :attempt_generation::integer[], :attempt_disposition::text[])
        AS d (run_id, commit_id, version, node, generation, disposition)
    WHERE a.run_id = d.run_id AND a.node = d.node AND a.generation = d.generation AND a.disposition = ''
        AND (d.commit_id IS NULL OR d.commit_id IN (SELECT commit_id FROM won))
)

-- name: winners
-- The winners are listed only where there are losers.
SELECT count(*)::integer AS won_count,
    CASE WHEN count(*) < cardinality(:row_run_id::uuid[]) THEN array_agg(commit_id) END AS won
FROM won

-- name: winners_with_starts
SELECT count(*)::integer AS won_count,
    CASE WHEN count(*) < cardinality(:row_run_id::uuid[]) THEN array_agg(commit_id) END AS won,
    CASE WHEN (SELECT count(*) FROM started) <> count(*) FILTER (WHERE version = 1) {or_key_without_head}
        THEN ductor.eec_partial_start() END AS undone
FROM won

-- name: or_key_without_head
OR (SELECT count(*) FROM keyed) <> (SELECT count(*) FROM started WHERE key IS NOT NULL)

-- name: lone_row
-- A tick that writes its journal row and nothing else, alone: the batch's statement without the cost of a batch.
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT b.run_id, b.version, b.commit_id, b.at_us, b.events, b.hash
FROM (VALUES (:row_run_id::uuid, :row_version::bigint, :row_commit_id::uuid, :row_at_us::bigint, :row_events::json,
        :row_hash::bytea))
    AS b (run_id, version, commit_id, at_us, events, hash)
WHERE {has_previous}
ON CONFLICT (run_id, version) DO NOTHING
RETURNING 1 AS won_count

-- name: lone_start
-- A start without a key, alone.
WITH started AS (
    INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, key, manifest_hash, status, started_at_us,
        updated_at_us, ended_at_us, parent_run_id, root_run_id, error_type, search_attributes, chain_run_id, iteration,
        successor_run_id, parent_node, compensated)
    SELECT :start_run_id::uuid, :start_tenant::text, :start_definition::text, :start_key::text,
        :start_manifest_hash::text, :start_status::text, :start_started_at_us::bigint, :start_updated_at_us::bigint,
        :start_ended_at_us::bigint, :start_parent_run_id::uuid, :start_root_run_id::uuid, :start_error_type::text,
        :start_search_attributes::json, :start_chain_run_id::uuid, :start_iteration::integer,
        :start_successor_run_id::uuid, :start_parent_node::text, :start_compensated::text
    WHERE (SELECT t.version FROM ductor.eec_workflow_transition t WHERE t.run_id = :start_run_id::uuid AND t.version = 1)
        IS NULL
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_id
),
won AS (
    INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
    SELECT s.run_id, :row_version::bigint, :row_commit_id::uuid, :row_at_us::bigint, :row_events::json, :row_hash::bytea
    FROM started s
    ON CONFLICT (run_id, version) DO NOTHING
    RETURNING version
)
SELECT count(*)::integer AS won_count,
    CASE WHEN (SELECT count(*) FROM started) <> count(*) THEN ductor.eec_partial_start() END AS undone
FROM won

-- name: lone_head
-- A tick that writes its journal row and changes the head, as the last one of most runs does, alone.
WITH won AS (
    INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
    SELECT b.run_id, b.version, b.commit_id, b.at_us, b.events, b.hash
    FROM (VALUES (:row_run_id::uuid, :row_version::bigint, :row_commit_id::uuid, :row_at_us::bigint, :row_events::json,
            :row_hash::bytea))
        AS b (run_id, version, commit_id, at_us, events, hash)
    WHERE {has_previous}
    ON CONFLICT (run_id, version) DO NOTHING
    RETURNING run_id
), heads AS (
    UPDATE ductor.eec_workflow_run r
    SET status = :head_status::text, ended_at_us = :head_ended_at_us::bigint, error_type = :head_error_type::text,
        updated_at_us = :head_updated_at_us::bigint, successor_run_id = :head_successor_run_id::uuid,
        compensated = :head_compensated::text
    WHERE r.run_id = (SELECT run_id FROM won)
)
SELECT count(*)::integer AS won_count FROM won

-- name: resolve_losers
-- Asked in a new snapshot about commits that did not win: who did, and whose is the key.
SELECT b.ordinal::integer, t.commit_id AS winner, k.run_id::text AS key_run_id
FROM unnest(:row_run_id::uuid[], :row_version::bigint[], :key_tenant::text[], :key_definition::text[], :key::text[])
    WITH ORDINALITY AS b (run_id, version, tenant, definition, key, ordinal)
LEFT JOIN ductor.eec_workflow_transition t ON t.run_id = b.run_id AND t.version = b.version
LEFT JOIN ductor.eec_start_key k ON k.tenant = b.tenant AND k.definition = b.definition AND k.key = b.key
