// One stream of events; a change renews the part of the page that shows the store, at most once a second. What is renewed
// is laid over what stands, element by element: focus, open errors, charts and picked rows stay as they are.
"use strict";

const RENEWS = 1000;
const ANYHOW = 10000;

Idiomorph.defaults.callbacks = {
  ...Idiomorph.defaults.callbacks,
  beforeNodeMorphed: (old) => !(old.dataset && "keep" in old.dataset),
  beforeAttributeUpdated: (name, element) =>
    !((name === "open" && element.tagName === "DETAILS") || name === "aria-busy" ||
      ("pick" in (element.dataset || {}) && name === "checked")),
};
Idiomorph.defaults.ignoreActiveValue = true;

function say(state, text) {
  const light = document.querySelector(".live");
  if (!light || (light.dataset.state === state && light.lastElementChild.textContent === text)) return;
  light.dataset.state = state;
  light.lastElementChild.textContent = text;
}

// Rows that are picked hold still until they are dealt with.
const held = () => document.querySelector("[data-pick]:checked") !== null;

let due = null;
function changed() {
  if (due !== null) return;
  due = setTimeout(() => {
    due = null;
    if (!document.hidden && !held()) renew();
  }, RENEWS);
}

const AGAIN = 2000;
const events = ["totals", "queues", "limits", "workers", "job", "available"];
const ended = ["succeeded", "failed", "cancelled"];

// A stream that breaks is opened again by the browser, one that is refused only by us; not by all browsers at once.
let source = null;
function follow(missed) {
  const about = document.body.dataset.events;
  if (!about) return;
  source = new EventSource(api + about);
  source.onopen = () => {
    say("on", "live");
    if (missed) changed();
    missed = false;
  };
  source.onerror = () => {
    say("off", "not connected");
    missed = true;
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(true), AGAIN * (1 + Math.random()));
  };
  for (const name of events) source.addEventListener(name, changed);
  source.addEventListener("unavailable", () => say("off", "the store cannot be reached"));
  source.addEventListener("available", () => say("on", "live"));
  source.addEventListener("job", (event) => {
    if (!ended.includes(JSON.parse(event.data).state)) return;
    source.close();
    say("on", "ended");
  });
}

// What changes without an event: leases, places in line, a job's sentence.
function renewAnyhow() {
  const alive = document.getElementById("alive");
  const every = alive ? Number(alive.dataset.every) * 1000 : document.body.dataset.events ? ANYHOW : 0;
  setTimeout(() => {
    if (every && !document.hidden && !held()) renew();
    renewAnyhow();
  }, every || ANYHOW);
}

document.addEventListener("htmx:afterSwap", () => {
  if (source?.readyState === EventSource.OPEN && !held()) say("on", "live");
  setClock();
  tellTimes(document);
  document.dispatchEvent(new CustomEvent("headgate:renewed"));
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && document.body.dataset.events) renew(); });
document.addEventListener("htmx:sendError", () => say("off", "not connected"));
follow(false);
renewAnyhow();
