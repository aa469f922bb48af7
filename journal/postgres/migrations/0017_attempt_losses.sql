-- Attempts that were lost with their hosts are counted: one that ends its host is not issued again without end.

CREATE TABLE ductor.eec_attempt_loss (
    run_id uuid NOT NULL,
    token text COLLATE "C" NOT NULL,
    losses integer NOT NULL,
    count_id uuid NOT NULL, -- of the call that counted last: asked again it counts nothing
    last_at_us bigint NOT NULL,
    PRIMARY KEY (run_id, token)
);
COMMENT ON TABLE ductor.eec_attempt_loss IS
    'How often attempts were lost with hosts that had them, since their runs were released last.';
