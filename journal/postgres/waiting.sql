-- What is asked of messages, the bus, the inbox and triggers. Whole rows come as JSON where a struct mirrors the table.
-- Collations are "C", so that both stores agree on every order.

-- name: inputs
-- Kinds: version, payload, control, attempt, message. One statement, so one view of the run.
WITH wanted AS MATERIALIZED (SELECT DISTINCT run_id FROM unnest(:run_ids::uuid[]) AS w (run_id)),
versions AS MATERIALIZED (
    SELECT w.run_id, t.version FROM wanted w CROSS JOIN LATERAL (
        SELECT t.version FROM ductor.eec_workflow_transition t WHERE t.run_id = w.run_id ORDER BY t.version DESC LIMIT 1
    ) t
),
attempts AS MATERIALIZED (
    SELECT a.* FROM versions w JOIN ductor.eec_workflow_step_attempt a ON a.run_id = w.run_id AND a.disposition = ''
),
messages AS MATERIALIZED (
    SELECT m.* FROM versions w JOIN ductor.eec_workflow_signal m ON m.run_id = w.run_id AND m.disposition = ''
),
refs AS (
    SELECT DISTINCT run_id, hash FROM (
        SELECT run_id, output_ref ->> 'hash' AS hash FROM attempts WHERE output_ref IS NOT NULL
        UNION ALL
        SELECT run_id, payload_ref ->> 'hash' FROM messages WHERE payload_ref IS NOT NULL
    ) AS r
)
SELECT 'version' AS kind, run_id::text, version AS number, NULL::text AS text, NULL::bytea AS binary FROM versions
UNION ALL
SELECT 'payload', p.run_id::text, 0, p.body::text, convert_to(p.hash, 'UTF8')
FROM refs r JOIN ductor.eec_payload p ON p.run_id = r.run_id AND p.hash = r.hash
UNION ALL
SELECT 'control', c.run_id::text, c.position, row_to_json(c)::text, NULL
FROM versions w JOIN ductor.eec_workflow_control c ON c.run_id = w.run_id AND c.disposition = ''
UNION ALL
SELECT 'attempt', a.run_id::text, a.position, row_to_json(a)::text, NULL FROM attempts a
UNION ALL
SELECT 'message', m.run_id::text, m.position,
    (SELECT row_to_json(j)::text FROM (
        SELECT m.message_id AS id, m.kind, m.name, m.node, m.payload, m.payload_ref, m.by, m.at_us, m.position) AS j), NULL
FROM messages m

