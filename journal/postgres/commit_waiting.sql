-- More parts of the statement of `commit.sql`: what ticks write for those that wait. They come after the others, in this
-- order of tables: message, wait, inbox, inbox person, digest wait, event. `won` names the commits that won.
-- The tenant of a commit stands with it where it starts the run; else the head says it.

-- name: messages
-- No commit id: a disposition that depends on no row. `NOT IN` keeps the partial index, which knows no ids, out of this.
, messages AS (
    UPDATE ductor.eec_workflow_signal m
    SET disposition = d.disposition, applied_version = coalesce(m.applied_version, d.version)
    FROM unnest(:message_run_id::uuid[], :message_commit_id::uuid[], :message_version::bigint[],
            :message_message_id::text[], :message_disposition::text[])
        AS d (run_id, commit_id, version, message_id, disposition)
    WHERE m.run_id = d.run_id AND m.message_id = d.message_id AND m.disposition NOT IN ('consumed', 'undelivered', 'forwarded')
        AND (d.commit_id IS NULL OR d.commit_id IN (SELECT commit_id FROM won))
)

-- name: sent
-- In the order of sending, which is that of their positions: two transactions never meet here, as the ids of what a
-- tick sends are its own, and of two ticks of one version one has lost before.
, sent AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, payload_ref, by, at_us,
        disposition)
    SELECT s.run_id, s.message_id, s.kind, s.name, s.node, s.payload, s.payload_ref, s.by, ductor.eec_now_us(),
        -- a run that another one continues passes it on
        CASE WHEN coalesce(s.own_status, r.status) IN ('pending', 'running', 'waiting', 'paused', 'continued')
                AND CASE WHEN s.kind IN ('child', 'lease') THEN true ELSE
                    (SELECT m.run_id FROM ductor.eec_workflow_signal m
                     WHERE m.run_id = s.run_id AND m.kind IN ('signal', 'vote', 'case', 'reply', 'digest')
                         AND m.disposition IN ('', 'buffered')
                     OFFSET {max_unconsumed_sent_messages} - 1 LIMIT 1) IS NULL END
            THEN '' ELSE 'undelivered' END
    FROM unnest(:sent_run_id::uuid[], :sent_message_id::text[], :sent_commit_id::uuid[], :sent_sender_run_id::uuid[],
            :sent_tenant::text[], :sent_own_status::text[], :sent_kind::text[], :sent_name::text[],
            :sent_node::text[], :sent_payload::json[], :sent_payload_ref::json[], :sent_by::text[])
        WITH ORDINALITY AS s (run_id, message_id, commit_id, sender_run_id, tenant, own_status, kind, name, node,
            payload, payload_ref, by, ordinal)
    LEFT JOIN ductor.eec_workflow_run r ON r.run_id = s.run_id
    WHERE s.commit_id IN (SELECT commit_id FROM won)
        AND coalesce(r.tenant = coalesce(s.tenant,
            (SELECT h.tenant FROM ductor.eec_workflow_run h WHERE h.run_id = s.sender_run_id)), true)
    ORDER BY s.ordinal
    ON CONFLICT (run_id, message_id) DO NOTHING
)

-- name: waits_gone
, waits_gone AS (
    DELETE FROM ductor.eec_event_wait w
    USING unnest(:waitgone_run_id::uuid[], :waitgone_node::text[], :waitgone_commit_id::uuid[])
        AS g (run_id, node, commit_id)
    WHERE w.run_id = g.run_id AND w.node = g.node AND g.commit_id IN (SELECT commit_id FROM won)
)

-- name: waits
, waits AS (
    INSERT INTO ductor.eec_event_wait (run_id, node, index, tenant, name, since_us, key_path, key_value)
    SELECT w.run_id, w.node, w.index,
        coalesce(w.tenant, (SELECT h.tenant FROM ductor.eec_workflow_run h WHERE h.run_id = w.run_id)),
        w.name, w.since_us, w.key_path, w.key_value
    FROM unnest(:wait_run_id::uuid[], :wait_node::text[], :wait_index::integer[], :wait_commit_id::uuid[],
            :wait_tenant::text[], :wait_name::text[], :wait_since_us::bigint[], :wait_key_path::text[],
            :wait_key_value::text[])
        AS w (run_id, node, index, commit_id, tenant, name, since_us, key_path, key_value)
    WHERE w.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id, node, index) DO UPDATE
    SET name = EXCLUDED.name, since_us = EXCLUDED.since_us, key_path = EXCLUDED.key_path,
        key_value = EXCLUDED.key_value, is_scanned = false
)

