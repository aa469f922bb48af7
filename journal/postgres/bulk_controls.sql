-- What is asked of bulk controls. Whole rows come as JSON.

-- name: add_bulk_control
WITH present AS (
    SELECT bulk_id FROM ductor.eec_bulk_control WHERE bulk_id = :bulk_id::uuid
),
beyond AS (
    SELECT bulk_id FROM ductor.eec_bulk_control
    WHERE tenant = :tenant::text AND finished_at_us IS NULL
    OFFSET :bound::integer - 1 LIMIT 1
),
accepted AS (
    INSERT INTO ductor.eec_bulk_control (bulk_id, tenant, definition, kind, by, reason, requested_at_us)
    SELECT :bulk_id::uuid, :tenant::text, :definition::text, :kind::text, :by::text, :reason::text,
        coalesce(nullif(:requested_at_us::bigint, 0), ductor.eec_now_us())
    WHERE (SELECT bulk_id FROM present) IS NULL AND (SELECT bulk_id FROM beyond) IS NULL
    ON CONFLICT (bulk_id) DO NOTHING
    RETURNING bulk_id
)
SELECT (SELECT bulk_id FROM accepted) IS NOT NULL AS is_accepted, (SELECT bulk_id FROM present) IS NOT NULL AS is_present,
    (SELECT bulk_id FROM beyond) IS NOT NULL AS is_full

-- name: bulk_control
SELECT row_to_json(b)::text FROM ductor.eec_bulk_control b WHERE b.bulk_id = :bulk_id::uuid

-- name: next_bulk_control
SELECT row_to_json(b)::text FROM (
    SELECT DISTINCT ON (tenant) * FROM ductor.eec_bulk_control WHERE finished_at_us IS NULL ORDER BY tenant, position
) b
ORDER BY (SELECT max(t.advanced_at_us) FROM ductor.eec_bulk_control t WHERE t.tenant = b.tenant), b.position
LIMIT 1

-- name: advance_bulk_control
-- The lock makes who comes second look again: it finds the row moved on, and does nothing.
WITH bulk AS MATERIALIZED (
    SELECT bulk_id, kind, by, reason FROM ductor.eec_bulk_control
    WHERE bulk_id = :bulk_id::uuid AND finished_at_us IS NULL AND after_run_id IS NOT DISTINCT FROM :after_run_id::uuid
    FOR UPDATE
),
requested AS (
    INSERT INTO ductor.eec_workflow_control (run_id, request_id, kind, arguments, by, requested_at_us)
    SELECT r.run_id, b.bulk_id::text || '/' || r.run_id::text, b.kind, json_build_object('reason', b.reason), b.by,
        ductor.eec_now_us()
    FROM bulk b CROSS JOIN unnest(:run_ids::uuid[]) AS w (run_id) JOIN ductor.eec_workflow_run r ON r.run_id = w.run_id
    WHERE r.status IN ('pending', 'running', 'waiting', 'paused')
    ORDER BY r.run_id
    ON CONFLICT (run_id, request_id) DO NOTHING
    RETURNING run_id
)
UPDATE ductor.eec_bulk_control c
SET after_run_id = coalesce(:last_run_id::uuid, c.after_run_id),
    requested = c.requested + (SELECT count(*) FROM requested),
    advanced_at_us = ductor.eec_now_us(),
    finished_at_us = CASE WHEN :is_last::boolean THEN ductor.eec_now_us() END
FROM bulk b WHERE c.bulk_id = b.bulk_id
RETURNING row_to_json(c)::text