-- name: send_message
-- The bound counts what the statement sees; `OFFSET` stops at it, however many there are. What is sent to a run that
-- another one continues goes to the latest of the chain, and its id is unique in all of the chain. What came to the run
-- before in the instant in which that was continued comes first: as long as it is `left_behind` nothing newer is accepted.
WITH given AS (
    SELECT run_id, coalesce(chain_run_id, run_id) AS chain_run_id, status FROM ductor.eec_workflow_run
    WHERE run_id = :run_id::uuid AND (:tenant::text IS NULL OR tenant = :tenant::text)
),
run AS (
    SELECT r.run_id, r.status, r.chain_run_id, r.iteration FROM given g JOIN ductor.eec_workflow_run r ON r.run_id = CASE
        WHEN g.status <> 'continued' THEN g.run_id
        ELSE coalesce((SELECT c.latest_run_id FROM ductor.eec_run_chain c WHERE c.chain_run_id = g.chain_run_id), g.run_id)
        END
),
present AS (
    SELECT run_id, position, at_us, disposition, applied_version FROM ductor.eec_workflow_signal
    WHERE message_id = :message_id::text AND run_id = ANY (ARRAY[:run_id::uuid, (SELECT run_id FROM run),
        (SELECT i.run_id FROM run JOIN ductor.eec_chain_input i
         ON i.chain_run_id = run.chain_run_id AND i.kind = 'message' AND i.input_id = :message_id::text)])
    ORDER BY disposition = 'forwarded' LIMIT 1
),
left_behind AS (
    SELECT p.run_id FROM (
        SELECT run.chain_run_id AS run_id, 0 AS iteration FROM run
        WHERE run.iteration BETWEEN 1 AND :look_back::integer
        UNION ALL
        SELECT b.run_id, b.iteration FROM run JOIN ductor.eec_workflow_run b ON b.chain_run_id = run.chain_run_id
            AND b.iteration BETWEEN run.iteration - :look_back::integer AND run.iteration - 1
    ) AS p
    WHERE (SELECT m.run_id FROM ductor.eec_workflow_signal m
        WHERE m.run_id = p.run_id AND m.disposition IN ('', 'buffered') LIMIT 1) IS NOT NULL
    ORDER BY p.iteration LIMIT 1
),
beyond AS (
    SELECT m.run_id FROM ductor.eec_workflow_signal m
    WHERE m.run_id = (SELECT run_id FROM run) AND m.kind IN ('signal', 'vote', 'case', 'reply', 'digest')
        AND m.disposition IN ('', 'buffered')
    OFFSET :bound::integer - 1 LIMIT 1
),
accepted AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, payload_ref, by, at_us)
    SELECT run.run_id, :message_id::text, :kind::text, :name::text, :node::text, :payload::json, :payload_ref::json,
        :by::text, ductor.eec_now_us()
    FROM run
    WHERE run.status IN ('pending', 'running', 'waiting', 'paused') AND (SELECT position FROM present) IS NULL
        AND (SELECT run_id FROM beyond) IS NULL AND (SELECT run_id FROM left_behind) IS NULL
    ON CONFLICT (run_id, message_id) DO NOTHING
    RETURNING run_id, position, at_us
),
payloads AS (
    INSERT INTO ductor.eec_payload (run_id, hash, body)
    SELECT a.run_id, p.hash, p.body
    FROM accepted a CROSS JOIN unnest(:payload_hashes::text[], :payload_bodies::json[]) AS p (hash, body)
    ORDER BY p.hash
    ON CONFLICT (run_id, hash) DO NOTHING
)
SELECT run.status, (SELECT run_id FROM beyond) IS NOT NULL AS is_full,
    (SELECT run_id FROM left_behind)::text AS left_behind_run_id,
    run.run_id::text, a.position AS accepted_position, a.at_us AS accepted_at_us,
    p.run_id::text AS present_run_id, p.position, p.at_us, p.disposition, p.applied_version
FROM run LEFT JOIN accepted a ON true LEFT JOIN present p ON true

-- name: message_receipt
-- Where the run was continued the message may be with another run of the chain: where the chain says, with the latest, or
-- left behind in one of the last before that.
WITH given AS (
    SELECT run_id, coalesce(chain_run_id, run_id) AS chain_run_id FROM ductor.eec_workflow_run WHERE run_id = :run_id::uuid
),
latest AS (
    SELECT r.run_id, r.chain_run_id, r.iteration FROM given g JOIN ductor.eec_run_chain c ON c.chain_run_id = g.chain_run_id
    JOIN ductor.eec_workflow_run r ON r.run_id = c.latest_run_id
)
SELECT m.run_id::text AS present_run_id, m.position, m.at_us, m.disposition, m.applied_version
FROM ductor.eec_workflow_signal m
WHERE m.message_id = :message_id::text AND m.run_id = ANY (ARRAY(
    SELECT :run_id::uuid
    UNION ALL
    SELECT i.run_id FROM given g JOIN ductor.eec_chain_input i
        ON i.chain_run_id = g.chain_run_id AND i.kind = 'message' AND i.input_id = :message_id::text
    UNION ALL
    SELECT b.run_id FROM latest JOIN ductor.eec_workflow_run b ON b.chain_run_id = latest.chain_run_id
        AND b.iteration BETWEEN latest.iteration - :look_back::integer AND latest.iteration
    UNION ALL
    SELECT chain_run_id FROM latest))
ORDER BY m.disposition = 'forwarded', m.disposition = 'undelivered' LIMIT 1

