-- Everything of one run in pages, and the way in for the rows of a closed run.

-- name: payload_page
SELECT hash, body::text FROM ductor.eec_payload
WHERE run_id = :run_id::uuid AND hash COLLATE "C" > :after_hash::text COLLATE "C"
ORDER BY hash COLLATE "C"
LIMIT :limit::integer

-- name: attempt_page
SELECT row_to_json(a)::text FROM ductor.eec_workflow_step_attempt a
WHERE a.run_id = :run_id::uuid
    AND (a.node COLLATE "C", a.generation) > (:after_node::text COLLATE "C", :after_generation::integer)
ORDER BY a.node COLLATE "C", a.generation
LIMIT :limit::integer

-- name: control_page
SELECT row_to_json(c)::text FROM ductor.eec_workflow_control c
WHERE c.run_id = :run_id::uuid
    AND c.position > coalesce((SELECT b.position FROM ductor.eec_workflow_control b
        WHERE b.run_id = :run_id::uuid AND b.request_id = :after_request_id::text), 0)
ORDER BY c.position
LIMIT :limit::integer

-- name: message_page
SELECT (SELECT row_to_json(j)::text FROM (
        SELECT m.message_id AS id, m.kind, m.name, m.node, m.payload, m.payload_ref, m.by, m.at_us, m.position) AS j) AS message,
    m.disposition, m.applied_version
FROM ductor.eec_workflow_signal m
WHERE m.run_id = :run_id::uuid AND m.position > :after_position::bigint
ORDER BY m.position
LIMIT :limit::integer

-- name: import_head
INSERT INTO ductor.eec_workflow_run
    (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us, ended_at_us, key, parent_run_id,
    root_run_id, error_type, search_attributes, chain_run_id, iteration, successor_run_id,
    parent_node, compensated)
VALUES (:run_id::uuid, :tenant::text, :definition::text, :manifest_hash::text, :status::text, :started_at_us::bigint,
    :updated_at_us::bigint, :ended_at_us::bigint, :key::text, :parent_run_id::uuid, :root_run_id::uuid,
    :error_type::text, :search_attributes::json, :chain_run_id::uuid, :iteration::integer, :successor_run_id::uuid,
    :parent_node::text, :compensated::text)
ON CONFLICT (run_id) DO NOTHING
RETURNING run_id

-- name: import_chain
-- The runs of a chain may come in any order.
INSERT INTO ductor.eec_run_chain AS c (chain_run_id, latest_run_id)
VALUES (coalesce(:chain_run_id::uuid, :run_id::uuid), :run_id::uuid)
ON CONFLICT (chain_run_id) DO UPDATE SET latest_run_id = EXCLUDED.latest_run_id
WHERE (SELECT r.iteration FROM ductor.eec_workflow_run r WHERE r.run_id = c.latest_run_id) < :iteration::integer

-- name: import_definition
-- Stands before all others of its name: it is never the newest.
INSERT INTO ductor.eec_definition
    (tenant, name, manifest_hash, version, manifest, source, file, places, published_at_us, is_published, position)
OVERRIDING SYSTEM VALUE
VALUES (:tenant::text, :name::text, :manifest_hash::text, :version::text, :manifest::json, :source::text, :file::text,
    :places::json, :published_at_us::bigint, false, 0)
ON CONFLICT (tenant, name, manifest_hash) DO NOTHING

-- name: import_transitions
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT :run_id::uuid, t.version, t.commit_id, t.at_us, t.events, t.hash
FROM unnest(:versions::bigint[], :commit_ids::uuid[], :times_us::bigint[], :events::json[], :hashes::bytea[])
    AS t (version, commit_id, at_us, events, hash)
ORDER BY t.version

-- name: import_payloads
INSERT INTO ductor.eec_payload (run_id, hash, body)
SELECT :run_id::uuid, p.hash, p.body FROM unnest(:hashes::text[], :bodies::json[]) AS p (hash, body) ORDER BY p.hash

-- name: import_attempts
INSERT INTO ductor.eec_workflow_step_attempt
    (run_id, node, generation, outcome, output, output_ref, error, worker, started_at_us, finished_at_us, disposition)
SELECT :run_id::uuid, a.node, a.generation, a.outcome, a.output, a.output_ref, a.error, a.worker, a.started_at_us,
    a.finished_at_us, a.disposition
FROM unnest(:nodes::text[], :generations::integer[], :outcomes::text[], :outputs::json[], :output_refs::json[],
        :errors::json[], :workers::text[], :started::bigint[], :finished::bigint[], :dispositions::text[])
    AS a (node, generation, outcome, output, output_ref, error, worker, started_at_us, finished_at_us, disposition)

-- name: import_controls
INSERT INTO ductor.eec_workflow_control
    (run_id, request_id, kind, arguments, by, requested_at_us, disposition, outcome)
SELECT :run_id::uuid, c.request_id, c.kind, c.arguments, c.by, c.requested_at_us, c.disposition, c.outcome
FROM unnest(:request_ids::text[], :kinds::text[], :arguments::json[], :bys::text[], :times_us::bigint[],
        :dispositions::text[], :outcomes::text[])
    WITH ORDINALITY AS c (request_id, kind, arguments, by, requested_at_us, disposition, outcome, number)
ORDER BY c.number

-- name: import_messages
INSERT INTO ductor.eec_workflow_signal
    (run_id, message_id, kind, name, node, payload, payload_ref, by, at_us, disposition, applied_version)
SELECT :run_id::uuid, m.message_id, m.kind, m.name, m.node, m.payload, m.payload_ref, m.by, m.at_us, m.disposition,
    m.version
FROM unnest(:message_ids::text[], :kinds::text[], :names::text[], :nodes::text[], :payloads::json[],
        :payload_refs::json[], :bys::text[], :times_us::bigint[], :dispositions::text[], :versions::bigint[])
    WITH ORDINALITY AS m (message_id, kind, name, node, payload, payload_ref, by, at_us, disposition, version, number)
ORDER BY m.number
