-- More parts of the statement of `commit.sql`: runs that a tick starts, and controls that it sends to others. New runs
-- come right after the journal rows of the batch, in the same order of tables: start key, head, journal; their payloads
-- and timers follow. `won` names the commits that won.
-- Nobody else inserts these heads and rows: their ids are derived from the parent's tick, and of two that compute it one
-- has lost before. Only for keys may transactions meet in another order; then one of them is sent again.

-- name: new_keys
-- Says whose each key is: another run's as it was, or the new one's. A step that starts a child anew takes the key over
-- from the child that it has started before, once that has ended. Of new runs with one key the first one gets it. A run
-- that continues another one has its key, and claims none.
, child_keyed AS (
    INSERT INTO ductor.eec_start_key AS k (tenant, definition, key, run_id)
    SELECT DISTINCT ON (c.tenant, c.definition, c.key) c.tenant, c.definition, c.key, c.run_id
    FROM unnest(:child_run_id::uuid[], :child_commit_id::uuid[], :child_tenant::text[], :child_definition::text[],
            :child_claimed_key::text[])
        WITH ORDINALITY AS c (run_id, commit_id, tenant, definition, key, ordinal)
    WHERE c.key IS NOT NULL AND c.commit_id IN (SELECT commit_id FROM won)
    ORDER BY c.tenant, c.definition, c.key, c.ordinal
    ON CONFLICT (tenant, definition, key) DO UPDATE
    SET run_id = coalesce((
        SELECT c.run_id
        FROM unnest(:child_run_id::uuid[], :child_parent_run_id::uuid[], :child_parent_node::text[])
            AS c (run_id, parent_run_id, parent_node)
        JOIN ductor.eec_workflow_run r ON r.run_id = k.run_id
        WHERE c.run_id = EXCLUDED.run_id AND r.parent_run_id = c.parent_run_id AND r.parent_node = c.parent_node
            AND r.status NOT IN ('pending', 'running', 'waiting', 'paused')
    ), k.run_id)
    RETURNING tenant, definition, key, run_id
)

-- name: new_runs
, child_started AS (
    INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, key, manifest_hash, status, started_at_us,
        updated_at_us, parent_run_id, parent_node, root_run_id, chain_run_id, iteration, search_attributes)
    SELECT c.run_id, c.tenant, c.definition, c.key, c.manifest_hash, c.status, c.started_at_us, c.started_at_us,
        c.parent_run_id, c.parent_node, c.root_run_id, c.chain_run_id, c.iteration, c.search_attributes
    FROM unnest(:child_run_id::uuid[], :child_commit_id::uuid[], :child_tenant::text[], :child_definition::text[],
            :child_key::text[], :child_claimed_key::text[], :child_manifest_hash::text[], :child_status::text[],
            :child_started_at_us::bigint[], :child_parent_run_id::uuid[], :child_parent_node::text[],
            :child_root_run_id::uuid[], :child_chain_run_id::uuid[], :child_iteration::integer[],
            :child_search_attributes::json[])
        AS c (run_id, commit_id, tenant, definition, key, claimed_key, manifest_hash, status, started_at_us,
            parent_run_id, parent_node, root_run_id, chain_run_id, iteration, search_attributes)
    WHERE c.commit_id IN (SELECT commit_id FROM won) AND {has_child_key}
    ORDER BY c.run_id
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_id
), child_rows AS (
    INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
    SELECT c.run_id, 1, c.commit_id, c.started_at_us, c.events, c.hash
    FROM unnest(:child_run_id::uuid[], :child_commit_id::uuid[], :child_started_at_us::bigint[], :child_events::json[],
            :child_hash::bytea[])
        AS c (run_id, commit_id, started_at_us, events, hash)
    WHERE c.run_id IN (SELECT run_id FROM child_started)
    ORDER BY c.run_id
    ON CONFLICT (run_id, version) DO NOTHING
)

-- name: has_child_key
(c.claimed_key IS NULL OR c.run_id IN (SELECT run_id FROM child_keyed))

-- name: has_no_child_key
c.claimed_key IS NULL

