-- Chains: runs that continue each other, and where what was sent to any of them is.

ALTER TABLE ductor.eec_workflow_run
    ADD COLUMN chain_run_id uuid,
    ADD COLUMN iteration integer NOT NULL DEFAULT 0,
    ADD COLUMN successor_run_id uuid;

CREATE TABLE ductor.eec_run_chain (
    -- the first run
    chain_run_id uuid PRIMARY KEY,
    latest_run_id uuid NOT NULL
) WITH (fillfactor = 80);
COMMENT ON TABLE ductor.eec_run_chain IS 'Chains of runs that continue each other: the way from any of them to the latest.';

CREATE TABLE ductor.eec_chain_input (
    chain_run_id uuid NOT NULL,
    -- message or control
    kind text NOT NULL,
    input_id text COLLATE "C" NOT NULL,
    -- the run that has it
    run_id uuid NOT NULL,
    PRIMARY KEY (chain_run_id, kind, input_id)
);
COMMENT ON TABLE ductor.eec_chain_input IS
    'Messages and controls that came to a run of a chain before the latest: their ids are unique in all of it.';
CREATE INDEX eec_workflow_run_of_chain ON ductor.eec_workflow_run (chain_run_id, iteration) WHERE chain_run_id IS NOT NULL;