-- name: inbox_gone
, inbox_gone AS (
    DELETE FROM ductor.eec_workflow_inbox i
    USING unnest(:inboxgone_run_id::uuid[], :inboxgone_node::text[], :inboxgone_commit_id::uuid[])
        AS g (run_id, node, commit_id)
    WHERE i.run_id = g.run_id AND i.node = g.node AND g.commit_id IN (SELECT commit_id FROM won)
), people_of_gone AS (
    DELETE FROM ductor.eec_workflow_inbox_person p
    USING unnest(:inboxgone_run_id::uuid[], :inboxgone_node::text[], :inboxgone_commit_id::uuid[])
        AS g (run_id, node, commit_id)
    WHERE p.run_id = g.run_id AND p.node = g.node AND g.commit_id IN (SELECT commit_id FROM won)
)

-- name: inbox
-- No key is removed and written by one statement: a person who stays is not removed, and writing finds the row.
, inbox AS (
    INSERT INTO ductor.eec_workflow_inbox (run_id, node, tenant, kind, title, people, status, since_us, due_at_us)
    SELECT i.run_id, i.node,
        coalesce(i.tenant, (SELECT h.tenant FROM ductor.eec_workflow_run h WHERE h.run_id = i.run_id)),
        i.kind, i.title, i.people, i.status, i.since_us, i.due_at_us
    FROM unnest(:inbox_run_id::uuid[], :inbox_node::text[], :inbox_commit_id::uuid[], :inbox_tenant::text[],
            :inbox_kind::text[], :inbox_title::text[], :inbox_people::json[], :inbox_status::text[],
            :inbox_since_us::bigint[], :inbox_due_at_us::bigint[])
        AS i (run_id, node, commit_id, tenant, kind, title, people, status, since_us, due_at_us)
    WHERE i.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id, node) DO UPDATE
    SET kind = EXCLUDED.kind, title = EXCLUDED.title, people = EXCLUDED.people, status = EXCLUDED.status,
        since_us = EXCLUDED.since_us, due_at_us = EXCLUDED.due_at_us
), people_gone AS (
    DELETE FROM ductor.eec_workflow_inbox_person p
    USING unnest(:inbox_run_id::uuid[], :inbox_node::text[], :inbox_commit_id::uuid[]) AS i (run_id, node, commit_id)
    WHERE p.run_id = i.run_id AND p.node = i.node AND i.commit_id IN (SELECT commit_id FROM won)
        AND (p.run_id, p.node, p.person) NOT IN (
            SELECT * FROM unnest(:person_run_id::uuid[], :person_node::text[], :person_person::text[]))
), people AS (
    INSERT INTO ductor.eec_workflow_inbox_person (run_id, node, person, tenant)
    SELECT p.run_id, p.node, p.person,
        coalesce(p.tenant, (SELECT h.tenant FROM ductor.eec_workflow_run h WHERE h.run_id = p.run_id))
    FROM unnest(:person_run_id::uuid[], :person_node::text[], :person_person::text[], :person_commit_id::uuid[],
            :person_tenant::text[])
        AS p (run_id, node, person, commit_id, tenant)
    WHERE p.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id, node, person) DO NOTHING
)

