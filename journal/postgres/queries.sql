-- Everything the store asks besides commits. Whole rows come as JSON where a struct mirrors the table.

-- name: load
-- Kinds: head, snapshot, transition, control, attempt, message. One statement, so one view of the run.
WITH wanted AS MATERIALIZED (SELECT DISTINCT run_id FROM unnest(:run_ids::uuid[]) AS w (run_id))
SELECT 'head' AS kind, r.run_id::text, 0::bigint AS number, NULL::uuid AS commit_id, 0::bigint AS at_us,
    row_to_json(r)::text AS text, NULL::bytea AS binary
FROM wanted w JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
UNION ALL
SELECT 'snapshot', s.run_id::text, s.version, NULL, 0, NULL, s.state
FROM wanted w JOIN ductor.eec_workflow_snapshot s ON s.run_id = w.run_id AND s.fold_revision = :fold_revision::integer
UNION ALL
SELECT 'transition', t.run_id::text, t.version, t.commit_id, t.at_us, t.events::text, t.hash
FROM wanted w CROSS JOIN LATERAL (
    SELECT * FROM ductor.eec_workflow_transition t
    WHERE t.run_id = w.run_id AND t.version > greatest(0,
        (SELECT s.version FROM ductor.eec_workflow_snapshot s
         WHERE s.run_id = w.run_id AND s.fold_revision = :fold_revision::integer),
        (SELECT max(c.version) - 1 FROM ductor.eec_workflow_transition c
         WHERE c.run_id = w.run_id AND starts_with(c.events::text, '[{"type":"run_compacted"')))
    ORDER BY t.version
) t
UNION ALL
SELECT 'control', c.run_id::text, c.position, NULL, 0, row_to_json(c)::text, NULL
FROM wanted w JOIN ductor.eec_workflow_control c ON c.run_id = w.run_id AND c.disposition = ''
UNION ALL
SELECT 'attempt', a.run_id::text, a.position, NULL, 0, row_to_json(a)::text, NULL
FROM wanted w JOIN ductor.eec_workflow_step_attempt a ON a.run_id = w.run_id AND a.disposition = ''
UNION ALL
SELECT 'message', m.run_id::text, m.position, NULL, 0,
    (SELECT row_to_json(j)::text FROM (
        SELECT m.message_id AS id, m.kind, m.name, m.node, m.payload, m.payload_ref, m.by, m.at_us, m.position) AS j), NULL
FROM wanted w JOIN ductor.eec_workflow_signal m ON m.run_id = w.run_id AND m.disposition = ''

-- name: payloads
SELECT p.run_id::text, p.hash, p.body::text
FROM unnest(:run_ids::uuid[], :hashes::text[]) AS w (run_id, hash)
JOIN ductor.eec_payload p ON p.run_id = w.run_id AND p.hash = w.hash

-- name: head
SELECT row_to_json(r)::text FROM ductor.eec_workflow_run r WHERE r.run_id = :run_id::uuid

-- name: find_start_key
SELECT run_id::text FROM ductor.eec_start_key
WHERE tenant = :tenant::text AND definition = :definition::text AND key = :key::text

-- name: history
-- Where the beginning is being removed, what is left of it tells nothing: then it begins with the row that stands for it.
SELECT run_id::text, version, commit_id, at_us, events::text, hash FROM ductor.eec_workflow_transition
WHERE run_id = :run_id::uuid AND version > greatest(:after_version::bigint, (
    SELECT CASE WHEN f.version > 1 AND NOT starts_with(f.events::text, '[{"type":"run_compacted"') THEN (
        SELECT max(c.version) - 1 FROM ductor.eec_workflow_transition c
        WHERE c.run_id = :run_id::uuid AND starts_with(c.events::text, '[{"type":"run_compacted"')) END
    FROM ductor.eec_workflow_transition f WHERE f.run_id = :run_id::uuid ORDER BY f.version LIMIT 1))
ORDER BY version
LIMIT :limit::integer

-- name: payload
SELECT body::text FROM ductor.eec_payload WHERE run_id = :run_id::uuid AND hash = :hash::text

