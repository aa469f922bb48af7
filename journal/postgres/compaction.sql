-- Removal of what compacted rows stand for. Such a row is known by how its text begins, which an index is made of.

-- name: compacted_runs
SELECT run_id::text, max(version) AS version, EXISTS (
    SELECT 1 FROM ductor.eec_workflow_transition o WHERE o.run_id = c.run_id AND o.version = max(c.version) - 1
) AS has_older_rows
FROM (
    SELECT run_id, version FROM ductor.eec_workflow_transition
    WHERE starts_with(events::text, '[{"type":"run_compacted"') AND run_id > :after_run_id::uuid
    ORDER BY run_id, version LIMIT :limit::integer
) AS c
GROUP BY run_id ORDER BY run_id

-- name: removable_rows
-- A run's rows lie in the feed in their order, so what projectors have passed is always the beginning.
WITH compacted AS (
    SELECT max(version) AS version FROM ductor.eec_workflow_transition
    WHERE run_id = :run_id::uuid AND starts_with(events::text, '[{"type":"run_compacted"')
),
slowest AS (
    SELECT era, transaction_id, position FROM ductor.eec_projection WHERE stage <> 'retired'
    ORDER BY era, transaction_id, position LIMIT 1
)
SELECT t.version, (SELECT version FROM compacted) AS compacted_version
FROM ductor.eec_workflow_transition t
WHERE t.run_id = :run_id::uuid AND t.version < (SELECT version FROM compacted) AND t.at_us < :before_us::bigint
    AND NOT EXISTS (SELECT 1 FROM slowest s
        WHERE (t.era, t.transaction_id, t.position) > (s.era, s.transaction_id::text::xid8, s.position))
ORDER BY t.version
LIMIT :limit::integer

-- name: remove_rows
DELETE FROM ductor.eec_workflow_transition
WHERE run_id = :run_id::uuid AND version <= :last_version::bigint

-- name: unneeded_values
-- Asked without a lock: what is found is looked at again below.
WITH named AS MATERIALIZED (
    SELECT DISTINCT m.found[1] AS hash
    FROM ductor.eec_workflow_transition t, regexp_matches(t.events::text, :pattern::text, 'g') AS m (found)
    WHERE t.run_id = :run_id::uuid AND t.version >= :compacted_version::bigint
)
SELECT p.hash, (SELECT max(version) FROM ductor.eec_workflow_transition WHERE run_id = :run_id::uuid) AS version
FROM ductor.eec_payload p
WHERE p.run_id = :run_id::uuid AND NOT EXISTS (SELECT 1 FROM named n WHERE n.hash = p.hash)
    AND NOT EXISTS (SELECT 1 FROM ductor.eec_workflow_step_attempt a
        WHERE a.run_id = :run_id::uuid AND a.output_ref ->> 'hash' = p.hash)
    AND NOT EXISTS (SELECT 1 FROM ductor.eec_workflow_signal s
        WHERE s.run_id = :run_id::uuid AND s.payload_ref ->> 'hash' = p.hash)
ORDER BY p.hash
LIMIT :limit::integer

-- name: remove_values
-- Nobody writes large values meanwhile, so what names one of these is there to be seen.
WITH named AS MATERIALIZED (
    SELECT DISTINCT m.found[1] AS hash
    FROM ductor.eec_workflow_transition t, regexp_matches(t.events::text, :pattern::text, 'g') AS m (found)
    WHERE t.run_id = :run_id::uuid AND t.version > :after_version::bigint
)
DELETE FROM ductor.eec_payload p
WHERE p.run_id = :run_id::uuid AND p.hash = ANY (:hashes::text[])
    AND NOT EXISTS (SELECT 1 FROM named n WHERE n.hash = p.hash)
    AND NOT EXISTS (SELECT 1 FROM ductor.eec_workflow_step_attempt a
        WHERE a.run_id = :run_id::uuid AND a.output_ref ->> 'hash' = p.hash)
    AND NOT EXISTS (SELECT 1 FROM ductor.eec_workflow_signal s
        WHERE s.run_id = :run_id::uuid AND s.payload_ref ->> 'hash' = p.hash)
RETURNING p.hash
