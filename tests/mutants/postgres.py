"""The functions of PostgreSQL."""

from __future__ import annotations

from tests.mutants import rates
from tests.mutants.mutant import Herd, Mutant
from tests.mutants.telling import TELLING

(
    RULES, OFFER, GIVE, ARRIVE, CLAIM, READY, END, WORKERS, EXCHANGE, ONE, ENQUEUE, TICKS, LIMITS, LISTING, STEER, SWEEP,
    FORGET, RECHECK, IMPORT,
) = (
    f"engine/postgres/functions/{name}.sql"
    for name in (
        "010_rules", "020_offer", "030_give_back", "040_arrive", "050_claim", "060_ready", "070_end", "100_workers",
        "110_exchange", "125_enqueue_one", "130_enqueue", "137_ticks", "140_limits", "145_listing", "150_steer",
        "160_sweep", "162_forget", "165_recheck", "170_import",
    )
)  # fmt: skip

MUTANTS = [
    # numbers in force
    Mutant(RULES, "WHEN NOT r.rate THEN r.number - (SELECT", "WHEN NOT r.rate THEN r.number + 1 - (SELECT", "a key admits one too many"),
    Mutant(RULES, "THEN (r.period + r.number - 1) / r.number ELSE", "THEN r.period / r.number ELSE", "a pace is rounded down, above its rate"),
    Mutant(RULES, "ORDER BY o.value IS NULL, o.tenant IS NULL LIMIT 1", "ORDER BY o.value IS NOT NULL, o.tenant IS NULL LIMIT 1", "an override of a name beats that of a key"),
    Mutant(RULES, "WHERE s.key = r.key AND s.at > p_now - r.period), 0))", "WHERE s.key = r.key AND s.at >= p_now - r.period), 0))", "a window is a microsecond too long"),
    Mutant(RULES, "ELSE coalesce(c.max, l.max) END AS number", "ELSE l.max END AS number", "what was computed does not count"),
    # offers
    Mutant(OFFER, "q.n, f.free - coalesce((SELECT sum(o.units)::bigint FROM headgate.live o\n                                                   WHERE o.offered_by = f.key AND o.queue = q.queue), 0)", "q.n, f.free", "room is offered twice"),
    Mutant(OFFER, "        WHERE l.total <= r.room\n", "", "an expensive waiter is offered what is not there"),
    Mutant(OFFER, "                ORDER BY j.priority, j.due, j.seq\n                LIMIT least(r.room, {offer_most})", "                ORDER BY j.due, j.seq\n                LIMIT least(r.room, {offer_most})", "waiters are offered room without regard to their priority"),
    Mutant(OFFER, "            INSERT INTO headgate.timers (key, at) VALUES (v_key, v_at)\n            ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE timers.at <> excluded.at;", "            NULL;", "a rate's timer is never set"),
    Mutant(OFFER, "        UPDATE headgate.holders h SET expires_at = p_now + p_ttl WHERE h.job = ANY (p_seqs);\n", "", "an offered job's reservations have no end"),
    Mutant(OFFER, "            DELETE FROM headgate.timers t WHERE t.key = v_key;", "            NULL;", "a rate's timer is not cleared"),
    Mutant(OFFER, "WHERE coalesce(g.given, 0) < least(r.room, {offer_most}) AND r.key NOT LIKE 'r%'", "WHERE false", "a waiter that another step holds is forgotten"),
    Mutant(OFFER, "bool_and(w.n = 1 AND w.use_keys", "bool_and(w.use_keys", "a slot that is offered in two queues starts two jobs"),
    # giving back
    Mutant(GIVE, "DELETE FROM headgate.holders h WHERE h.job = ANY (p_seqs) RETURNING h.key", "SELECT h.key FROM headgate.holders h WHERE h.job = ANY (p_seqs)", "slots are not given back"),
    Mutant(GIVE, "            SELECT j.offered_by FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.offered_by IS NOT NULL\n            UNION ALL ", "            ", "an offered job that leaves does not pass its offer on"),
    Mutant(GIVE, "\n            UNION ALL SELECT j.waiting_on FROM headgate.live j WHERE j.seq = ANY (p_seqs) AND j.waiting_on LIKE 'r%'", "", "the head of a rate's line leaves without a look at the timer"),
    # arrivals
    Mutant(ARRIVE, "            IF v_room < r.units[i] OR v_waited[r.at[i]] THEN", "            IF v_room < r.units[i] THEN", "a job that becomes due passes those that wait"),
    Mutant(ARRIVE, "            v_room := v_free[r.at[i]] - v_offered[r.at[i]];", "            v_room := v_free[r.at[i]];", "jobs that arrive are not counted as offered"),
    Mutant(ARRIVE, "            v_waited[r.at[v_parked]] := true;\n", "", "the first to wait is not seen by those that come behind it"),
    Mutant(ARRIVE, "                v_offered[r.at[v_tight]] := v_offered[r.at[v_tight]] + r.units[v_tight];", "                NULL;", "two jobs that arrive in one step are promised the same room"),
    Mutant(ONE, "        INSERT INTO headgate.rechecks (key) VALUES (v_first);", "        NULL;", "a newcomer's key is not noted"),
    Mutant(ONE, "CASE WHEN NOT v_line THEN 0 WHEN v_first = p_key THEN p_units ELSE 1 END", "v_line::integer", "a newcomer waits for one token, whatever it costs"),
    Mutant(ENQUEUE, "        INSERT INTO headgate.rechecks (key) SELECT f.key FROM unnest(v_firsts) AS f (key);", "        NULL;", "the keys of newcomers of a batch are not noted"),
    # claims
    Mutant(CLAIM, "                IF r.lined[i]\n                   OR (cardinality", "                IF (cardinality", "one that passes by takes tokens that others wait for"),
    Mutant(CLAIM, "k.jobs <= f.free), true)", "true), true)", "ready jobs of one key start without a look at its room"),
    Mutant(CLAIM, "                   j.task = ANY (p_known)\n                   AND (o.offer", "                   (o.offer", "a short cut starts jobs of unknown tasks"),
    Mutant(CLAIM, "j.use_keys IS NULL OR cardinality(j.use_keys) = 1 AND", "j.use_keys IS NULL OR", "a short cut starts jobs that need other keys, too"),
    Mutant(CLAIM, "ORDER BY a.served DESC, a.place, a.priority, a.due, a.seq) AS n", "ORDER BY a.served DESC, a.place, a.key NULLS LAST, a.priority, a.due, a.seq) AS n", "a slot that came back goes before what is ready"),
    Mutant(CLAIM, "                       AND NOT (v_free[r.at[i]] + 1 >= r.units[i] AND r.keys[i] = ANY (r.own))) THEN", "                      ) THEN", "a reservation does not admit the job that holds it"),
    Mutant(CLAIM, "                            v_spent[p] := v_spent[p] + r.units[i];", "                            v_spent[p] := v_spent[p] + 1;", "a start costs one token, whatever it should"),
    Mutant(CLAIM, "                            v_free[p] := v_free[p] - r.units[i];\n", "", "tokens are taken twice in one step"),
    Mutant(CLAIM, "            IF v_count >= p_patience AND r.keys[refused] NOT LIKE 'r%' THEN", "            IF v_count >= p_patience THEN", "a job that waits for a rate reserves slots"),
    Mutant(CLAIM, "            IF v_count >= p_patience AND r.keys[refused] NOT LIKE 'r%' THEN", "            IF r.keys[refused] NOT LIKE 'r%' THEN", "a job reserves at its first refusal"),
    Mutant(CLAIM, "                kept := r.keys[1 : refused - 1];", "                NULL;", "a job that is passed over never reserves"),
    Mutant(CLAIM, "        IF r.offered_by IS NOT NULL THEN\n            touched := touched || r.offered_by;\n        END IF;\n", "", "a refused job does not pass its offer on"),
    Mutant(CLAIM, "                drop_key := drop_key || k;\n                touched := touched || k;", "                drop_key := drop_key || k;", "a reservation that is let go wakes nothing"),
    Mutant(CLAIM, "greatest(m.full_at, p_now) + p_units * r.\"interval\"", "m.full_at + p_units * r.\"interval\"", "an idle bucket saves up tokens for ever"),
    Mutant(CLAIM, "DELETE FROM headgate.starts s WHERE s.key = p_key AND s.at <= p_now - r.period;", "DELETE FROM headgate.starts s WHERE s.key = p_key;", "a window forgets its starts"),
    Mutant(CLAIM, "SET set_aside = true, lacks_thread = false, state = 'ready', waiting_on = NULL, offered_by = NULL, units = 0", "SET set_aside = true, lacks_thread = false, state = 'ready', waiting_on = NULL, units = 0", "a job that is set aside keeps its offer"),
    # ready lines
    Mutant(READY, "    IF p_paused OR cardinality(v_queues) > 1 THEN\n        SELECT array_agg(u.queue ORDER BY u.n) INTO v_queues FROM (\n            SELECT q.queue, min(q.n) AS n FROM unnest(v_queues) WITH ORDINALITY AS q (queue, n)\n            WHERE NOT EXISTS (SELECT 1 FROM headgate.paused x WHERE x.queue = q.queue) GROUP BY q.queue", "    IF p_paused OR cardinality(v_queues) > 1 THEN\n        SELECT array_agg(u.queue ORDER BY u.n) INTO v_queues FROM (\n            SELECT q.queue, min(q.n) AS n FROM unnest(v_queues) WITH ORDINALITY AS q (queue, n)\n            GROUP BY q.queue", "paused queues are worked"),
    # reports and workers
    Mutant(END, "               OR l.attempt = u.attempt AND l.worker || '' = p_worker AND", "               OR l.worker || '' = p_worker AND", "a report about an old attempt counts"),
    Mutant(END, "               OR l.attempt = u.attempt AND l.worker || '' = p_worker AND", "               OR l.attempt = u.attempt AND", "a report about another worker's attempt counts"),
    Mutant(WORKERS, "    IF NOT leased OR last >= p_number THEN", "    IF NOT leased THEN", "a resume may come twice"),
    Mutant(WORKERS, "WHERE j.seq = l.seq AND k.attempt = l.attempt)", "WHERE j.seq = l.seq)", "strays are compared by job, not by attempt"),
    Mutant(WORKERS, "WHERE w.id = p_id AND w.lease_until > v_now;", "WHERE w.id = p_id;", "a lapsed lease is renewed"),
    Mutant(END, "        touched := headgate._give_back(v_seqs, NOT p_kinds && ARRAY['k', 'u']);", "        touched := '{}';", "attempts that end without success keep their slots"),
    Mutant(EXCHANGE, "AND x.number < coalesce(p_number, x.number + 1)", "", "an exchange may come twice"),
    Mutant(EXCHANGE, "WHERE x.id = p_worker AND x.lease_until > at AND x.number", "WHERE x.id = p_worker AND x.number", "a worker without a lease may claim"),
    Mutant(END, "WHERE l.seq = r.seq AND l.attempt = r.attempt AND l.worker", "WHERE l.seq = r.seq AND l.worker", "a success of an old attempt counts"),
    Mutant(END, "                        WHEN r.kind IN ('c', 'k') OR l.cancel_requested AND r.kind <> 'u' THEN 'cancelled'", "                WHEN r.kind IN ('c', 'k') THEN 'cancelled'", "a job that was asked to stop and fails is tried again"),
    Mutant(END, "suspicion = CASE WHEN s.kind IN ('r', 'l') THEN l.suspicion ELSE 0 END", "suspicion = l.suspicion", "an attempt that ends of its own does not clear its job"),
    # operators and time
    Mutant(TICKS, "WHERE t.task = p_name AND t.at = p_seen;", "WHERE t.task = p_name;", "a tick comes once per worker"),
    Mutant(LIMITS, "    PERFORM headgate._adopt(v_names, p_now);\n", "", "a new cap does not count what runs already"),
    Mutant(LIMITS, "    PERFORM headgate._adopt(ARRAY[p_name], headgate._now(p_now));\n", "", "an operator's cap does not count what runs already"),
    Mutant(LIMITS, "p_before IS NOT NULL AND (p_after IS NULL OR p_after > p_before)", "p_before IS NOT NULL AND p_after > p_before", "a limit that is lifted wakes nothing"),
    Mutant(LIMITS, "    IF v_limit.kind IS DISTINCT FROM 'rate' AND (NOT", "    IF (NOT", "a smaller rate does not look at its timers"),
    Mutant(LIMITS, "WHERE l.kind = 'rate' OR headgate._raises(l.max, d.max)", "WHERE headgate._raises(l.max, d.max)", "a rate that is declared anew does not look at its timers"),
    Mutant(LIMITS, "OR p_value IS NULL AND p_tenant IS NULL AND v_limit.kind = 'concurrency')", "OR v_limit.kind = 'concurrency')", "what a key had before is taken to be what is declared"),
    Mutant(LIMITS, "        UPDATE headgate.changes c SET after = v_keys[c_most] WHERE c.name = v_name;", "        DELETE FROM headgate.changes c WHERE c.name = v_name;", "a change ends with its first slice"),
    Mutant(LIMITS, "DELETE FROM headgate.overrides o WHERE o.until <= headgate._now(p_now) RETURNING", "DELETE FROM headgate.overrides o WHERE o.until < headgate._now(p_now) RETURNING", "an override runs out a moment late"),
    Mutant(LIMITS, "    PERFORM headgate._changed(v_whats);\n", "", "what runs out wakes nothing"),
    Mutant(LISTING, "    exact := coalesce(waiting < p_most, true);", "    exact := true;", "a page that stopped counting does not say so"),
    Mutant(LISTING, "        exact := held < p_most AND (", "        exact := true OR (", "a page that stopped counting holders does not say so"),
    Mutant(LISTING, "headgate._text(k.key) = p_text AND j.seq < p_before", "j.seq < p_before", "what waits for a key is mixed up with that of others"),
    Mutant(LIMITS, "    v_offered := headgate._offer(ARRAY[p_key], v_now, p_ttl);", "    v_offered := 0;", "a raised floating limit wakes nothing"),
    Mutant(LIMITS, "        offered := headgate._offer(v_wait, headgate._now(p_now), p_ttl);", "        offered := 0;", "a raised limit wakes nothing"),
    Mutant(LIMITS, "    WHERE l.kind <> n.kind LIMIT 1;", "    WHERE false LIMIT 1;", "a limit may change its kind"),
    Mutant(STEER, "            v_touched := v_touched || headgate._cancel_pending(j.seq, v_now, p_keep);\n", "            PERFORM headgate._cancel_pending(j.seq, v_now, p_keep);\n", "a job that is cancelled wakes nothing"),
    Mutant(STEER, "            UPDATE headgate.live x SET due = v_now WHERE x.seq = j.seq;\n", "", "an expedited job keeps its due time"),
    Mutant(STEER, "    PERFORM headgate._schedule(p_seq, p_now, e.attempt, 0, NULL, e.progress);", "    PERFORM headgate._schedule(p_seq, p_now, 0, 0, NULL, e.progress);", "attempt numbers are used again after a restart"),
    Mutant(STEER, "        v_touched := headgate._end_unreadable(v_bad, v_now, p_keep);\n", "", "a job whose state is none cannot be steered"),
    Mutant(END, "NOT p_kinds && ARRAY['k', 'u']", "true", "what a job was promised that ends unread or cancelled is forgotten"),
    Mutant(RECHECK, "        v_bad := headgate._unreadable(p_most);\n", "", "a job whose state is none is never found"),
    Mutant(RECHECK, "        v_workers := headgate._orphaned();\n", "", "an attempt without a worker is never found"),
    Mutant(RECHECK, "SELECT 1 FROM headgate.live l WHERE l.seq = h.job AND (l.state = 'running') <> h.reserved)", "SELECT 1 FROM headgate.live l WHERE l.seq = h.job)", "a slot whose job does not run is left alone"),
    Mutant(RECHECK, "NOT EXISTS (SELECT 1 FROM headgate.workers k WHERE k.id = u.id) ORDER BY u.id", "true ORDER BY u.id", "a worker that registered meanwhile is taken for lost"),
    Mutant(RECHECK, "\n            OR EXISTS (SELECT 1 FROM headgate.changes c\n                       WHERE c.name IN (headgate._name(r.key), headgate._text(r.key)));", ";", "a change that is under way is taken for a defect"),
    Mutant(RECHECK, "        CONTINUE WHEN EXISTS (SELECT 1 FROM headgate.rechecks c WHERE c.key = r.key)\n            OR EXISTS", "        CONTINUE WHEN EXISTS", "a newcomer that nothing has looked at yet is taken for a defect"),
    Mutant(RECHECK, "coalesce(a.at > greatest(t.at, p_now), true)", "a.at > greatest(t.at, p_now)", "a timer that is missing is left so"),
    Mutant(RECHECK, "        after := v_slice[p_most];\n", "", "a recheck looks at its first slice only"),
    Mutant(FORGET, "v_idle := headgate._idle(v_idle, p_now);", "NULL;", "a key that is waited for again is forgotten"),
    Mutant(FORGET, "          AND (SELECT 1 FROM headgate.computed c WHERE c.key = u.key AND c.at > p_now - c_kept) IS NULL", "", "what was computed just now is forgotten"),
    Mutant(FORGET, "v_after := CASE WHEN v_seen < v_size THEN '' ELSE v_last END;", "v_after := v_last;", "keys are looked at once"),
    Mutant(FORGET, "f.full_at <= p_now ORDER", "f.full_at <= p_now + 1000000000000 ORDER", "buckets that are not full are forgotten"),
    Mutant(FORGET, "f.until <= p_now ORDER", "f.until <= p_now + 1000000000000 ORDER", "starts within their window are forgotten"),
    Mutant(IMPORT, "                touched := touched || headgate._give_back(ARRAY[r.seq], false);\n", "", "an import on a waiting job keeps what it holds"),
    Mutant(IMPORT, "            UPDATE headgate.jobs x SET retry = r.retry WHERE x.seq = r.seq AND x.retry <> r.retry;\n", "", "an import does not bring its retry policy"),
    Mutant(IMPORT, "                UPDATE headgate.live x SET suspicion = j.suspicion", "                UPDATE headgate.live x SET suspicion = 0", "an import clears a suspect"),
    Mutant(IMPORT, "                    touched := headgate._arrive(ARRAY[r.seq], v_now, touched);", "                    NULL;", "an imported job that is due stays scheduled"),
    Mutant(SWEEP, "FROM headgate.ended e WHERE e.seq = ANY (v_old) AND e.expires_at <= at);", "FROM headgate.ended e WHERE e.seq = ANY (v_old));", "a job that was restarted while a sweep waited is deleted"),
    Mutant(SWEEP, "AND j.due <= at\n", "AND j.due < at\n", "a job is due a moment late"),
    Mutant(SWEEP, "WHERE w.lease_until <= at ORDER", "WHERE w.lease_until < at ORDER", "a lease lapses a moment late"),
    Mutant(SWEEP, "        DELETE FROM headgate.workers w WHERE w.id = ANY (v_workers);\n", "", "a lapsed worker stays registered"),
    Mutant(SWEEP, "    v_touched := v_touched || v_timers;\n", "", "a rate's timer is never looked at"),
    Mutant(SWEEP, "        SELECT v_touched || coalesce(array_agg(g.key), '{}') INTO v_touched FROM gone g;", "        PERFORM g.key FROM gone g;", "a reservation that ran out wakes nothing"),
    Mutant(SWEEP, "    v_kept := ARRAY(SELECT h.key FROM headgate.holders h WHERE h.expires_at <= at LIMIT p_most);", "    v_kept := '{}';", "reservations never run out"),
]  # fmt: skip

HERD = Herd(
    [*MUTANTS, *rates.POSTGRES],
    [
        [*TELLING, "-k", "postgres"],
        ["tests/conformance", "tests/model", "-k", "postgres", "-m", "not slow"],
        ["tests/postgres", "-m", "not slow"],
        ["tests/processes", "-k", "postgres"],
    ],
)