-- name: save_snapshot
WITH old AS (
    DELETE FROM ductor.eec_workflow_snapshot
    WHERE run_id = :run_id::uuid AND fold_revision < :fold_revision::integer - 1
)
INSERT INTO ductor.eec_workflow_snapshot AS s (run_id, fold_revision, version, state)
VALUES (:run_id::uuid, :fold_revision::integer, :version::bigint, :state::bytea)
ON CONFLICT (run_id, fold_revision) DO UPDATE SET version = EXCLUDED.version, state = EXCLUDED.state
WHERE s.version < EXCLUDED.version

-- name: request_control
-- What is asked of a run that another one continues is asked of the latest of the chain.
WITH given AS (
    SELECT run_id, coalesce(chain_run_id, run_id) AS chain_run_id, status FROM ductor.eec_workflow_run
    WHERE run_id = :run_id::uuid AND (:tenant::text IS NULL OR tenant = :tenant::text)
),
run AS (
    SELECT r.run_id, r.status, r.chain_run_id FROM given g JOIN ductor.eec_workflow_run r ON r.run_id = CASE
        WHEN g.status <> 'continued' THEN g.run_id
        ELSE coalesce((SELECT c.latest_run_id FROM ductor.eec_run_chain c WHERE c.chain_run_id = g.chain_run_id), g.run_id)
        END
),
present AS (
    SELECT request_id, run_id FROM ductor.eec_workflow_control
    WHERE request_id = :request_id::text AND run_id = ANY (ARRAY[:run_id::uuid, (SELECT run_id FROM run),
        (SELECT i.run_id FROM run JOIN ductor.eec_chain_input i
         ON i.chain_run_id = run.chain_run_id AND i.kind = 'control' AND i.input_id = :request_id::text)])
    ORDER BY disposition = 'forwarded' LIMIT 1
),
accepted AS (
    INSERT INTO ductor.eec_workflow_control (run_id, request_id, kind, arguments, by, requested_at_us)
    SELECT run.run_id, :request_id::text, :kind::text, :arguments::json, :by::text,
        coalesce(nullif(:requested_at_us::bigint, 0), ductor.eec_now_us())
    FROM run WHERE (run.status <> ALL (:terminal::text[]) OR :kind::text = ANY (:reopening::text[]))
        AND (SELECT request_id FROM present) IS NULL
    ON CONFLICT (run_id, request_id) DO NOTHING
    RETURNING request_id
)
SELECT run.status, run.run_id::text, (SELECT run_id FROM present)::text AS present_run_id,
    (SELECT request_id FROM accepted) IS NOT NULL AS is_accepted
FROM run

-- name: latest_of_chain
SELECT coalesce(c.latest_run_id, r.run_id)::text FROM ductor.eec_workflow_run r
LEFT JOIN ductor.eec_run_chain c ON c.chain_run_id = coalesce(r.chain_run_id, r.run_id)
WHERE r.run_id = :run_id::uuid

-- name: chain
WITH given AS (
    SELECT coalesce(chain_run_id, run_id) AS chain_run_id FROM ductor.eec_workflow_run WHERE run_id = :run_id::uuid
)
SELECT text FROM (
    SELECT r.iteration, row_to_json(r)::text AS text FROM given g JOIN ductor.eec_workflow_run r ON r.run_id = g.chain_run_id
    WHERE r.iteration > :after_iteration::integer
    UNION ALL
    (SELECT r.iteration, row_to_json(r)::text FROM given g JOIN ductor.eec_workflow_run r ON r.chain_run_id = g.chain_run_id
     WHERE r.iteration > :after_iteration::integer ORDER BY r.iteration LIMIT :limit::integer)
) AS c ORDER BY iteration LIMIT :limit::integer

