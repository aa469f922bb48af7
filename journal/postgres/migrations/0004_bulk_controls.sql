-- One control asked of many runs.

CREATE TABLE ductor.eec_bulk_control (
    bulk_id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    -- null for all definitions of the tenant
    definition text,
    kind text NOT NULL,
    by text NOT NULL,
    reason text NOT NULL,
    requested_at_us bigint NOT NULL,
    -- orders those of a tenant
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    after_run_id uuid,
    requested bigint NOT NULL DEFAULT 0,
    -- 0 as long as it has not begun
    advanced_at_us bigint NOT NULL DEFAULT 0,
    finished_at_us bigint,
    CONSTRAINT eec_bulk_control_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_bulk_control_definition CHECK (octet_length(definition) <= 255)
);
COMMENT ON TABLE ductor.eec_bulk_control IS 'Controls asked of all runs of a tenant or a definition, and how far they have come.';
CREATE INDEX eec_bulk_control_unfinished ON ductor.eec_bulk_control (tenant, position) WHERE finished_at_us IS NULL;
CREATE INDEX eec_bulk_control_turns ON ductor.eec_bulk_control (tenant, advanced_at_us);
