-- Which runs are to be woken.
-- `is_held` marks what waits for a paused run, so that it is looked at once and not in every search. It changes nothing
-- else: a run that is resumed reads all that waits for it. Who dies in between is followed by somebody who recovers, and
-- recovering releases what is held of runs that are not paused.

-- A run's partition is the last byte of its id.

-- name: runs_to_recover
SELECT run_id::text FROM ductor.eec_workflow_run r
WHERE status IN ('pending', 'running') AND (:after_run_id::uuid IS NULL OR run_id > :after_run_id::uuid)
    AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(run_id), 15) = ANY(:partitions::integer[]))
    AND NOT EXISTS (SELECT FROM ductor.eec_run_set_aside s WHERE s.run_id = r.run_id)
ORDER BY run_id
LIMIT :limit::integer

-- name: runs_to_wake
-- Each cause gets its turn: the oldest of every cause, then the second of every cause, ... Of a paused run only controls
-- count. A row without a run says that inputs of paused runs were passed over. Child runs that have just begun are left to
-- the host that has begun them.
WITH attempts AS MATERIALIZED (
    SELECT w.run_id, w.position, r.status FROM (
        SELECT run_id, position FROM ductor.eec_workflow_step_attempt WHERE disposition = '' AND NOT is_held
            AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(run_id), 15) = ANY(:partitions::integer[]))
        ORDER BY position LIMIT :scan_limit::integer) AS w
    JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
),
messages AS MATERIALIZED (
    SELECT w.run_id, w.position, r.status FROM (
        SELECT run_id, position FROM ductor.eec_workflow_signal WHERE disposition = '' AND NOT is_held
            AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(run_id), 15) = ANY(:partitions::integer[]))
        ORDER BY position LIMIT :scan_limit::integer) AS w
    JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
),
due AS (
    (SELECT t.run_id, 1 AS cause, row_number() OVER (ORDER BY t.due_at_us, t.run_id) AS turn
     FROM ductor.eec_workflow_timer t JOIN ductor.eec_workflow_run r ON r.run_id = t.run_id
     WHERE t.due_at_us <= :now_us::bigint AND r.status <> 'paused'
         AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(t.run_id), 15) = ANY(:partitions::integer[]))
     ORDER BY t.due_at_us, t.run_id LIMIT :limit::integer)
    UNION ALL
    (SELECT run_id, 2, row_number() OVER (ORDER BY min(position)) FROM (
        SELECT run_id, position FROM ductor.eec_workflow_control WHERE disposition = ''
            AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(run_id), 15) = ANY(:partitions::integer[]))
        ORDER BY position LIMIT :scan_limit::integer) AS waiting
     GROUP BY run_id ORDER BY min(position) LIMIT :limit::integer)
    UNION ALL
    (SELECT run_id, 3, row_number() OVER (ORDER BY min(position)) FROM attempts WHERE status <> 'paused'
     GROUP BY run_id ORDER BY min(position) LIMIT :limit::integer)
    UNION ALL
    (SELECT run_id, 4, row_number() OVER (ORDER BY min(position)) FROM messages WHERE status <> 'paused'
     GROUP BY run_id ORDER BY min(position) LIMIT :limit::integer)
    UNION ALL
    (SELECT run_id, 5, row_number() OVER (ORDER BY run_id) FROM ductor.eec_workflow_run
     WHERE status = 'pending' AND status IN ('pending', 'running')
         AND (parent_run_id IS NULL OR updated_at_us <= :now_us::bigint)
         AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(run_id), 15) = ANY(:partitions::integer[]))
     ORDER BY run_id LIMIT :limit::integer)
)
(SELECT run_id::text FROM due
 WHERE NOT EXISTS (SELECT FROM ductor.eec_run_set_aside s WHERE s.run_id = due.run_id)
 GROUP BY run_id ORDER BY min(turn * 5 + cause) LIMIT :limit::integer)
UNION ALL
(SELECT NULL WHERE EXISTS (SELECT FROM attempts WHERE status = 'paused')
    OR EXISTS (SELECT FROM messages WHERE status = 'paused'))

-- name: runs_with_results
SELECT DISTINCT w.run_id::text FROM (
    SELECT run_id FROM ductor.eec_workflow_step_attempt WHERE disposition = '' AND NOT is_held
    ORDER BY position LIMIT :limit::integer) AS w

-- name: hold_attempts
-- Rows that a tick has locked are left to it.
WITH held AS MATERIALIZED (
    SELECT i.run_id, i.node, i.generation FROM (
        SELECT run_id, node, generation FROM ductor.eec_workflow_step_attempt WHERE disposition = '' AND NOT is_held
        ORDER BY position LIMIT :scan_limit::integer) AS w
    JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
    JOIN ductor.eec_workflow_step_attempt i ON i.run_id = w.run_id AND i.node = w.node AND i.generation = w.generation
    WHERE r.status = 'paused' AND i.disposition = '' AND NOT i.is_held
    ORDER BY i.run_id, i.node, i.generation
    FOR UPDATE OF i SKIP LOCKED
)
UPDATE ductor.eec_workflow_step_attempt i SET is_held = true FROM held h WHERE i.run_id = h.run_id AND i.node = h.node AND i.generation = h.generation

-- name: release_attempts
WITH released AS MATERIALIZED (
    SELECT i.run_id, i.node, i.generation FROM ductor.eec_workflow_step_attempt i JOIN ductor.eec_workflow_run r ON r.run_id = i.run_id
    WHERE i.disposition = '' AND i.is_held AND r.status <> 'paused'
    ORDER BY i.run_id, i.node, i.generation
    FOR UPDATE OF i
)
UPDATE ductor.eec_workflow_step_attempt i SET is_held = false FROM released h WHERE i.run_id = h.run_id AND i.node = h.node AND i.generation = h.generation

-- name: hold_messages
-- Rows that a tick has locked are left to it.
WITH held AS MATERIALIZED (
    SELECT i.run_id, i.message_id FROM (
        SELECT run_id, message_id FROM ductor.eec_workflow_signal WHERE disposition = '' AND NOT is_held
        ORDER BY position LIMIT :scan_limit::integer) AS w
    JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
    JOIN ductor.eec_workflow_signal i ON i.run_id = w.run_id AND i.message_id = w.message_id
    WHERE r.status = 'paused' AND i.disposition = '' AND NOT i.is_held
    ORDER BY i.run_id, i.message_id
    FOR UPDATE OF i SKIP LOCKED
)
UPDATE ductor.eec_workflow_signal i SET is_held = true FROM held h WHERE i.run_id = h.run_id AND i.message_id = h.message_id

-- name: release_messages
WITH released AS MATERIALIZED (
    SELECT i.run_id, i.message_id FROM ductor.eec_workflow_signal i JOIN ductor.eec_workflow_run r ON r.run_id = i.run_id
    WHERE i.disposition = '' AND i.is_held AND r.status <> 'paused'
    ORDER BY i.run_id, i.message_id
    FOR UPDATE OF i
)
UPDATE ductor.eec_workflow_signal i SET is_held = false FROM released h WHERE i.run_id = h.run_id AND i.message_id = h.message_id

-- name: next_due_us
SELECT min(due_at_us) FROM ductor.eec_workflow_timer WHERE due_at_us IS NOT NULL