-- name: digests
-- A step that is redriven brings its item again, under its new generation.
, digests_gone AS (
    DELETE FROM ductor.eec_digest_wait w
    USING unnest(:digestgone_run_id::uuid[], :digestgone_node::text[], :digestgone_commit_id::uuid[])
        AS g (run_id, node, commit_id)
    WHERE w.run_id = g.run_id AND w.node = g.node AND g.commit_id IN (SELECT commit_id FROM won)
), digests AS (
    INSERT INTO ductor.eec_digest_wait (run_id, node, generation, key, item, duration_ms, max_items)
    SELECT d.run_id, d.node, d.generation, d.key, d.item, d.duration_ms, d.max_items
    FROM unnest(:digest_run_id::uuid[], :digest_node::text[], :digest_commit_id::uuid[], :digest_generation::integer[],
            :digest_key::text[], :digest_item::json[], :digest_duration_ms::bigint[], :digest_max_items::integer[])
        AS d (run_id, node, commit_id, generation, key, item, duration_ms, max_items)
    WHERE d.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id, node) DO UPDATE
    SET generation = EXCLUDED.generation, key = EXCLUDED.key, item = EXCLUDED.item,
        duration_ms = EXCLUDED.duration_ms, max_items = EXCLUDED.max_items, position = DEFAULT, is_joined = false
)

-- name: leases_handed_on
-- The lease of the whole run goes to the run that continues this one.
, leases_handed_on AS (
    UPDATE ductor.eec_lease l SET run_id = h.successor_run_id, generation = 0
    FROM unnest(:leasehanded_run_id::uuid[], :leasehanded_commit_id::uuid[], :leasehanded_successor_run_id::uuid[])
        AS h (run_id, commit_id, successor_run_id)
    WHERE l.run_id = h.run_id AND l.node = '@run' AND l.fence > 0 AND h.commit_id IN (SELECT commit_id FROM won)
)

-- name: leases
-- What goes, what comes, and what is there already under the name of what comes: each key has to be looked at.
, leases_gone AS (
    DELETE FROM ductor.eec_lease l
    USING unnest(:leasegone_run_id::uuid[], :leasegone_node::text[], :leasegone_commit_id::uuid[])
        AS g (run_id, node, commit_id)
    WHERE l.run_id = g.run_id AND l.node = g.node AND g.commit_id IN (SELECT commit_id FROM won)
    RETURNING l.tenant, l.key
), leases_replaced AS (
    SELECT l.tenant, l.key
    FROM unnest(:lease_run_id::uuid[], :lease_node::text[], :lease_commit_id::uuid[]) AS w (run_id, node, commit_id)
    JOIN ductor.eec_lease l ON l.run_id = w.run_id AND l.node = w.node
    WHERE w.commit_id IN (SELECT commit_id FROM won)
), leases AS (
    INSERT INTO ductor.eec_lease (run_id, node, generation, tenant, key, max_holders, since_us)
    SELECT w.run_id, w.node, w.generation,
        coalesce(w.tenant, (SELECT h.tenant FROM ductor.eec_workflow_run h WHERE h.run_id = w.run_id)),
        w.key, w.max_holders, ductor.eec_now_us()
    FROM unnest(:lease_run_id::uuid[], :lease_node::text[], :lease_commit_id::uuid[], :lease_tenant::text[],
            :lease_generation::integer[], :lease_key::text[], :lease_max_holders::integer[])
        AS w (run_id, node, commit_id, tenant, generation, key, max_holders)
    WHERE w.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (run_id, node) DO UPDATE
    SET generation = EXCLUDED.generation, key = EXCLUDED.key, max_holders = EXCLUDED.max_holders, position = DEFAULT,
        since_us = EXCLUDED.since_us, fence = 0
    RETURNING tenant, key
), lease_looks AS (
    INSERT INTO ductor.eec_lease_look (tenant, key)
    SELECT tenant, key FROM leases_gone UNION SELECT tenant, key FROM leases_replaced
    UNION SELECT tenant, key FROM leases
)

-- name: published
-- In the order of publishing, as with `sent`.
, published AS (
    INSERT INTO ductor.eec_event (tenant, event_id, name, payload, published_at_us, source)
    SELECT p.tenant, p.event_id, p.name, p.payload, ductor.eec_now_us(), p.source
    FROM unnest(:published_tenant::text[], :published_event_id::text[], :published_commit_id::uuid[],
            :published_name::text[], :published_payload::json[], :published_source::text[])
        WITH ORDINALITY AS p (tenant, event_id, commit_id, name, payload, source, ordinal)
    WHERE p.commit_id IN (SELECT commit_id FROM won)
    ORDER BY p.ordinal
    ON CONFLICT (tenant, event_id) DO NOTHING
)
