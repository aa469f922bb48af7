-- Runs that hosts leave alone until somebody has looked at them.

CREATE TABLE ductor.eec_run_set_aside (
    run_id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    host_id text NOT NULL,
    at_us bigint NOT NULL
);
COMMENT ON TABLE ductor.eec_run_set_aside IS 'Runs that hosts leave alone until somebody releases them.';
