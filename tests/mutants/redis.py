"""The Lua scripts of Redis and Valkey."""

from __future__ import annotations

from tests.mutants import rates
from tests.mutants.mutant import Herd, Mutant

_SCRIPTS = "engine/redis/scripts/"
ADMISSION, LEDGER, HOLDING, MOVES, LOSING, LIFE, RATES, LINES, STEP = (
    f"{_SCRIPTS}lib/{name}.lua"
    for name in (
        "admission",
        "ledger",
        "holding",
        "transitions",
        "losing",
        "lifecycle",
        "rates",
        "lines",
        "transaction",
    )
)
BOOK, FULL, SHARES, JOBS = (f"{_SCRIPTS}lib/{name}.lua" for name in ("in_force", "full", "shares", "jobs"))
NEWCOMERS = f"{_SCRIPTS}lib/newcomers.lua"
MOVE_LINES = f"{_SCRIPTS}verbs/move_lines.lua"
EXCHANGE, RESTART, SWEEP = (f"{_SCRIPTS}verbs/{name}.lua" for name in ("exchange", "restart_with", "sweep"))

MUTANTS = [
    # admission
    Mutant(ADMISSION, "return most and most - Ledger.held(ident)", "return most and most - Ledger.held(ident) + 1", "a key admits one too many"),
    Mutant(ADMISSION, "if room < use[2] or Admission.is_waited_for(use[1], queue) then", "if room < use[2] then", "a newcomer passes those that wait for tokens"),
    Mutant(ADMISSION, "    local room = Admission.free(use[1]) - Ledger.offered(use[1], queue)", "    local room = Admission.free(use[1])", "newcomers are not counted as offered"),
    Mutant(ADMISSION, "return free + Ledger.holds(ident, job) >= use[2] end", "return false end", "a reservation does not admit the job that holds it"),
    Mutant(ADMISSION, "  return not Ledger.has_waiters(ident, job.need.queue) or Ledger.holds(ident, job) > 0", "  return true", "one that passes by takes tokens that others wait for"),
    Mutant(ADMISSION, "if rule.limit then Ledger.spend(use[1], rule, use[2], job) end", "if rule.limit then Ledger.spend(use[1], rule, 1, job) end", "a start costs one token, whatever it should"),
    Mutant(ADMISSION, "if rule.limit then Ledger.spend(use[1], rule, use[2], job) end", "if rule.limit then Ledger.spend(use[1], rule, use[2] * 2, job) end", "a start takes its tokens twice"),
    Mutant(ADMISSION, "  if rule.rate or not rule.max or rule.max > Admission.OFFER_MOST then Admission.touch(ident) end", "", "a used offer of a rate does not set its timer"),
    Mutant(ADMISSION, "  if Admission.is_timed(refused[1]) then return kept end\n", "", "a job that waits for a rate reserves slots"),
    Mutant(ADMISSION, "  local passed_over = job.refusals and job.offered_by and job.offered_by ~= refused[1]", "  local passed_over = false", "a job that is passed over never reserves"),
    Mutant(ADMISSION, "refusals >= settings.patience and Admission.reservable(refused, uses) or {}", "Admission.reservable(refused, uses)", "a job reserves at its first refusal"),
    Mutant(ADMISSION, "  for _, ident in ipairs(Ledger.drop_except(job, keep)) do Admission.touch(ident) end\n  Admission.touch(job.offered_by)", "  Ledger.drop_except(job, keep)\n  Admission.touch(job.offered_by)", "a reservation that is let go wakes nothing"),
    Mutant(ADMISSION, "  Admission.touch(job.offered_by)\n  Admission.touch_line(refused[1])", "  Admission.touch_line(refused[1])", "a refused job does not pass its offer on"),
    Mutant(ADMISSION, "  for _, use in ipairs(uses) do Admission.take(job, use) end", "  Admission.take(job, uses[1] or {'c', 0})", "only the first key of several is taken"),
    Mutant(ADMISSION, "  if reserved then Admission.drop_unneeded(job, uses) end\n", "", "reservations of withdrawn caps stay"),
    Mutant(ADMISSION, "  Admission.give_back(job)\n  Ledger.set_aside(job, 'aside')", "  Ledger.set_aside(job, 'aside')", "a job that is set aside keeps its offer"),
    Mutant(ADMISSION, "  for ident in pairs(Ledger.let_go_all(job)) do Admission.touch(ident) end", "  Ledger.let_go_all(job)", "slots that come back are not offered"),
    Mutant(ADMISSION, "  if job.offered_by then Admission.touch(job.offered_by) end\n", "", "an offered job that leaves does not pass its offer on"),
    Mutant(ADMISSION, "  if job.waiting_on then Admission.touch_line(job.waiting_on) end\n", "", "the head of a rate's line leaves without a look at the timer"),
    Mutant(ADMISSION, "    if job.units > room then break end\n", "", "an expensive waiter is offered what is not there"),
    Mutant(ADMISSION, "    room = room - job.units\n", "", "room is offered to several"),
    Mutant(ADMISSION, "  if not claim or #ids > claim.want or", "  if not claim or", "a short cut starts more than was wanted"),
    Mutant(ADMISSION, "    if claim.served and not claim.served[need.queue] then return false end\n", "", "a short cut starts jobs of queues that the worker does not serve"),
    Mutant(ADMISSION, "    if Admission.is_timed(ident) then Ledger.arm(ident, Admission.timer_of(ident, queues)) end\n", "", "a rate's timer is never set"),
    Mutant(ADMISSION, "when(meter, rule, Ledger.offered(ident, queue) + job.units)", "when(meter, rule, job.units)", "a rate's timer forgets what is offered already"),
    # threads
    Mutant(ADMISSION, "  if started then claimer.spare = claimer.spare - 1 end\n", "", "threads that are taken are there for the next job"),
    Mutant(ADMISSION, "    if threads > claimer.spare then return false end\n", "", "a short cut starts jobs for which there is no thread"),
    Mutant(LEDGER, "  if why == 'aside' then job.offered_by, job.units = false, 0 end", "  job.offered_by, job.units = false, 0", "a job without a thread loses its offer"),
    Mutant(EXCHANGE, "    one.runs = may_read(record, 'aside', one.job.need.task)", "    one.runs = record.known[one.job.need.task]", "a suspect without a thread holds others back"),
    # restarts
    Mutant(RESTART, "  if wrong then Store.refuse(unpack(wrong)) end\n", "", "a restart may name a limit that is not declared"),
    Mutant(RESTART, "Store.specs[id], job.need = arguments[1 + 2 * i], Store.need(arguments[2 + 2 * i])", "Store.specs[id] = arguments[1 + 2 * i]", "a restart keeps the old keys"),
    # holders
    Mutant(HOLDING, "    Ledger.count(ident, 1, units)\n", "", "a slot that is taken does not count in its own step"),
    Mutant(HOLDING, "  Ledger.count(ident, -1, -Ledger.units_of(kept))\n", "", "a slot that is given back counts until the step ends"),
    # changes of limits, and lost workers, in slices
    Mutant(MOVES, "  return not before.max or not after.max or after.max > before.max", "  return not before.max or not after.max", "a raised override reaches no key"),
    Mutant(MOVES, "  if limit and (limit.kind == 'rate' or limit.adaptive or limit.per_key) then return true end\n", "", "a rate that is declared anew reaches no key"),
    Mutant(MOVES, "  if value and (tenant or Reading.are_alike({'waited'}, name)) then", "  if value then", "an override of a value forgets the keys of tenants"),
    Mutant(MOVES, "  return not value and not tenant and same and limit.max or nil", "  return limit and limit.max or nil", "an override of a key is compared with the declared number"),
    Mutant(STEP, "  if next(Book.changing) ~= nil then due = now end\n", "", "no worker hears that a change of limits goes on"),
    Mutant(LOSING, "    Write.score('leases', worker, math.min(lease or now, now))\n", "", "a worker that is half lost goes on"),
    Mutant(LOSING, "  local judged = record[8] or Transitions.judged(worker, lease, record[3])", "  local judged = Transitions.judged(worker, lease, record[3])", "each slice of a lost worker is judged by itself"),
    Mutant(LOSING, "  if not beyond then\n    Transitions.forget_worker(worker)\n  elseif", "  Transitions.forget_worker(worker)\n  if beyond and", "a worker is forgotten with its first slice"),
    Mutant(LOSING, "  if not beyond then Transitions.forget_worker(worker) end\n", "  Transitions.forget_worker(worker)\n", "a worker that retires is forgotten with its first slice"),
    # what happens to jobs
    Mutant(MOVES, "  Admission.give_back(job)\n  job.spent = false", "  job.spent = false", "an attempt that ends keeps its slots"),
    Mutant(MOVES, "  Admission.give_back(job)\n  Transitions.finish(job, 'cancelled'", "  Transitions.finish(job, 'cancelled'", "a cancelled job keeps what it holds"),
    Mutant(MOVES, "tries = job.tries - (counts and 0 or 1)", "tries = job.tries", "a released attempt counts"),
    Mutant(MOVES, "  if on_conflict == 'raise' or not Transitions.PENDING[rival.state] then", "  if on_conflict == 'raise' then", "a running rival is replaced"),
    Mutant(MOVES, "  if job.due > now then\n    Store.call_workers = true\n    return\n  end\n", "", "a future job arrives at once"),
    Mutant(MOVES, "  Store.change(job, {due = now})\n", "", "an expedited job stays scheduled"),
    Mutant(MOVES, "before[4] or false, before[5] or false, now})\n  Admission.touch(ident)", "before[4] or false, before[5] or false, now})", "a raised floating limit wakes nothing"),
    Mutant(MOVES, "    if known and known.kind ~= l[2] then Store.refuse('kind', l[1], known.kind, l[2]) end\n", "", "a limit may change its kind"),
    Mutant(LIFE, "  if job.cancel then return 'cancelled', 'lost', Lifecycle.LOST end\n", "", "a cancelled job that is lost runs again"),
    Mutant(LIFE, "  return false, 'lost', Lifecycle.LOST, false, math.min(job.due, now), false", "  return false, 'lost', Lifecycle.LOST, false, now, false", "a lost job loses its place"),
    Mutant(LIFE, "    if cancelled then return 'cancelled', 'failed', value end\n", "", "a cancelled job that fails is retried"),
    Mutant(LIFE, "  return false, kind, false, false, math.min(job.due, now), false", "  return false, kind, false, false, now, false", "a released job loses its place"),
    # exchanges
    Mutant(EXCHANGE, " or job.attempt ~= attempt then return false end", " then return false end", "a report about an old attempt counts"),
    Mutant(EXCHANGE, " or job.worker ~= worker or", " or", "a report about another worker's attempt counts"),
    Mutant(EXCHANGE, "      if not found.paused[queue] then names[#names + 1] = queue end", "      names[#names + 1] = queue", "paused queues are worked by workers of all queues"),
    Mutant(STEP, "    if number <= last then Store.refuse('stale', worker, number, last) end\n", "", "a message may come twice"),
    Mutant(STEP, "  if not lease or lease <= now then Store.refuse('lapsed', worker) end", "  if not lease then Store.refuse('lapsed', worker) end", "a worker without a lease may claim"),
    # time
    Mutant(SWEEP, "  timers()\n", "", "a rate's timer is never looked at"),
    Mutant(SWEEP, "  reservations()\n  local changing", "  local changing", "reservations never run out"),
    Mutant(SWEEP, "  overrides()\n  weights()", "  weights()", "overrides never run out"),
    Mutant(SWEEP, "      Ledger.let_go(ident, job)\n      Admission.touch(ident)", "      Ledger.let_go(ident, job)", "a reservation that ran out wakes nothing"),
    Mutant(SWEEP, "  forget_meters()\n", "", "full buckets and old windows are kept for ever"),
    Mutant(RATES, "  if meter.full_at <= now then meter.full_at, meter.since, meter.refunded = now, now, 0 end\n", "", "an idle bucket saves up tokens for ever"),
    Mutant(RATES, "  return (a - rest) / b + (rest > 0 and 1 or 0)", "  return (a - rest) / b", "a token is there before its time"),
    Mutant(RATES, "  meter.spent = meter.spent + units\n", "", "a window forgets what was spent in the same step"),
]  # fmt: skip