-- name: control
-- Where the run was continued the request may be with another run of the chain: where the chain says, with the latest, or
-- left behind in one of the last before that.
WITH given AS (
    SELECT run_id, coalesce(chain_run_id, run_id) AS chain_run_id FROM ductor.eec_workflow_run WHERE run_id = :run_id::uuid
),
latest AS (
    SELECT r.run_id, r.chain_run_id, r.iteration FROM given g JOIN ductor.eec_run_chain c ON c.chain_run_id = g.chain_run_id
    JOIN ductor.eec_workflow_run r ON r.run_id = c.latest_run_id
)
SELECT row_to_json(c)::text FROM ductor.eec_workflow_control c
WHERE c.request_id = :request_id::text AND c.run_id = ANY (ARRAY(
    SELECT :run_id::uuid
    UNION ALL
    SELECT i.run_id FROM given g JOIN ductor.eec_chain_input i
        ON i.chain_run_id = g.chain_run_id AND i.kind = 'control' AND i.input_id = :request_id::text
    UNION ALL
    SELECT b.run_id FROM latest JOIN ductor.eec_workflow_run b ON b.chain_run_id = latest.chain_run_id
        AND b.iteration BETWEEN latest.iteration - :look_back::integer AND latest.iteration
    UNION ALL
    SELECT chain_run_id FROM latest))
ORDER BY c.disposition = 'forwarded' LIMIT 1

-- name: append_attempts
WITH appended AS (
    INSERT INTO ductor.eec_workflow_step_attempt
        (run_id, node, generation, outcome, output, output_ref, error, worker, started_at_us, finished_at_us, disposition)
    SELECT g.run_id, g.node, g.generation, g.outcome, g.output, g.output_ref, g.error, g.worker, g.started_at_us,
        g.finished_at_us, g.disposition
    FROM unnest(:run_ids::uuid[], :nodes::text[], :generations::integer[], :outcomes::text[], :outputs::json[],
        :output_refs::json[], :errors::json[], :workers::text[], :starts::bigint[], :ends::bigint[], :dispositions::text[])
        AS g (run_id, node, generation, outcome, output, output_ref, error, worker, started_at_us, finished_at_us,
            disposition)
    JOIN ductor.eec_workflow_run r ON r.run_id = g.run_id
    ORDER BY g.run_id, g.node, g.generation
    ON CONFLICT (run_id, node, generation) DO NOTHING
    RETURNING run_id, node, generation
)
INSERT INTO ductor.eec_payload (run_id, hash, body)
SELECT DISTINCT ON (p.run_id, p.hash) p.run_id, p.hash, p.body
FROM unnest(:payload_run_ids::uuid[], :payload_nodes::text[], :payload_generations::integer[], :payload_hashes::text[],
    :payload_bodies::json[]) AS p (run_id, node, generation, hash, body)
JOIN appended a ON a.run_id = p.run_id AND a.node = p.node AND a.generation = p.generation
ORDER BY p.run_id, p.hash
ON CONFLICT (run_id, hash) DO NOTHING

-- name: attempts
SELECT row_to_json(a)::text FROM ductor.eec_workflow_step_attempt a
WHERE a.run_id = :run_id::uuid ORDER BY a.node, a.generation

-- name: publish
INSERT INTO ductor.eec_definition AS d
    (tenant, name, manifest_hash, version, manifest, source, file, places, published_at_us, is_published)
VALUES (:tenant::text, :name::text, :manifest_hash::text, :version::text, :manifest::json, :source::text, :file::text,
    :places::json, coalesce(nullif(:published_at_us::bigint, 0), ductor.eec_now_us()), true)
ON CONFLICT (tenant, name, manifest_hash) DO UPDATE
SET version = EXCLUDED.version, source = EXCLUDED.source, file = EXCLUDED.file, places = EXCLUDED.places,
    published_at_us = EXCLUDED.published_at_us, is_published = true, position = DEFAULT
RETURNING xmax = 0 AS is_new

-- name: unpublish
WITH withdrawn AS (
    UPDATE ductor.eec_definition SET is_published = false
    WHERE tenant = :tenant::text AND name = :name::text AND is_published
    RETURNING 1
)
SELECT count(*)::integer FROM withdrawn

-- name: definition
SELECT tenant, name, version, manifest_hash, manifest::text, source, file, places::text, published_at_us, is_published
FROM ductor.eec_definition
WHERE tenant = :tenant::text AND name = :name::text AND is_published
    AND (:version::text IS NULL OR version = :version::text)
    AND (:manifest_hash::text IS NULL OR manifest_hash = :manifest_hash::text)
ORDER BY position DESC
LIMIT 1

-- name: manifest
SELECT tenant, name, version, manifest_hash, manifest::text, source, file, places::text, published_at_us, is_published
FROM ductor.eec_definition
WHERE manifest_hash = :manifest_hash::text
ORDER BY position DESC
LIMIT 1

