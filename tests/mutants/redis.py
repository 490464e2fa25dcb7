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
EXCHANGE, RESTART, SWEEP = (f"{_SCRIPTS}verbs/{name}.lua" for name in ("exchange", "restart_with", "sweep"))

MUTANTS = [
    # admission
    Mutant(ADMISSION, "return rule.max and rule.max - Ledger.held(ident)", "return rule.max and rule.max - Ledger.held(ident) + 1", "a key admits one too many"),
    Mutant(ADMISSION, "if room < use[2] or Admission.is_waited_for(use[1], queue) then", "if room < use[2] then", "a newcomer passes those that wait for tokens"),
    Mutant(ADMISSION, "    local room = Admission.free(use[1]) - Ledger.offered(use[1], queue)", "    local room = Admission.free(use[1])", "newcomers are not counted as offered"),
    Mutant(ADMISSION, "return free >= use[2] or (free + 1 >= use[2] and Ledger.holds(use[1], job))", "return free >= use[2]", "a reservation does not admit the job that holds it"),
    Mutant(ADMISSION, "    return false -- others stand in line for tokens", "    return true -- others stand in line for tokens", "one that passes by takes tokens that others wait for"),
    Mutant(ADMISSION, "if rule.limit then Ledger.spend(use[1], rule, use[2], job) end", "if rule.limit then Ledger.spend(use[1], rule, 1, job) end", "a start costs one token, whatever it should"),
    Mutant(ADMISSION, "if rule.limit then Ledger.spend(use[1], rule, use[2], job) end", "if rule.limit then Ledger.spend(use[1], rule, use[2] * 2, job) end", "a start takes its tokens twice"),
    Mutant(ADMISSION, "  if rule.rate or not rule.max or rule.max > Admission.OFFER_MOST then Admission.touch(ident) end", "", "a used offer of a rate does not set its timer"),
    Mutant(ADMISSION, "  if Admission.is_rate(refused[1]) then return kept end\n", "", "a job that waits for a rate reserves slots"),
    Mutant(ADMISSION, "  local passed_over = job.refusals and job.offered_by and job.offered_by ~= refused[1]", "  local passed_over = false", "a job that is passed over never reserves"),
    Mutant(ADMISSION, "refusals >= settings.patience and Admission.reservable(refused, uses) or {}", "Admission.reservable(refused, uses)", "a job reserves at its first refusal"),
    Mutant(ADMISSION, "  for _, ident in ipairs(Ledger.drop_except(job, keep)) do Admission.touch(ident) end\n  Admission.touch(job.offered_by)", "  Ledger.drop_except(job, keep)\n  Admission.touch(job.offered_by)", "a reservation that is let go wakes nothing"),
    Mutant(ADMISSION, "  Admission.touch(job.offered_by)\n  Admission.touch_rate(refused[1])", "  Admission.touch_rate(refused[1])", "a refused job does not pass its offer on"),
    Mutant(ADMISSION, "  for _, use in ipairs(uses) do Admission.take(job, use) end", "  Admission.take(job, uses[1] or {'c', 0})", "only the first key of several is taken"),
    Mutant(ADMISSION, "  if reserved then Admission.drop_unneeded(job, uses) end\n", "", "reservations of withdrawn caps stay"),
    Mutant(ADMISSION, "  Admission.give_back(job)\n  Ledger.set_aside(job, 'aside')", "  Ledger.set_aside(job, 'aside')", "a job that is set aside keeps its offer"),
    Mutant(ADMISSION, "  for ident in pairs(Ledger.let_go_all(job)) do Admission.touch(ident) end", "  Ledger.let_go_all(job)", "slots that come back are not offered"),
    Mutant(ADMISSION, "  if job.offered_by then Admission.touch(job.offered_by) end\n", "", "an offered job that leaves does not pass its offer on"),
    Mutant(ADMISSION, "  if job.waiting_on then Admission.touch_rate(job.waiting_on) end\n", "", "the head of a rate's line leaves without a look at the timer"),
    Mutant(ADMISSION, "    if job.units > room then break end\n", "", "an expensive waiter is offered what is not there"),
    Mutant(ADMISSION, "    room = room - job.units\n", "", "room is offered to several"),
    Mutant(ADMISSION, "  if not claim or #ids > claim.want or", "  if not claim or", "a short cut starts more than was wanted"),
    Mutant(ADMISSION, "    if claim.served and not claim.served[need.queue] then return false end\n", "", "a short cut starts jobs of queues that the worker does not serve"),
    Mutant(ADMISSION, "    if Admission.is_rate(ident) then Ledger.arm(ident, Admission.timer_of(ident, queues)) end\n", "", "a rate's timer is never set"),
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
    Mutant(HOLDING, "    key.held = Ledger.held(ident) + 1", "    key.held = Ledger.held(ident)", "a slot that is taken does not count in its own step"),
    Mutant(HOLDING, "  Ledger.at(ident).held = Ledger.held(ident) - 1", "  Ledger.at(ident).held = Ledger.held(ident)", "a slot that is given back counts until the step ends"),
    # changes of limits, and lost workers, in slices
    Mutant(MOVES, "or not before or not after or after > before", "or not before or not after", "a raised override reaches no key"),
    Mutant(MOVES, "  return (limit and limit.kind == 'rate') or not before", "  return not before", "a rate that is declared anew reaches no key"),
    Mutant(MOVES, "  if value and (tenant or Reading.are_alike({'waited'}, name)) then", "  if value then", "an override of a value forgets the keys of tenants"),
    Mutant(MOVES, "  return not value and not tenant and limit and limit.kind == 'concurrency' and limit.max or nil", "  return limit and limit.max or nil", "an override of a key is compared with the declared number"),
    Mutant(STEP, "  if next(Book.changing) ~= nil then due = now end\n", "", "no worker hears that a change of limits goes on"),
    Mutant(LOSING, "    Write.score('leases', worker, math.min(lease or now, now))\n", "", "a worker that is half lost goes on"),
    Mutant(LOSING, "  local judged = record[8] or Transitions.judged(worker, lease, record[3])", "  local judged = Transitions.judged(worker, lease, record[3])", "each slice of a lost worker is judged by itself"),
    Mutant(LOSING, "  if not beyond then\n    Transitions.forget_worker(worker)\n  elseif", "  Transitions.forget_worker(worker)\n  if beyond and", "a worker is forgotten with its first slice"),
    Mutant(LOSING, "  if not beyond then Transitions.forget_worker(worker) end\n", "  Transitions.forget_worker(worker)\n", "a worker that retires is forgotten with its first slice"),
    # what happens to jobs
    Mutant(MOVES, "  Admission.give_back(job)\n  if state then", "  if state then", "an attempt that ends keeps its slots"),
    Mutant(MOVES, "  Admission.give_back(job)\n  Transitions.finish(job, 'cancelled', false, job.error)", "  Transitions.finish(job, 'cancelled', false, job.error)", "a cancelled job keeps what it holds"),
    Mutant(MOVES, "tries = job.tries - (counts and 0 or 1)", "tries = job.tries", "a released attempt counts"),
    Mutant(MOVES, "  if on_conflict == 'raise' or rival.state == 'running' then", "  if on_conflict == 'raise' then", "a running rival is replaced"),
    Mutant(MOVES, "  if job.due <= now then\n    Admission.arrive(job)", "  if true then\n    Admission.arrive(job)", "a future job arrives at once"),
    Mutant(MOVES, "  Store.change(job, {due = now})\n", "", "an expedited job stays scheduled"),
    Mutant(MOVES, "  Book.changed()\n  Admission.touch(ident)", "  Book.changed()", "a raised floating limit wakes nothing"),
    Mutant(MOVES, "    if known and known.kind ~= l[2] then Store.refuse('kind', l[1], known.kind, l[2]) end\n", "", "a limit may change its kind"),
    Mutant(LIFE, "  if job.cancel then return 'cancelled', 'lost', Lifecycle.LOST end\n", "", "a cancelled job that is lost runs again"),
    Mutant(LIFE, "  return false, 'lost', Lifecycle.LOST, false, math.min(job.due, now), false", "  return false, 'lost', Lifecycle.LOST, false, now, false", "a lost job loses its place"),
    Mutant(LIFE, "    if cancelled then return 'cancelled', 'failed', value end\n", "", "a cancelled job that fails is retried"),
    Mutant(LIFE, "  return false, 'released', false, false, math.min(job.due, now), false", "  return false, 'released', false, false, now, false", "a released job loses its place"),
    # exchanges
    Mutant(EXCHANGE, " or job.attempt ~= attempt then return false end", " then return false end", "a report about an old attempt counts"),
    Mutant(EXCHANGE, " or job.worker ~= worker or", " or", "a report about another worker's attempt counts"),
    Mutant(EXCHANGE, "      if not found.paused[queue] then names[#names + 1] = queue end", "      names[#names + 1] = queue", "paused queues are worked by workers of all queues"),
    Mutant(STEP, "    if number <= last then Store.refuse('stale', worker, number, last) end\n", "", "a message may come twice"),
    Mutant(STEP, "  if not lease or lease <= now then Store.refuse('lapsed', worker) end", "  if not lease then Store.refuse('lapsed', worker) end", "a worker without a lease may claim"),
    # time
    Mutant(SWEEP, "  timers()\n", "", "a rate's timer is never looked at"),
    Mutant(SWEEP, "  reservations()\n  local changing", "  local changing", "reservations never run out"),
    Mutant(SWEEP, "  overrides()\n  local expired", "  local expired", "overrides never run out"),
    Mutant(SWEEP, "      Ledger.let_go(ident, job)\n      Admission.touch(ident)", "      Ledger.let_go(ident, job)", "a reservation that ran out wakes nothing"),
    Mutant(SWEEP, "  forget_meters()\n", "", "full buckets and old windows are kept for ever"),
    Mutant(RATES, "  meter.full_at = math.max(meter.full_at, now) + units * pace.interval", "  meter.full_at = meter.full_at + units * pace.interval", "an idle bucket saves up tokens for ever"),
    Mutant(RATES, "  return (a - rest) / b + (rest > 0 and 1 or 0)", "  return (a - rest) / b", "a token is there before its time"),
    Mutant(RATES, "  meter.spent = meter.spent + units\n", "", "a window forgets what was spent in the same step"),
]  # fmt: skip

HERD = Herd(
    [*MUTANTS, *rates.REDIS],
    [
        ["tests/conformance", "-k", "valkey", "-m", "not slow"],
        ["tests/model", "tests/redis", "-k", "valkey", "-m", "not slow"],
        ["tests/processes", "-k", "valkey"],
    ],
    server="valkey",
)