FLOW = [
    # sizes
    Mutant(HOLDING, "  key.held, key.larger = held + units, key.larger + units - by", "  key.held, key.larger = held + by, key.larger", "a large job counts as one"),
    Mutant(HOLDING, "  return kept == true or type(kept) == 'number' and kept < 0", "  return kept == true", "a large reservation counts as a slot"),
    Mutant(BOOK, "    rule.lines_up = rule.sized or rule.gate\n", "    rule.lines_up = rule.gate\n", "small jobs pass a large one that waits"),
    # full
    Mutant(FULL, "  if not policy or not policy.max_waiting or Full.count_pending(queue) < policy.max_waiting then return true end", "  if true then return true end", "a queue takes more than its backlog"),
    Mutant(FULL, "    if entering then Store.refuse('full', ident, policy.max_waiting) end\n", "    Store.refuse('full', ident, policy.max_waiting)\n", "a retry is refused for a full backlog"),
    Mutant(FULL, "  if not last or job.need.priority > last.need.priority then", "  if not last then", "an urgent job leaves for one that is not"),
    Mutant(FULL, "    if last and (not priority or sub(last, 1, 2) > priority) then priority = sub(last, 1, 2) end", "    if last and (not priority or sub(last, 1, 2) < priority) then priority = sub(last, 1, 2) end", "the most urgent line loses its oldest"),
    Mutant(FULL, "not job.cancel and Ledger.holds(ident, job) > 0", "Ledger.holds(ident, job) > 0", "the same job is asked to stop again and again"),
    Mutant(ADMISSION, "    if returning or Full.may_wait(job, use, entering) then", "    if Full.may_wait(job, use, entering) then", "a job that was lost is dropped since its key is full"),
    # expiry
    Mutant(ADMISSION, "  if job.start_by and job.start_by <= now then", "  if false then", "a job starts after its time"),
    Mutant(SWEEP, "  too_late()\n", "", "jobs that are too late wait for ever"),
    # numbers of keys
    Mutant(MOVES, "      local differs = old[4] and Transitions.is_in_use(ident) and old[4] or false", "      local differs = false", "jobs of a key that disagree are not told of"),
    Mutant(BOOK, "  if limit.per_key and numbers[4] then return numbers[4] end\n", "", "the number that a job brings does not count"),
    Mutant(MOVES, "  if (Book.number_without_override(ident) or false) ~= seen then return false end\n", "", "a number that was learnt twice counts twice"),
    # costs afterwards
    Mutant(RATES, "  elseif meter.since <= spent[2] then", "  else", "what an earlier busy period spent is given back again"),
    Mutant(RATES, "math.min(-difference, spent[3] - meter.refunded - now, meter.full_at - now)", "math.min(-difference, meter.full_at - now)", "what time has given back is given back again"),
    Mutant(RATES, "    meter.spent = meter.spent + units - start.units\n", "", "a window does not hear what was really spent"),
    # throttled
    Mutant(MOVES, "    if not rule.gate or rule.gate[1] < till then Book.put_gate(ident, {till, step}) end", "    Book.put_gate(ident, {till, step})", "a shorter closing opens a key"),
    Mutant(ADMISSION, "  local opened = 1 + math.floor((now - gate[1]) / gate[2])", "  local opened = most or 1000", "a throttled key opens like a door"),
    Mutant(SWEEP, "  gates()\n  local expired", "  local expired", "a throttled key is never forgotten"),
    # unique keys
    Mutant(JOBS, "  return not job.need.updates or job.attempt == 0", "  return true", "a job that may be updated keeps its key while it runs"),
    Mutant(MOVES, "job.unique_until = math.max(job.expires_at, till), till > now and till", "job.unique_until = job.expires_at, till > now and till", "a key that is kept goes with its job"),
    Mutant(MOVES, "  if way.at_most then due = math.min(due, job.enqueued_at + way.at_most) end\n", "", "updates put a job off for ever"),
    # shares
    Mutant(SHARES, "math.min(math.max(virtual, last) + step, Shares.LARGEST)", "last + step", "a share that comes back starts from the beginning"),
    Mutant(SHARES, "math.min(math.max(virtual, last) + step, Shares.LARGEST)", "virtual + step", "all jobs of a share stand at one place"),
    Mutant(SHARES, "  if started.last > Shares.stored_virtual_time(place) then", "  if false then", "virtual time does not go on"),
    Mutant(SHARES, "  if row[2] < row[1] then return Lines.next_of", "  if row[2] > row[1] then return Lines.next_of", "jobs are tagged anew twice"),
    Mutant(SHARES, "  row[4] = members[Shares.SLICE + 1] or row[4]\n", "", "tagging anew begins from the start with each slice"),
    Mutant(SHARES, "  if last and job.tag >= last then lasts[need.share] = false end\n", "", "a job of a share that ends in an enqueue stands before its newcomers"),
    Mutant(SHARES, "if need.share_head ~= started.head then started.in_order = false end", "", "what waits of one share leaves its line when another's jobs start"),
    Mutant(NEWCOMERS, "    plain.lasts[plain.share] = tag\n", "", "newcomers of one batch have the same tag"),
    Mutant(NEWCOMERS, "    Shares.count(plain.place, 1)\n", "", "a newcomer of a share does not count at its place"),
    Mutant(SHARES, "  if member and line.added[member] then", "  if false then", "a job that comes and starts in one step stays in the line of its share"),
    Mutant(MOVES, "  if job.need.share and not returning then Shares.tag(job) end", "  if job.need.share then Shares.tag(job) end", "a job that was given back loses its place in its share"),
    Mutant(LEDGER, "  Store.leave(job, true)\n", "  Store.leave(job)\n", "starts do not move virtual time"),
    # lines of older data
    Mutant(MOVE_LINES, "string.sub(name, 1, 8) == 'suspect:' and 3 or 2)", "2)", "suspects of older data get their tags in another place"),
    Mutant("engine/redis/restarting.py", ", **asked_more(kept)}", "}", "a job with other arguments forgets how its share is charged and how long its key is kept"),
    Mutant("engine/redis/restarting.py", "else arguments.share", "else job[\"share\"]", "a job with other arguments stays in the share of its old ones"),
    Mutant(MOVES, "job.need.retry, true, share)", "job.need.retry, true)", "an updated job is tagged as one of its old share"),
]  # fmt: skip

HERD = Herd(
    [*MUTANTS, *FLOW, *rates.REDIS],
    [
        ["tests/conformance", "-k", "valkey", "-m", "not slow"],
        ["tests/model", "tests/redis", "-k", "valkey", "-m", "not slow"],
        ["tests/processes", "-k", "valkey"],
    ],
    server="valkey",
)
