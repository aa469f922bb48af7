-- The PostgreSQL tier of the distributed queue: items that wait for workers of other processes, in lanes by tenant.
--
-- Locks, so that nobody waits in a circle:
-- * leasing from one queue is serial: an advisory lock until the end of the transaction, which writes no further than to
--   memory before it answers (a lease that a crash forgets is an item that is queued again);
-- * who queues items first holds their lanes FOR KEY SHARE, in the order of tenants, which stops nobody but him who would
--   call a lane empty; a lane that is held so stays ready;
-- * items are taken with SKIP LOCKED; who removes or returns items locks them in the order of tokens;
-- * who ends leases frees only those lanes that nobody else has locked; the others are looked at again in a moment.

CREATE TABLE ductor.eec_task_queue (
    queue text COLLATE "C" PRIMARY KEY,
    virtual_time double precision NOT NULL DEFAULT 0,
    max_queued bigint NOT NULL DEFAULT 1000000,
    max_in_flight bigint,
    -- how many were queued when they were last counted
    queued bigint NOT NULL DEFAULT 0,
    counted_at_us bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE ductor.eec_task_queue IS 'Queues of the PostgreSQL tier: their bounds, and how far their turns have come.';

CREATE TABLE ductor.eec_task_lane (
    queue text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    weight integer NOT NULL DEFAULT 1,
    max_in_flight bigint,
    rate_per_s double precision,
    burst integer NOT NULL DEFAULT 1,
    virtual_time double precision NOT NULL DEFAULT 0,
    is_ready boolean NOT NULL DEFAULT false,
    -- null unless the cap or the rate holds the lane back; then when to look again
    blocked_until_us bigint,
    is_capped boolean NOT NULL DEFAULT false,
    rate_tokens double precision,
    refilled_at_us bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE ductor.eec_task_lane IS 'Tenants of the queues: how each is served, and whose turn it is.';
CREATE INDEX eec_task_lane_ready ON ductor.eec_task_lane (queue, virtual_time, tenant) WHERE is_ready;
CREATE INDEX eec_task_lane_blocked ON ductor.eec_task_lane (queue, blocked_until_us) WHERE blocked_until_us IS NOT NULL;

CREATE TABLE ductor.eec_task_item (
    queue text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    -- orders the items of a lane; a redelivered one has its old place
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    enqueued_at_us bigint NOT NULL,
    body bytea NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'queued',
    deliveries integer NOT NULL DEFAULT 0,
    receipt bigint NOT NULL DEFAULT 0,
    -- when the lease runs out; of an item set aside, since when it is
    until_us bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, token),
    CONSTRAINT eec_task_item_queue CHECK (octet_length(queue) <= 255),
    CONSTRAINT eec_task_item_token CHECK (octet_length(token) <= 512),
    CONSTRAINT eec_task_item_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_task_item_state CHECK (state IN ('queued', 'leased', 'dead'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
COMMENT ON TABLE ductor.eec_task_item IS 'Attempts and wakeups that wait for another process, are leased by one, or are set aside as poisoned.';
CREATE INDEX eec_task_item_queued ON ductor.eec_task_item (queue, tenant, priority DESC, position) WHERE state = 'queued';
CREATE INDEX eec_task_item_leased ON ductor.eec_task_item (queue, tenant) WHERE state = 'leased';
CREATE INDEX eec_task_item_due ON ductor.eec_task_item (queue, until_us) WHERE state = 'leased';
CREATE INDEX eec_task_item_dead ON ductor.eec_task_item (queue, until_us) WHERE state = 'dead';

CREATE SEQUENCE ductor.eec_task_receipt CACHE 32;

CREATE FUNCTION ductor.eec_lock_task_queue(in_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(in_queue, 6379));
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO ductor.eec_task_queue (queue) VALUES (in_queue) ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION ductor.eec_lock_task_queue IS 'Be the only one who leases from the queue until the end of the transaction.';

CREATE FUNCTION ductor.eec_hold_task_lanes(in_queue text, tenants text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ductor.eec_task_lane (queue, tenant)
    SELECT in_queue, w.tenant COLLATE "C" FROM (SELECT DISTINCT unnest(tenants) AS tenant) w
    WHERE NOT EXISTS (SELECT FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.tenant = w.tenant)
    ORDER BY 2
    ON CONFLICT DO NOTHING;
    PERFORM FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.tenant = ANY (tenants)
    ORDER BY l.tenant FOR KEY SHARE;
END $$;
COMMENT ON FUNCTION ductor.eec_hold_task_lanes IS 'Keep lanes from being called empty until the end of the transaction.';

CREATE FUNCTION ductor.eec_ready_task_lanes(in_queue text, tenants text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lane record;
BEGIN
    FOR lane IN
        SELECT l.tenant FROM ductor.eec_task_lane l
        WHERE l.queue = in_queue AND l.tenant = ANY (tenants) AND NOT l.is_ready AND l.blocked_until_us IS NULL
        ORDER BY l.tenant FOR NO KEY UPDATE
    LOOP
        UPDATE ductor.eec_task_lane l
        SET is_ready = true, virtual_time = greatest(l.virtual_time,
            coalesce((SELECT q.virtual_time FROM ductor.eec_task_queue q WHERE q.queue = in_queue), 0))
        WHERE l.queue = in_queue AND l.tenant = lane.tenant;
    END LOOP;
END $$;
COMMENT ON FUNCTION ductor.eec_ready_task_lanes IS 'Let lanes that have items be served.';

CREATE FUNCTION ductor.eec_free_task_lanes(in_queue text, tenants text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ductor.eec_task_lane l
    SET is_ready = true, is_capped = false, blocked_until_us = NULL, virtual_time = greatest(l.virtual_time,
        coalesce((SELECT q.virtual_time FROM ductor.eec_task_queue q WHERE q.queue = in_queue), 0))
    FROM (
        SELECT f.tenant FROM ductor.eec_task_lane f
        WHERE f.queue = in_queue AND f.tenant = ANY (tenants) AND f.is_capped
        FOR NO KEY UPDATE SKIP LOCKED
    ) freed
    WHERE l.queue = in_queue AND l.tenant = freed.tenant;
END $$;
COMMENT ON FUNCTION ductor.eec_free_task_lanes IS 'Look again at lanes whose cap was reached: a lease of theirs has ended.';

CREATE FUNCTION ductor.eec_task_room(in_queue text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    exact_up_to CONSTANT bigint := 1000;
    counted_for_us CONSTANT bigint := 1000000;
    bounds record;
    counted bigint;
BEGIN
    SELECT q.max_queued, q.queued, q.counted_at_us INTO bounds FROM ductor.eec_task_queue q WHERE q.queue = in_queue;
    IF NOT FOUND THEN
        RETURN 1000000;
    END IF;
    IF bounds.max_queued > exact_up_to AND bounds.counted_at_us > ductor.eec_now_us() - counted_for_us THEN
        RETURN bounds.max_queued - bounds.queued;
    END IF;
    SELECT count(*) INTO counted FROM (
        SELECT FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.state = 'queued' LIMIT bounds.max_queued
    ) AS queued;
    UPDATE ductor.eec_task_queue q SET queued = counted, counted_at_us = ductor.eec_now_us()
    FROM (SELECT c.queue FROM ductor.eec_task_queue c WHERE c.queue = in_queue FOR NO KEY UPDATE SKIP LOCKED) AS free
    WHERE q.queue = free.queue;
    RETURN bounds.max_queued - counted;
END $$;
COMMENT ON FUNCTION ductor.eec_task_room IS 'How many items more the queue takes; with a large cap counted once a second.';

CREATE FUNCTION ductor.eec_enqueue_tasks(
    in_queue text, tokens text[], tenants text[], priorities integer[], bodies bytea[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    room bigint;
    present text[];
    wanted text[];
    inserted text[];
BEGIN
    SELECT coalesce(array_agg(i.token), '{}') INTO present
    FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens);
    room := ductor.eec_task_room(in_queue);
    SELECT coalesce(array_agg(w.token), '{}') INTO wanted FROM (
        SELECT first.token FROM (
            SELECT n.token, min(n.number) AS number FROM unnest(tokens) WITH ORDINALITY AS n (token, number)
            WHERE n.token <> ALL (present) GROUP BY n.token
        ) AS first ORDER BY first.number LIMIT greatest(room, 0)
    ) AS w;
    IF cardinality(wanted) > 0 THEN
        PERFORM ductor.eec_hold_task_lanes(in_queue, tenants);
        WITH added AS (
            INSERT INTO ductor.eec_task_item (queue, token, tenant, priority, enqueued_at_us, body)
            SELECT in_queue, n.token, n.tenant, n.priority, ductor.eec_now_us(), n.body
            FROM unnest(tokens, tenants, priorities, bodies) WITH ORDINALITY AS n (token, tenant, priority, body, number)
            WHERE n.token = ANY (wanted)
            ORDER BY n.number
            ON CONFLICT (queue, token) DO NOTHING
            RETURNING token
        )
        SELECT coalesce(array_agg(a.token), '{}') INTO inserted FROM added a;
        PERFORM ductor.eec_ready_task_lanes(in_queue, tenants);
    END IF;
    RETURN (
        SELECT coalesce(array_agg(
            CASE WHEN n.token = ANY (present) THEN 'held'
                WHEN n.token <> ALL (wanted) THEN 'refused'
                WHEN n.token = ANY (inserted) AND n.number = n.first_number THEN 'enqueued'
                ELSE 'held' END ORDER BY n.number), '{}')
        FROM (
            SELECT u.token, u.number, min(u.number) OVER (PARTITION BY u.token) AS first_number
            FROM unnest(tokens) WITH ORDINALITY AS u (token, number)
        ) AS n
    );
END $$;
COMMENT ON FUNCTION ductor.eec_enqueue_tasks IS 'Hold items, and say what became of each: enqueued, held before, refused.';

CREATE FUNCTION ductor.eec_take_back_tasks(in_queue text, max_items integer, max_deliveries integer, max_dead integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    now_us CONSTANT bigint := ductor.eec_now_us();
    ended text[];
    requeued text[];
BEGIN
    PERFORM ductor.eec_lock_task_queue(in_queue);
    WITH expired AS MATERIALIZED (
        SELECT i.token FROM ductor.eec_task_item i
        WHERE i.queue = in_queue AND i.state = 'leased' AND i.until_us <= now_us
        ORDER BY i.until_us LIMIT max_items FOR UPDATE SKIP LOCKED
    ), changed AS (
        UPDATE ductor.eec_task_item i
        SET state = CASE WHEN i.deliveries >= max_deliveries THEN 'dead' ELSE 'queued' END, until_us = now_us
        FROM expired e WHERE i.queue = in_queue AND i.token = e.token
        RETURNING i.tenant, i.state
    )
    SELECT array_agg(c.tenant), array_agg(c.tenant) FILTER (WHERE c.state = 'queued') INTO ended, requeued FROM changed c;
    IF ended IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM ductor.eec_ready_task_lanes(in_queue, requeued);
    PERFORM ductor.eec_free_task_lanes(in_queue, ended);
    IF cardinality(ended) > coalesce(cardinality(requeued), 0) THEN
        DELETE FROM ductor.eec_task_item i USING (
            SELECT d.token FROM ductor.eec_task_item d WHERE d.queue = in_queue AND d.state = 'dead'
            ORDER BY d.until_us DESC OFFSET max_dead
        ) AS over
        WHERE i.queue = in_queue AND i.token = over.token;
    END IF;
    RETURN cardinality(ended);
END $$;
COMMENT ON FUNCTION ductor.eec_take_back_tasks IS 'Queue items whose lease ran out, or set them aside; how many.';

CREATE FUNCTION ductor.eec_hold_back_task_lane(lane ductor.eec_task_lane, in_flight bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    capped_for_us CONSTANT bigint := 250000;
    now_us CONSTANT bigint := ductor.eec_now_us();
    have double precision;
BEGIN
    IF lane.max_in_flight <= in_flight THEN
        UPDATE ductor.eec_task_lane l SET is_ready = false, is_capped = true, blocked_until_us = now_us + capped_for_us
        WHERE l.queue = lane.queue AND l.tenant = lane.tenant;
        RETURN true;
    END IF;
    IF lane.rate_per_s IS NULL THEN
        RETURN false;
    END IF;
    have := coalesce(lane.rate_tokens, lane.burst);
    have := least(lane.burst, have + greatest(0, now_us - lane.refilled_at_us) * lane.rate_per_s / 1e6);
    UPDATE ductor.eec_task_lane l
    SET rate_tokens = CASE WHEN have < 1 THEN have ELSE have - 1 END, refilled_at_us = now_us, is_ready = have >= 1,
        blocked_until_us = CASE WHEN have < 1 THEN now_us + floor((1 - have) / lane.rate_per_s * 1e6)::bigint + 1 END
    WHERE l.queue = lane.queue AND l.tenant = lane.tenant;
    RETURN have < 1;
END $$;
COMMENT ON FUNCTION ductor.eec_hold_back_task_lane IS
    'Block the lane if its cap or its rate allows no delivery now; else take one from its rate.';

CREATE FUNCTION ductor.eec_lease_tasks(
    in_queue text, wanted integer, visibility_us bigint, max_deliveries integer, max_dead integer, max_taken_back integer,
    lanes_looked_at integer
) RETURNS TABLE (
    out_token text, out_tenant text, out_priority smallint, out_receipt bigint, out_delivery integer, out_body bytea,
    out_due_in_us bigint
) LANGUAGE plpgsql AS $$
DECLARE
    lanes_blocked_max CONSTANT integer := 64;
    blocked integer := 0;
    taken_back integer;
    queue_row ductor.eec_task_queue;
    all_in_flight bigint;
    ready_lanes bigint;
    lanes ductor.eec_task_lane[];
    lane ductor.eec_task_lane;
    -- lanes without another item that can be seen
    passed text[] := '{}';
    -- the next items of lanes that had their turn, one lane after the other: where each begins, goes on and ends
    fetched text[] := '{}';
    tokens text[] := '{}';
    begin_at integer[] := '{}';
    next_at integer[] := '{}';
    end_at integer[] := '{}';
    found text[];
    place integer;
    chosen text[] := '{}';
    weights double precision;
    began double precision;
    lane_in_flight bigint;
BEGIN
    taken_back := ductor.eec_take_back_tasks(in_queue, max_taken_back, max_deliveries, max_dead);
    UPDATE ductor.eec_task_lane l SET is_ready = true, is_capped = false, blocked_until_us = NULL,
        virtual_time = greatest(l.virtual_time, q.virtual_time)
    FROM ductor.eec_task_queue q, (
        SELECT b.tenant FROM ductor.eec_task_lane b
        WHERE b.queue = in_queue AND b.blocked_until_us <= ductor.eec_now_us()
        LIMIT lanes_blocked_max FOR NO KEY UPDATE SKIP LOCKED
    ) AS due
    WHERE q.queue = in_queue AND l.queue = in_queue AND l.tenant = due.tenant;
    SELECT * INTO queue_row FROM ductor.eec_task_queue q WHERE q.queue = in_queue;
    SELECT count(*) INTO all_in_flight FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.state = 'leased';
    SELECT count(*) INTO ready_lanes FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.is_ready;
    WHILE wanted > 0 AND (queue_row.max_in_flight IS NULL OR all_in_flight < queue_row.max_in_flight) LOOP
        SELECT array_agg(f.lane ORDER BY (f.lane).virtual_time, (f.lane).tenant) INTO lanes FROM (
            SELECT l AS lane FROM ductor.eec_task_lane l
            WHERE l.queue = in_queue AND l.is_ready AND l.tenant <> ALL (passed)
            ORDER BY l.virtual_time, l.tenant LIMIT lanes_looked_at
        ) AS f;
        EXIT WHEN lanes IS NULL;
        lane := lanes[1];
        lane_in_flight := NULL;
        IF cardinality(lanes) > 1 THEN
            weights := (SELECT sum(l.weight) FROM unnest(lanes) AS l) * ready_lanes / cardinality(lanes)::double precision;
            FOR number IN 1 .. cardinality(lanes) LOOP
                place := array_position(fetched, lanes[number].tenant);
                lane_in_flight := coalesce(next_at[place] - begin_at[place], 0) + (
                    SELECT count(*) FROM ductor.eec_task_item i
                    WHERE i.queue = in_queue AND i.tenant = lanes[number].tenant AND i.state = 'leased');
                IF lane_in_flight < ceil(lanes[number].weight / weights * (all_in_flight + 1) - 1e-9) THEN
                    lane := lanes[number];
                    EXIT;
                END IF;
                lane_in_flight := NULL;
            END LOOP;
        END IF;
        place := array_position(fetched, lane.tenant);
        IF lane.max_in_flight IS NOT NULL AND lane_in_flight IS NULL THEN
            lane_in_flight := coalesce(next_at[place] - begin_at[place], 0) + (
                SELECT count(*) FROM ductor.eec_task_item i
                WHERE i.queue = in_queue AND i.tenant = lane.tenant AND i.state = 'leased');
        END IF;
        IF ductor.eec_hold_back_task_lane(lane, lane_in_flight) THEN
            ready_lanes := ready_lanes - 1;
            blocked := blocked + 1;
            EXIT WHEN blocked = lanes_blocked_max;
            CONTINUE;
        END IF;
        IF place IS NULL THEN
            SELECT coalesce(array_agg(f.token ORDER BY f.priority DESC, f.position), '{}') INTO found FROM (
                SELECT i.token, i.priority, i.position FROM ductor.eec_task_item i
                WHERE i.queue = in_queue AND i.tenant = lane.tenant AND i.state = 'queued'
                ORDER BY i.priority DESC, i.position LIMIT wanted + 1 FOR UPDATE SKIP LOCKED
            ) AS f;
            fetched := fetched || lane.tenant;
            place := cardinality(fetched);
            begin_at := begin_at || cardinality(tokens) + 1;
            next_at := next_at || cardinality(tokens) + 1;
            tokens := tokens || found;
            end_at := end_at || cardinality(tokens);
        END IF;
        IF next_at[place] <= end_at[place] THEN
            chosen := chosen || tokens[next_at[place]];
            next_at[place] := next_at[place] + 1;
            began := greatest(lane.virtual_time, queue_row.virtual_time);
            queue_row.virtual_time := began;
            UPDATE ductor.eec_task_lane l SET virtual_time = began + 1 / lane.weight::double precision
            WHERE l.queue = in_queue AND l.tenant = lane.tenant;
            wanted := wanted - 1;
            all_in_flight := all_in_flight + 1;
        END IF;
        IF next_at[place] > end_at[place] THEN
            passed := passed || lane.tenant;
            ready_lanes := ready_lanes - 1;
        END IF;
    END LOOP;
    RETURN QUERY
        WITH leased AS (
            UPDATE ductor.eec_task_item i
            SET state = 'leased', deliveries = i.deliveries + 1, receipt = nextval('ductor.eec_task_receipt'),
                until_us = ductor.eec_now_us() + visibility_us
            FROM unnest(chosen) WITH ORDINALITY AS c (token, number)
            WHERE i.queue = in_queue AND i.token = c.token
            RETURNING i.token, i.tenant, i.priority, i.receipt, i.deliveries, i.body, c.number
        )
        SELECT l.token, l.tenant, l.priority, l.receipt, l.deliveries, l.body, NULL::bigint FROM leased l ORDER BY l.number;
    FOR number IN 1 .. cardinality(passed) LOOP
        PERFORM ductor.eec_rest_task_lane(in_queue, passed[number]);
    END LOOP;
    UPDATE ductor.eec_task_queue q SET virtual_time = queue_row.virtual_time
    WHERE q.queue = in_queue AND q.virtual_time <> queue_row.virtual_time;
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, least(
        (SELECT min(l.blocked_until_us) FROM ductor.eec_task_lane l
            WHERE l.queue = in_queue AND l.blocked_until_us IS NOT NULL),
        (SELECT min(i.until_us) FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.state = 'leased')
    ) - ductor.eec_now_us()
    INTO out_token, out_tenant, out_priority, out_receipt, out_delivery, out_body, out_due_in_us;
    IF blocked = lanes_blocked_max THEN
        out_due_in_us := 0;
    END IF;
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION ductor.eec_lease_tasks IS
    'Take items by the rule of fairness; the last row tells in how long something is due by itself.';

CREATE FUNCTION ductor.eec_rest_task_lane(in_queue text, in_tenant text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.tenant = in_tenant FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- a statement of its own sees what was committed before the lock was had
    UPDATE ductor.eec_task_lane l SET is_ready = false
    WHERE l.queue = in_queue AND l.tenant = in_tenant AND NOT EXISTS (
        SELECT FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.tenant = in_tenant AND i.state = 'queued');
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION ductor.eec_rest_task_lane IS 'Call a lane empty if it is and nobody is queueing into it; whether it was done.';

CREATE FUNCTION ductor.eec_remove_tasks(in_queue text, tokens text[], receipts bigint[], only_dead boolean)
RETURNS TABLE (out_token text, out_state text, out_holds boolean) LANGUAGE plpgsql AS $$
DECLARE
    ended text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens) ORDER BY i.token FOR UPDATE;
    SELECT array_agg(i.tenant) INTO ended FROM ductor.eec_task_item i
    WHERE i.queue = in_queue AND i.token = ANY (tokens) AND i.state = 'leased' AND NOT only_dead;
    RETURN QUERY
        DELETE FROM ductor.eec_task_item i USING unnest(tokens, receipts) AS w (token, receipt)
        WHERE i.queue = in_queue AND i.token = w.token AND (i.state = 'dead' OR NOT only_dead)
        RETURNING i.token, i.state, i.state = 'leased' AND i.receipt = w.receipt;
    IF ended IS NOT NULL THEN
        PERFORM ductor.eec_free_task_lanes(in_queue, ended);
    END IF;
END $$;
COMMENT ON FUNCTION ductor.eec_remove_tasks IS 'Remove items; how each stood, and whether the receipt was that of its lease.';

CREATE FUNCTION ductor.eec_requeue_tasks(in_queue text, tokens text[], receipts bigint[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    touched text[];
BEGIN
    SELECT array_agg(i.tenant) INTO touched FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens);
    IF touched IS NULL THEN
        RETURN;
    END IF;
    PERFORM ductor.eec_hold_task_lanes(in_queue, touched);
    PERFORM FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens) ORDER BY i.token FOR UPDATE;
    RETURN QUERY
        UPDATE ductor.eec_task_item i
        SET state = 'queued', receipt = 0, deliveries = CASE WHEN i.state = 'dead' THEN 0 ELSE i.deliveries - 1 END
        FROM unnest(tokens, receipts) AS w (token, receipt)
        WHERE i.queue = in_queue AND i.token = w.token
            AND (i.state = 'dead' AND w.receipt = 0 OR i.state = 'leased' AND i.receipt = w.receipt)
        RETURNING i.token;
    PERFORM ductor.eec_ready_task_lanes(in_queue, touched);
    PERFORM ductor.eec_free_task_lanes(in_queue, touched);
END $$;
COMMENT ON FUNCTION ductor.eec_requeue_tasks IS
    'Queue items again: leased ones that are returned with their receipt, or dead ones (receipt 0).';