-- name: deliver_event
-- `OFFSET 0` has the heads looked up by id: an index by tenant or status would lead through all of the tenant's runs.
WITH delivered AS (
    INSERT INTO ductor.eec_workflow_signal
        (run_id, message_id, kind, name, node, payload, payload_ref, by, at_us, disposition)
    SELECT r.run_id, :message_id::text, 'event', :name::text, '', :payload::json, :payload_ref::json, :by::text,
        :at_us::bigint,
        CASE WHEN (SELECT m.run_id FROM ductor.eec_workflow_signal m
                   WHERE m.run_id = r.run_id AND m.kind = 'event' AND m.disposition IN ('', 'buffered')
                   OFFSET :bound::integer - 1 LIMIT 1) IS NULL
            THEN '' ELSE 'undelivered' END
    FROM unnest(:run_ids::uuid[]) AS w (run_id)
    CROSS JOIN LATERAL (
        SELECT h.run_id, h.tenant, h.status, h.chain_run_id FROM ductor.eec_workflow_run h
        WHERE h.run_id = coalesce((SELECT c.latest_run_id FROM ductor.eec_workflow_run g JOIN ductor.eec_run_chain c
            ON c.chain_run_id = coalesce(g.chain_run_id, g.run_id)
            WHERE g.run_id = w.run_id AND g.status = 'continued'), w.run_id)
        OFFSET 0
    ) r
    WHERE r.tenant = :tenant::text AND r.status IN ('pending', 'running', 'waiting', 'paused')
        AND (r.chain_run_id IS NULL OR (SELECT i.run_id FROM ductor.eec_chain_input i
            WHERE i.chain_run_id = r.chain_run_id AND i.kind = 'message' AND i.input_id = :message_id::text) IS NULL)
    ORDER BY r.run_id
    ON CONFLICT (run_id, message_id) DO NOTHING
    RETURNING run_id, disposition
),
payloads AS (
    INSERT INTO ductor.eec_payload (run_id, hash, body)
    SELECT d.run_id, :payload_hash::text, :payload_body::json FROM delivered d
    WHERE d.disposition = '' AND :payload_hash::text IS NOT NULL
    ORDER BY d.run_id
    ON CONFLICT (run_id, hash) DO NOTHING
)
SELECT run_id::text FROM delivered WHERE disposition = '' ORDER BY run_id

-- name: publish_event
WITH published AS (
    INSERT INTO ductor.eec_event (tenant, event_id, name, payload, published_at_us, source)
    VALUES (:tenant::text, :event_id::text, :name::text, :payload::json, ductor.eec_now_us(), :source::text)
    ON CONFLICT (tenant, event_id) DO NOTHING
    RETURNING position, published_at_us
)
SELECT true AS is_new, position, published_at_us FROM published
UNION ALL
SELECT false, e.position, e.published_at_us FROM ductor.eec_event e
WHERE e.tenant = :tenant::text AND e.event_id = :event_id::text

-- name: unmatched_events
SELECT row_to_json(e)::text FROM ductor.eec_event e
WHERE NOT e.is_matched AND e.published_at_us < :older_than_us::bigint
ORDER BY e.position
LIMIT :limit::integer

-- name: event_matched
UPDATE ductor.eec_event SET is_matched = true
WHERE tenant = :tenant::text AND event_id = :event_id::text AND NOT is_matched

-- name: remove_old_events
WITH oldest AS (
    SELECT tenant, event_id, is_matched, published_at_us FROM ductor.eec_event ORDER BY position LIMIT :limit::integer
),
removed AS (
    DELETE FROM ductor.eec_event e USING oldest o
    WHERE e.tenant = o.tenant AND e.event_id = o.event_id AND o.is_matched AND o.published_at_us < :before_us::bigint
    RETURNING 1
)
SELECT count(*)::integer FROM removed

-- name: events_since
SELECT row_to_json(e)::text FROM ductor.eec_event e
WHERE e.tenant = :tenant::text AND e.name = :name::text
    AND (e.published_at_us, e.position) > (
        greatest((SELECT p.published_at_us FROM ductor.eec_event p WHERE p.position = :after_position::bigint),
            :since_us::bigint),
        CASE WHEN (SELECT p.published_at_us FROM ductor.eec_event p WHERE p.position = :after_position::bigint)
            >= :since_us::bigint THEN :after_position::bigint ELSE 0 END)
ORDER BY e.published_at_us, e.position
LIMIT :limit::integer

-- name: event_key_paths
-- From each path to the next one: as many look-ups as there are paths, however many waits.
WITH RECURSIVE paths AS (
    (SELECT w.key_path FROM ductor.eec_event_wait w
     WHERE w.tenant = :tenant::text AND w.name = :name::text ORDER BY w.key_path LIMIT 1)
    UNION ALL
    SELECT (SELECT w.key_path FROM ductor.eec_event_wait w
            WHERE w.tenant = :tenant::text AND w.name = :name::text AND w.key_path > p.key_path
            ORDER BY w.key_path LIMIT 1)
    FROM paths p WHERE p.key_path IS NOT NULL
)
SELECT key_path FROM paths WHERE key_path IS NOT NULL