-- name: definitions
SELECT tenant, name, version, manifest_hash, '' AS manifest, '' AS source, file, '{}' AS places, published_at_us,
    is_published
FROM ductor.eec_definition
WHERE is_published AND (:tenant::text IS NULL OR tenant = :tenant::text)
ORDER BY position DESC

-- name: beat
WITH beaten AS (
    INSERT INTO ductor.eec_host AS h (host_id, started_at_us, heartbeat_at_us, tasks, is_draining, guests, withdrawn)
    VALUES (:host_id::text, ductor.eec_now_us(), ductor.eec_now_us(), :tasks::text[], :is_draining::boolean,
        :guests::text[], :withdrawn::text[])
    ON CONFLICT (host_id) DO UPDATE
    SET heartbeat_at_us = EXCLUDED.heartbeat_at_us, tasks = EXCLUDED.tasks, is_draining = EXCLUDED.is_draining,
        guests = EXCLUDED.guests, withdrawn = EXCLUDED.withdrawn
    RETURNING *
)
SELECT row_to_json(h)::text FROM (
    SELECT * FROM beaten
    UNION ALL
    SELECT * FROM ductor.eec_host WHERE host_id <> :host_id::text
) AS h ORDER BY h.host_id

-- name: leave
DELETE FROM ductor.eec_host WHERE host_id = :host_id::text

-- name: hosts
SELECT row_to_json(h)::text FROM ductor.eec_host h
WHERE h.heartbeat_at_us >= ductor.eec_now_us() - :alive_within_us::bigint ORDER BY h.host_id

-- name: feed
-- Rows of earlier eras are settled. In the current one nothing at or above the oldest running transaction may be read:
-- a row of a transaction that is still open could appear below it later. The bytes are those that are stored, so that
-- a row beyond the bound is not read at all.
SELECT era, transaction_id::text::bigint, position, run_id::text, version, commit_id, at_us, events::text, hash
FROM (
    SELECT *, sum(pg_column_size(events)) OVER (ORDER BY era, transaction_id, position ROWS UNBOUNDED PRECEDING)
        - pg_column_size(events) AS bytes_before
    FROM ductor.eec_workflow_transition
    WHERE (era, transaction_id, position) > (:era::integer, :transaction_id::text::xid8, :position::bigint)
        AND (era < (SELECT max(era) FROM ductor.eec_journal_era)
            OR transaction_id < pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY era, transaction_id, position
    LIMIT :limit::integer
) AS page
WHERE bytes_before < :max_bytes::bigint
-- by the columns, not by what is made of them above: else every row that is left would be sorted for each page
ORDER BY page.era, page.transaction_id, page.position

-- name: feed_lag
SELECT count(*)::integer AS rows, coalesce(ductor.eec_now_us() - min(at_us), 0) AS oldest_age_us,
    coalesce(bool_or(era = (SELECT max(era) FROM ductor.eec_journal_era)
        AND transaction_id >= pg_snapshot_xmin(pg_current_snapshot())), false) AS is_blocked
FROM (
    SELECT at_us, era, transaction_id FROM ductor.eec_workflow_transition
    WHERE (era, transaction_id, position) > (:era::integer, :transaction_id::text::xid8, :position::bigint)
    ORDER BY era, transaction_id, position
    LIMIT :limit::integer
) AS behind

-- name: oldest_transaction
SELECT 'process ' || pid || ', database ' || coalesce(datname, '?') || ', user ' || coalesce(usename, '?')
    || ', application ' || coalesce(nullif(application_name, ''), '?') || ', ' || coalesce(state, '?')
    || ', transaction open for ' || coalesce(round(extract(epoch FROM clock_timestamp() - xact_start), 1)::text, '?') || ' s'
FROM pg_stat_activity
WHERE backend_xid = pg_snapshot_xmin(pg_current_snapshot())::xid
UNION ALL
SELECT 'prepared transaction ' || gid || ', database ' || database || ', user ' || owner || ', prepared at ' || prepared
FROM pg_prepared_xacts
WHERE transaction = pg_snapshot_xmin(pg_current_snapshot())::xid
LIMIT 1

-- name: now_us
SELECT ductor.eec_now_us()
