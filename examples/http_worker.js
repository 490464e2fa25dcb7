// A full worker in plain JavaScript: nothing to install but Node 18 or newer. It has a lease, takes part in all limits,
// agrees with the store again after a lost connection, stops jobs that are cancelled, and leaves in order on SIGTERM.
//
//     headgate web --url sqlite:///jobs.db &
//     curl -d '{"task": "render", "args": {"page": 1}, "raw": true}' -H 'Content-Type: application/json' \
//         http://127.0.0.1:8390/api/v1/jobs
//     node examples/http_worker.js
"use strict";

const api = process.env.HEADGATE_API ?? "http://127.0.0.1:8390/api/v1";
const token = process.env.HEADGATE_TOKEN;
const concurrency = 4;

const tasks = {
  async render({ page, seconds = 0.02 }, signal) {
    await sleep(seconds * 1000, signal);
    return { page, by: "javascript" };
  },
};

const running = new Map(); // job id -> { job, attempt, stop }
let reports = []; // what the store has not confirmed yet
let worker, lease, leaseEnds, beats, number, poll;
let doubt = false;
let leaving = false;
let wake = () => {};

async function ask(method, path, body, signal = AbortSignal.timeout(10_000)) {
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  const answer = await fetch(api + path, { method, headers, signal, body: body && JSON.stringify(body) });
  const said = await answer.json();
  if (answer.ok) return said;
  const again = answer.status >= 500 || [408, 409, 429].includes(answer.status);
  throw Object.assign(new Error(said.detail), { type: said.type, fatal: !again });
}

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

async function run({ job, attempt, task, args, retry_in, timeout }) {
  const mine = { job, attempt, stop: new AbortController() };
  running.set(job, mine);
  const late = timeout && setTimeout(() => mine.stop.abort(new Error(`more than ${timeout} s`)), timeout * 1000);
  console.log(JSON.stringify({ began: job, args }));
  let report;
  try {
    report = { job, attempt, outcome: "succeeded", result: await tasks[task](args, mine.stop.signal) };
  } catch (error) {
    report = error.cancelled
      ? { job, attempt, outcome: "cancelled" }
      : { job, attempt, outcome: "failed", error: String(error?.stack ?? error), retry_in };
  }
  clearTimeout(late);
  console.log(JSON.stringify({ ended: job, args }));
  if (running.get(job) !== mine) return; // it was taken back meanwhile, and is no longer this worker's to report
  running.delete(job);
  reports.push(report);
  wake();
}

function cancel(jobs) {
  for (const job of jobs) running.get(job)?.stop.abort(Object.assign(new Error("cancelled"), { cancelled: true }));
}

// The lease is gone: nothing that runs is this worker's any more. It begins anew, under another name.
function abandon() {
  for (const { stop } of running.values()) stop.abort();
  running.clear();
  [worker, reports] = [undefined, []];
}

async function register() {
  const asked = Date.now();
  const answer = await ask("POST", "/work", { tasks: Object.keys(tasks), concurrency, name: "javascript" });
  ({ worker, lease } = answer);
  [number, doubt, leaseEnds] = [0, false, asked + lease * 1000];
  clearInterval(beats);
  beats = setInterval(heartbeat, answer.beat * 1000);
}

// After an error the worker cannot know what took effect: it tells the store what it has, and drops what is not its own.
async function resume() {
  const known = [...running.values(), ...reports].map(({ job, attempt }) => [job, attempt]);
  const { alive, cancelling } = await ask("POST", `/work/${worker}/resume`, { number: ++number, known });
  const pairs = new Set(alive.map(String));
  const isOurs = ({ job, attempt }) => pairs.has(String([job, attempt]));
  for (const one of running.values()) if (!isOurs(one)) (running.delete(one.job), one.stop.abort());
  reports = reports.filter(isOurs);
  cancel(cancelling);
  doubt = false;
}

async function exchange() {
  const sent = [...reports], mine = worker;
  const want = leaving ? 0 : concurrency - running.size;
  const wait = leaving || running.size || sent.length ? 0 : 20; // a long poll only while there is nothing to report
  poll = wait ? new AbortController() : undefined;
  const late = AbortSignal.timeout((wait + 10) * 1000);
  const body = { number: ++number, reports: sent, want, wait };
  const answer = await ask("POST", `/work/${mine}/exchange`, body, poll ? AbortSignal.any([poll.signal, late]) : late);
  if (worker !== mine) return; // the lease lapsed meanwhile; the store takes back what it gave
  reports = reports.slice(sent.length);
  answer.attempts.forEach(run);
  cancel(answer.cancelling);
  const nothingNew = !answer.attempts.length && !answer.more && !reports.length;
  if (nothingNew && running.size) await Promise.race([new Promise((done) => (wake = done)), sleep(500)]);
}

async function heartbeat() {
  const asked = Date.now();
  if (asked > leaseEnds) abandon();
  if (!worker) return;
  try {
    const { cancelling } = await ask("POST", `/work/${worker}/heartbeat`);
    leaseEnds = asked + lease * 1000;
    cancel(cancelling);
  } catch (error) {
    console.error(`no heartbeat: ${error.message}`); // the next exchange finds out more
  }
}

function leave() {
  leaving = true;
  poll?.abort(); // should it have claimed something, that is given back below
  wake();
}

async function main() {
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, leave);
  while (!leaving || running.size || reports.length) {
    try {
      await (!worker ? register : doubt ? resume : exchange)();
    } catch (error) {
      if (error.fatal) throw error;
      if (leaving && error.name === "AbortError") continue;
      console.error(`in doubt: ${error.message}`);
      doubt = true;
      if (error.type === "/problems/lease-lost") abandon();
      await sleep(500);
    }
  }
  if (worker) await ask("DELETE", `/work/${worker}`);
}

main().then(() => process.exit(0), (error) => { console.error(error.message); process.exit(1); });