-- name: waits_for_event
SELECT f.run_id::text, f.node, f.index
FROM unnest(:key_paths::text[], :key_values::text[]) AS k (path, value)
CROSS JOIN LATERAL (
    SELECT w.run_id, w.node, w.index FROM ductor.eec_event_wait w
    WHERE w.tenant = :tenant::text AND w.name = :name::text AND w.key_path = k.path AND w.key_value = k.value
        AND (w.run_id, w.node, w.index) > (:after_run_id::uuid, :after_node::text, :after_index::integer)
    ORDER BY w.run_id, w.node, w.index
    LIMIT :limit::integer
) f
ORDER BY f.run_id, f.node, f.index
LIMIT :limit::integer

-- name: unscanned_waits
SELECT w.run_id::text, w.tenant, row_to_json(w)::text AS wait FROM ductor.eec_event_wait w
WHERE NOT w.is_scanned
ORDER BY w.run_id, w.node, w.index
LIMIT :limit::integer

-- name: unscanned_waits_of_run
SELECT w.run_id::text, w.tenant, row_to_json(w)::text AS wait FROM ductor.eec_event_wait w
WHERE NOT w.is_scanned AND w.run_id = :run_id::uuid
ORDER BY w.run_id, w.node, w.index
LIMIT :limit::integer

-- name: wait_scanned
UPDATE ductor.eec_event_wait SET is_scanned = true
WHERE run_id = :run_id::uuid AND node = :node::text AND index = :index::integer
    AND (:since_us::bigint IS NULL OR since_us = :since_us::bigint)

-- name: inbox
SELECT i.run_id::text, r.tenant, r.definition, row_to_json(i)::text AS item
FROM (
    SELECT * FROM ductor.eec_workflow_inbox
    WHERE (run_id, node) > (:after_run_id::uuid, :after_node::text)
    ORDER BY run_id, node
    LIMIT :limit::integer
) AS i
JOIN ductor.eec_workflow_run r ON r.run_id = i.run_id
ORDER BY i.run_id, i.node

-- name: inbox_of_tenant
SELECT i.run_id::text, r.tenant, r.definition, row_to_json(i)::text AS item
FROM (
    SELECT * FROM ductor.eec_workflow_inbox
    WHERE tenant = :tenant::text AND (run_id, node) > (:after_run_id::uuid, :after_node::text)
    ORDER BY run_id, node
    LIMIT :limit::integer
) AS i
JOIN ductor.eec_workflow_run r ON r.run_id = i.run_id
ORDER BY i.run_id, i.node

-- name: inbox_of_person
SELECT i.run_id::text, r.tenant, r.definition, row_to_json(i)::text AS item
FROM (
    SELECT DISTINCT f.run_id, f.node
    FROM unnest(ARRAY[:person::text, '']) AS k (person)
    CROSS JOIN LATERAL (
        SELECT p.run_id, p.node FROM ductor.eec_workflow_inbox_person p
        WHERE p.person = k.person AND (p.run_id, p.node) > (:after_run_id::uuid, :after_node::text)
        ORDER BY p.run_id, p.node
        LIMIT :limit::integer
    ) f
    ORDER BY f.run_id, f.node
    LIMIT :limit::integer
) AS found
JOIN ductor.eec_workflow_inbox i ON i.run_id = found.run_id AND i.node = found.node
JOIN ductor.eec_workflow_run r ON r.run_id = i.run_id
ORDER BY i.run_id, i.node

-- name: inbox_of_person_in_tenant
SELECT i.run_id::text, r.tenant, r.definition, row_to_json(i)::text AS item
FROM (
    SELECT DISTINCT f.run_id, f.node
    FROM unnest(ARRAY[:person::text, '']) AS k (person)
    CROSS JOIN LATERAL (
        SELECT p.run_id, p.node FROM ductor.eec_workflow_inbox_person p
        WHERE p.tenant = :tenant::text AND p.person = k.person
            AND (p.run_id, p.node) > (:after_run_id::uuid, :after_node::text)
        ORDER BY p.run_id, p.node
        LIMIT :limit::integer
    ) f
    ORDER BY f.run_id, f.node
    LIMIT :limit::integer
) AS found
JOIN ductor.eec_workflow_inbox i ON i.run_id = found.run_id AND i.node = found.node
JOIN ductor.eec_workflow_run r ON r.run_id = i.run_id
ORDER BY i.run_id, i.node

