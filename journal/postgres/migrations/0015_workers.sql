-- Workers say that they live, so that people can be told whether anybody could take an attempt.

CREATE TABLE ductor.eec_worker (
    worker_id text COLLATE "C" PRIMARY KEY,
    queues text[] NOT NULL,
    tasks text[] NOT NULL,
    started_at_us bigint NOT NULL,
    heartbeat_at_us bigint NOT NULL
);
COMMENT ON TABLE ductor.eec_worker IS 'Workers and their latest heartbeat by the clock of the database.';
