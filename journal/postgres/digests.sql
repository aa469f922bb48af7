-- Digests. A transaction that changes a window locks it by name first, then the waits it concerns in order of run.

-- name: unjoined_digests
SELECT w.run_id::text, w.generation, r.tenant, r.definition, w.node, w.key
FROM ductor.eec_digest_wait w JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
WHERE w.run_id = ANY (:run_ids::uuid[]) AND NOT w.is_joined
ORDER BY w.position
LIMIT :limit::integer

-- name: digest_work
-- Kinds: items to join, windows to close. One query a sweep.
(SELECT 'unjoined' AS kind, w.run_id::text, w.generation, r.tenant, r.definition, w.node, w.key
 FROM (SELECT run_id, generation, node, key, position FROM ductor.eec_digest_wait WHERE NOT is_joined
       ORDER BY position LIMIT :limit::integer) AS w
 JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
 ORDER BY w.position)
UNION ALL
(SELECT 'due', NULL, NULL, tenant, definition, node, key FROM ductor.eec_digest_window
 WHERE leader_run_id IS NOT NULL AND closes_at_us <= :now_us::bigint
 ORDER BY closes_at_us LIMIT :limit::integer)

-- name: lock_digest_window
SELECT pg_advisory_xact_lock(hashtextextended(:window::text, 1))

-- name: digest_window
SELECT coalesce(leader_run_id::text, ''), leader_generation, closes_at_us, max_items, item_count, item_bytes
FROM ductor.eec_digest_window
WHERE tenant = :tenant::text AND definition = :definition::text AND node = :node::text AND key = :key::text

-- name: lock_digest_waits
SELECT run_id::text, generation, key, item::text, duration_ms, max_items, is_joined
FROM ductor.eec_digest_wait
WHERE run_id = ANY (:run_ids::uuid[]) AND node = :node::text
ORDER BY run_id
FOR UPDATE

-- name: mark_digests_joined
UPDATE ductor.eec_digest_wait SET is_joined = true WHERE run_id = ANY (:run_ids::uuid[]) AND node = :node::text

-- name: remove_digest_leader
-- What is left of a window when its leader takes its item along.
WITH removed AS (
    DELETE FROM ductor.eec_digest_item
    WHERE tenant = :tenant::text AND definition = :definition::text AND node = :node::text AND key = :key::text
        AND run_id = :run_id::uuid AND generation = :generation::integer
    RETURNING octet_length(item::text) AS size_bytes
)
SELECT count(*)::integer, coalesce(sum(size_bytes), 0)::bigint FROM removed

-- name: take_digest_items
WITH taken AS (
    DELETE FROM ductor.eec_digest_item
    WHERE tenant = :tenant::text AND definition = :definition::text AND node = :node::text AND key = :key::text
    RETURNING position, item
)
SELECT item::text FROM taken ORDER BY position

-- name: tell_digests
WITH told AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, payload_ref, by, at_us)
    SELECT t.run_id, t.message_id, 'digest', '', :node::text, t.payload, t.payload_ref, '', ductor.eec_now_us()
    FROM unnest(:run_ids::uuid[], :message_ids::text[], :payloads::json[], :payload_refs::json[])
        AS t (run_id, message_id, payload, payload_ref)
    ORDER BY t.run_id, t.message_id
    ON CONFLICT (run_id, message_id) DO NOTHING
    RETURNING run_id
), bodies AS (
    INSERT INTO ductor.eec_payload (run_id, hash, body)
    SELECT b.run_id, b.hash, b.body FROM unnest(:body_run_ids::uuid[], :hashes::text[], :bodies::json[])
        AS b (run_id, hash, body)
    ORDER BY b.run_id, b.hash
    ON CONFLICT (run_id, hash) DO NOTHING
)
SELECT run_id::text FROM told

-- name: remove_digest_window
DELETE FROM ductor.eec_digest_window
WHERE tenant = :tenant::text AND definition = :definition::text AND node = :node::text AND key = :key::text

-- name: write_digest_window
INSERT INTO ductor.eec_digest_window AS w (tenant, definition, node, key, leader_run_id, leader_generation, closes_at_us,
    max_items, item_count, item_bytes)
VALUES (:tenant::text, :definition::text, :node::text, :key::text, :leader_run_id::uuid, :leader_generation::integer,
    :closes_at_us::bigint, :max_items::integer, :item_count::integer, :item_bytes::bigint)
ON CONFLICT (tenant, definition, node, key) DO UPDATE
SET leader_run_id = EXCLUDED.leader_run_id, leader_generation = EXCLUDED.leader_generation,
    closes_at_us = EXCLUDED.closes_at_us, max_items = EXCLUDED.max_items, item_count = EXCLUDED.item_count,
    item_bytes = EXCLUDED.item_bytes

-- name: add_digest_items
INSERT INTO ductor.eec_digest_item (tenant, definition, node, key, run_id, generation, item)
SELECT :tenant::text, :definition::text, :node::text, :key::text, i.run_id, i.generation, i.item
FROM unnest(:run_ids::uuid[], :generations::integer[], :items::json[]) WITH ORDINALITY
    AS i (run_id, generation, item, ordinal)
ORDER BY i.ordinal