-- name: lock_triggers
-- Held to the end of the transaction: of two hosts that replace the triggers of one definition the second sees the first.
SELECT pg_advisory_xact_lock(hashtextextended(:tenant::text || ' ' || :definition::text, 0))

-- name: replace_triggers
WITH removed AS (
    DELETE FROM ductor.eec_trigger
    WHERE tenant = :tenant::text AND definition = :definition::text AND index <> ALL (:indexes::integer[])
)
INSERT INTO ductor.eec_trigger AS t (tenant, definition, index, manifest_hash, event, next_at_us)
SELECT :tenant::text, :definition::text, n.index, n.manifest_hash, n.event, n.next_at_us
FROM unnest(:indexes::integer[], :manifest_hashes::text[], :events::text[], :next_at_us::bigint[])
    AS n (index, manifest_hash, event, next_at_us)
ON CONFLICT (tenant, definition, index) DO UPDATE
SET manifest_hash = EXCLUDED.manifest_hash, event = EXCLUDED.event,
    next_at_us = CASE WHEN t.manifest_hash = EXCLUDED.manifest_hash AND EXCLUDED.next_at_us IS NOT NULL
        THEN coalesce(t.next_at_us, EXCLUDED.next_at_us) ELSE EXCLUDED.next_at_us END

-- name: event_triggers
SELECT row_to_json(t)::text FROM ductor.eec_trigger t
WHERE t.tenant = :tenant::text AND t.event = :event::text AND t.event <> ''
ORDER BY t.definition, t.index

-- name: due_schedules
SELECT row_to_json(t)::text FROM ductor.eec_trigger t
WHERE t.next_at_us <= :now_us::bigint
ORDER BY t.next_at_us, t.tenant, t.definition, t.index
LIMIT :limit::integer

-- name: advance_schedule
UPDATE ductor.eec_trigger SET next_at_us = :next_at_us::bigint
WHERE tenant = :tenant::text AND definition = :definition::text AND index = :index::integer
    AND manifest_hash = :manifest_hash::text AND next_at_us = :former_next_at_us::bigint
RETURNING 1

-- name: open_runs_by_key
SELECT r.run_id::text, r.key FROM ductor.eec_workflow_run r
WHERE r.tenant = :tenant::text AND r.definition = :definition::text AND starts_with(r.key, :key_prefix::text)
    AND r.status IN ('pending', 'running', 'waiting', 'paused')
ORDER BY r.run_id
LIMIT :limit::integer

-- name: open_run_ids
-- From each definition of the tenant to the next one: as many short pages as it has definitions with open runs.
WITH RECURSIVE names AS (
    (SELECT r.definition FROM ductor.eec_workflow_run r
     WHERE r.tenant = :tenant::text AND r.status IN ('pending', 'running', 'waiting', 'paused')
     ORDER BY r.definition LIMIT 1)
    UNION ALL
    SELECT (SELECT r.definition FROM ductor.eec_workflow_run r
            WHERE r.tenant = :tenant::text AND r.status IN ('pending', 'running', 'waiting', 'paused')
                AND r.definition > n.definition
            ORDER BY r.definition LIMIT 1)
    FROM names n WHERE n.definition IS NOT NULL
)
SELECT f.run_id::text FROM names n CROSS JOIN LATERAL (
    SELECT r.run_id FROM ductor.eec_workflow_run r
    WHERE r.tenant = :tenant::text AND r.definition = n.definition AND r.run_id > :after_run_id::uuid
        AND r.status IN ('pending', 'running', 'waiting', 'paused')
    ORDER BY r.run_id
    LIMIT :limit::integer
) f
WHERE n.definition IS NOT NULL
ORDER BY f.run_id
LIMIT :limit::integer

-- name: open_run_ids_of_definition
SELECT r.run_id::text FROM ductor.eec_workflow_run r
WHERE r.tenant = :tenant::text AND r.definition = :definition::text AND r.run_id > :after_run_id::uuid
    AND r.status IN ('pending', 'running', 'waiting', 'paused')
ORDER BY r.run_id
LIMIT :limit::integer
