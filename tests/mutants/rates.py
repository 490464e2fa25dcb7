"""Rates, of every store: the same rules broken in Python, SQL and Lua. Part of each store's mutants."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RATES, BOOK, ADMISSION, READING = (
    f"{name}.py" for name in ("rates", "engine/rules/in_force", "engine/rules/admission", "engine/memory/reading")
)  # fmt: skip
SQLITE_SWEEP, SQLITE_STATEMENTS = "engine/sqlite/sweeping.py", "engine/sqlite/statements/rates.sql"
RULES, OFFER, ARRIVE, LIMITS, FORGET, SPENDING = (
    f"engine/postgres/functions/{name}.sql" for name in ("010_rules", "020_offer", "040_arrive", "140_limits", "162_forget", "055_rates")
)  # fmt: skip
LUA_RATES, LUA_BOOK, LUA_ADMISSION, LUA_SWEEP = (
    f"engine/redis/scripts/{name}.lua" for name in ("lib/rates", "lib/in_force", "lib/admission", "verbs/sweep")
)  # fmt: skip

PART = "a part of a token counts as a whole one"
HEAD = "a rate's timer rings for the first token, whatever the head costs"
NEVER = "a rate's timer rings for what can never come"
WINDOW = "a window waits for the first of its starts, whatever the head costs"
UNITS = "a window takes each start for one token when it says when enough will have left"
BURST = "an override of a rate takes the place of its burst"
DECLARED = "without a burst of its own a rate keeps the declared number as its burst"
LEAKY = "a leaky rate has a burst"
LEAKY_OVERRIDE = "a leaky rate that is overridden has a burst"
QUEUES = "a rate's timer rings for the last of its queues"
NEWCOMER = "a newcomer that becomes the head of a rate's line does not move the timer"
LONGER = "a window that becomes longer forgets the starts in it"
SHUT = "a rate of nought has a burst"
CLOSED = "a window that is closed forgets what was spent"
STALE = "what was spent before a window was closed can be given back"

MEMORY = [
    Mutant(RATES, "        return max(pace.burst * pace.interval - behind, 0) // pace.interval", "        return -(-max(pace.burst * pace.interval - behind, 0) // pace.interval)", PART),
    Mutant(RATES, "self.full_at - (pace.burst - units) * pace.interval", "self.full_at - (pace.burst - 1) * pace.interval", HEAD),
    Mutant(RATES, "        return 0 if not self.limit else self.limit if self.exact else self.burst", "        return (self.limit or 0) if self.exact else self.burst", NEVER),
    Mutant(RATES, "        missing = self.spent + units - pace.most", "        missing = self.spent + 1 - pace.most", WINDOW),
    Mutant(RATES, "            missing -= freed", "            missing -= 1", UNITS),
    Mutant(RATES, "        insort(self.starts, (now, units))", "        self.starts.append((now, units))", "the starts of a window leave it in the order in which they came, though the clock went back"),
    Mutant(RATES, "        return self.full_at <= now", "        return self.full_at <= now + pace.interval", "a bucket is forgotten when a token is missing"),
    Mutant(READING, "or meter.idle(rule, now)", "or True", "sweeps forget what was spent"),
    Mutant(BOOK, "limit.burst if limit.burst is not None else number", "number", BURST),
    Mutant(BOOK, "limit.burst if limit.burst is not None else number", "limit.burst if limit.burst is not None else limit.max", DECLARED),
    Mutant(BOOK, "1 if limit.algorithm == \"leaky\" else", "1 if False else", LEAKY),
    Mutant(BOOK, "1 if limit.algorithm == \"leaky\" else", "1 if limit.algorithm == \"leaky\" and number == limit.max else", LEAKY_OVERRIDE),
    Mutant(ADMISSION, "        return min(times, default=None)", "        return max(times, default=None)", QUEUES),
    Mutant(ADMISSION, "                    self.ledger.park(job, use, 0)\n                    self._touch_line(use.key)\n", "                    self.ledger.park(job, use, 0)\n", NEWCOMER),
    Mutant(ADMISSION, "        return self.ledger.meter(key).free(rule, self.now) if rule.limit else 0", "        return self.ledger.meter(key).free(rule, self.now)", SHUT),
    Mutant(RATES, "deque(_larger(self.starts, _opening(pace, until)))", "deque(_opening(pace, until))", CLOSED),
    Mutant(RATES, "            yield at + (side == 0), most - max(left)", "            yield at, most - max(left)", STALE),
]  # fmt: skip

SQLITE = [
    Mutant(SQLITE_SWEEP, "for rowid, key, at in rows if at + period(key) > now]", "for rowid, key, at in rows if False]", LONGER),
    Mutant(SQLITE_STATEMENTS, "WHERE key = ?1 AND at > ?2 ORDER BY at;", "WHERE key = ?1 AND at > ?2 ORDER BY rowid;", "the starts of a window leave it in the order in which they came, though the clock went back"),
    Mutant(SQLITE_STATEMENTS, "SELECT key FROM meters WHERE full_at <= ?1 ORDER", "SELECT key FROM meters WHERE full_at <= ?1 + 1 ORDER", "a bucket is forgotten before it is full"),
]  # fmt: skip

POSTGRES = [
    Mutant(RULES, "m.full_at FROM headgate.meters m WHERE m.key = r.key), 0) - p_now)) / r.\"interval\"", "m.full_at FROM headgate.meters m WHERE m.key = r.key), 0) - p_now) + r.\"interval\" - 1) / r.\"interval\"", PART),
    Mutant(RULES, "0) - (r.burst - p_units) * r.\"interval\")", "0) - (r.burst - 1) * r.\"interval\")", HEAD),
    Mutant(RULES, "                    WHEN p_units > r.most THEN NULL\n", "", NEVER),
    Mutant(RULES, "s.gone >= s.spent + p_units - r.most)", "s.gone >= s.spent + 1 - r.most)", WINDOW),
    Mutant(RULES, "sum(i.units) OVER (ORDER BY i.at) AS gone", "count(*) OVER (ORDER BY i.at) AS gone", UNITS),
    Mutant(RULES, "coalesce(l.burst, m.number)", "m.number", BURST),
    Mutant(RULES, "coalesce(l.burst, m.number)", "coalesce(l.burst, l.max)", DECLARED),
    Mutant(RULES, "CASE WHEN l.algorithm = 'leaky' THEN 1 ELSE", "CASE WHEN false THEN 1 ELSE", LEAKY),
    Mutant(RULES, "CASE WHEN l.algorithm = 'leaky' THEN 1 ELSE", "CASE WHEN l.algorithm = 'leaky' AND m.number = l.max THEN 1 ELSE", LEAKY_OVERRIDE),
    Mutant(RULES, "                WHEN r.number = 0 THEN 0\n", "", SHUT),
    Mutant(SPENDING, "SELECT g.at, 0 AS side, g.units FROM gone g WHERE g.at > p_now - r.period", "SELECT g.at, 0 AS side, g.units FROM gone g WHERE false", CLOSED),
    Mutant(SPENDING, "SELECT b.at + 1 - b.side AS at,", "SELECT b.at AS at,", STALE),
    Mutant(OFFER, "        SELECT min(headgate._when(", "        SELECT max(headgate._when(", QUEUES),
    Mutant(ARRIVE, "            IF v_up[r.at[v_parked]] OR v_room >= r.units[v_parked] THEN", "            IF v_room >= r.units[v_parked] THEN", NEWCOMER),
    Mutant(FORGET, "      AND s.at + l.period > p_now;", "      AND false;", LONGER),
    Mutant(FORGET, "    DELETE FROM headgate.starts s WHERE s.ctid = ANY (v_old) AND s.until <= p_now;\n", "", "starts that have left their window are kept for ever"),
]  # fmt: skip

REDIS = [
    Mutant(LUA_RATES, "  local entries, left = Window.starts(meter), {[0] = 0, [1] = 0}", "  local entries, left = {}, {[0] = 0, [1] = 0}", CLOSED),
    Mutant(LUA_RATES, "  return math.max(pace.burst - Rates.ceil_div(math.max(meter.full_at - now, 0), pace.interval), 0)", "  return math.max(pace.burst - math.floor(math.max(meter.full_at - now, 0) / pace.interval), 0)", PART),
    Mutant(LUA_RATES, "meter.full_at - (pace.burst - units) * pace.interval", "meter.full_at - (pace.burst - 1) * pace.interval", HEAD),
    Mutant(LUA_RATES, "meter.spent + units - pace.most, now, 0, 1, meter.added", "meter.spent + 1 - pace.most, now, 0, 1, meter.added", WINDOW),
    Mutant(LUA_RATES, "      free(Window.units(meter, slice[i]), started)", "      free(1, started)", UNITS),
    Mutant(LUA_RATES, "    if #slice < 100 then break end", "    if true then break end", "a window looks at a slice of its starts only"),
    Mutant(LUA_RATES, "    from = from + 50", "    from = from + 49", "a window counts starts twice where it looks at them in slices"),
    Mutant(LUA_RATES, "  while missing > 0 and added[place] do\n    free(added[place].units, added[place].at)", "  while missing > 0 and added[place] do\n    free(added[place].units, added[place].at - pace.period)", "what was spent in the same step has left a window at once"),
    Mutant(LUA_RATES, "call('ZRANGEBYSCORE', key, '-inf', now - pace.period)", "call('ZRANGEBYSCORE', key, '-inf', now - pace.period - 1)", "a window is a microsecond too long"),
    Mutant(LUA_RATES, "    call('ZREMRANGEBYSCORE', meter.key, '-inf', meter.closed and '+inf' or format('%d', meter.since))\n", "", "starts leave their window over and over"),
    Mutant(LUA_RATES, "  if call('EXISTS', base .. 'starts:' .. meter.ident) == 1 then Window.forget(meter.ident) end\n", "", "a bucket that takes the place of a window leaves its starts"),
    Mutant(LUA_RATES, "  Write.score('meters', meter.ident, false)\n", "", "a window that takes the place of a bucket leaves what was spent of it"),
    Mutant(LUA_BOOK, "1 or limit.burst or number", "1 or number", BURST),
    Mutant(LUA_BOOK, "1 or limit.burst or number", "1 or limit.burst or limit.max", DECLARED),
    Mutant(LUA_BOOK, "limit.algorithm == 'leaky' and 1 or", "false and 1 or", LEAKY),
    Mutant(LUA_BOOK, "limit.algorithm == 'leaky' and 1 or", "limit.algorithm == 'leaky' and number == limit.max and 1 or", LEAKY_OVERRIDE),
    Mutant(LUA_BOOK, "      most = not some and 0 or exact and number or burst,", "      most = exact and number or burst,", NEVER),
    Mutant(LUA_ADMISSION, "    if at and (not first or at < first) then first = at end", "    if at and (not first or at > first) then first = at end", QUEUES),
    Mutant(LUA_ADMISSION, "        Ledger.park(job, use, 0)\n        Admission.touch_line(use[1])\n", "        Ledger.park(job, use, 0)\n", NEWCOMER),
    Mutant(LUA_SWEEP, "    if not rule.exact or Window.load(ident, rule).spent <= 0 then", "    if true then", LONGER),
]  # fmt: skip