-- name: new_payloads
, child_payloads AS (
    INSERT INTO ductor.eec_payload (run_id, hash, body)
    SELECT p.run_id, p.hash, p.body
    FROM unnest(:childpayload_run_id::uuid[], :childpayload_hash::text[], :childpayload_payload::json[])
        AS p (run_id, hash, body)
    WHERE p.run_id IN (SELECT run_id FROM child_started)
    ON CONFLICT (run_id, hash) DO NOTHING
)

-- name: new_timers
, child_timers AS (
    INSERT INTO ductor.eec_workflow_timer (run_id, due_at_us)
    SELECT t.run_id, t.due_at_us
    FROM unnest(:childtimer_run_id::uuid[], :childtimer_due_at_us::bigint[]) AS t (run_id, due_at_us)
    WHERE t.run_id IN (SELECT run_id FROM child_started)
    ON CONFLICT (run_id) DO NOTHING
)

-- name: sent_controls
-- A child that this statement starts is not in its snapshot.
, sent_controls AS (
    INSERT INTO ductor.eec_workflow_control (run_id, request_id, kind, arguments, by, requested_at_us)
    SELECT s.run_id, s.request_id, s.kind, s.arguments, s.by, ductor.eec_now_us()
    FROM unnest(:sentcontrol_run_id::uuid[], :sentcontrol_request_id::text[], :sentcontrol_commit_id::uuid[],
            :sentcontrol_sender_run_id::uuid[], :sentcontrol_tenant::text[], :sentcontrol_kind::text[],
            :sentcontrol_arguments::json[], :sentcontrol_by::text[])
        AS s (run_id, request_id, commit_id, sender_run_id, tenant, kind, arguments, by)
    LEFT JOIN ductor.eec_workflow_run r ON r.run_id = s.run_id
    WHERE s.commit_id IN (SELECT commit_id FROM won)
        AND ({is_just_started} (r.tenant = coalesce(s.tenant,
                (SELECT h.tenant FROM ductor.eec_workflow_run h WHERE h.run_id = s.sender_run_id))
            AND (r.status = 'continued'  -- it passes it on
                OR r.status IN ('pending', 'running', 'waiting', 'paused') OR s.kind = 'compensate')))
    ORDER BY s.run_id, s.request_id
    ON CONFLICT (run_id, request_id) DO NOTHING
)

-- name: is_just_started
s.run_id IN (SELECT run_id FROM child_started) OR

-- name: refused_runs
-- What the parent of a run hears whose key is another one's.
, child_refused AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, by, at_us)
    SELECT c.parent_run_id, 'child:' || c.run_id, 'child', '', c.parent_node,
        json_build_object('run_id', c.run_id, 'status', 'refused', 'owner', k.run_id),
        'run:' || c.run_id, ductor.eec_now_us()
    FROM unnest(:child_run_id::uuid[], :child_tenant::text[], :child_definition::text[], :child_claimed_key::text[],
            :child_parent_run_id::uuid[], :child_parent_node::text[])
        WITH ORDINALITY AS c (run_id, tenant, definition, key, parent_run_id, parent_node, ordinal)
    JOIN child_keyed k ON k.tenant = c.tenant AND k.definition = c.definition AND k.key = c.key
    WHERE k.run_id <> c.run_id AND c.parent_run_id IS NOT NULL
    ORDER BY c.ordinal
    ON CONFLICT (run_id, message_id) DO NOTHING
)

-- name: undo_answers
-- Who asks a run to undo itself that does not exist, because its key was another one's or it was removed, hears that
-- there is nothing to undo: nobody else would ever say so.
, undo_answers AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, by, at_us)
    SELECT u.sender_run_id, u.message_id, 'child', '', u.node, u.payload, u.by, ductor.eec_now_us()
    FROM unnest(:undo_run_id::uuid[], :undo_commit_id::uuid[], :undo_sender_run_id::uuid[], :undo_message_id::text[],
            :undo_node::text[], :undo_payload::json[], :undo_by::text[])
        AS u (run_id, commit_id, sender_run_id, message_id, node, payload, by)
    LEFT JOIN ductor.eec_workflow_run r ON r.run_id = u.run_id
    WHERE {is_not_just_started} r.run_id IS NULL AND u.commit_id IN (SELECT commit_id FROM won)
    ORDER BY u.sender_run_id, u.message_id
    ON CONFLICT (run_id, message_id) DO NOTHING
)

-- name: is_not_just_started
u.run_id NOT IN (SELECT run_id FROM child_started) AND
