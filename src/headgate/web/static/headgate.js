// The page's own script: changes go to the API, and what the API's event stream says makes parts of the page renew.
"use strict";

const root = document.body.dataset.root;
const csrf = document.body.dataset.csrf;
const api = root + "/api/v1";

function toast(text, bad) {
  const box = document.createElement("div");
  box.className = bad ? "toast bad" : "toast";
  box.textContent = text;
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), bad ? 12000 : 5000);
}

function renew() {
  document.body.dispatchEvent(new CustomEvent("headgate:changed"));
}

// Seconds ago, and the moment itself in the viewer's zone; the store's own is in the title.
function tellTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.textContent = time.dataset.how === "ago" ? span((Date.now() - at) / 1000) : at.toLocaleString();
  }
}

function span(seconds) {
  const ahead = seconds < 0;
  let rest = Math.abs(Math.round(seconds));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many) parts.push(many + " " + unit);
  }
  const text = parts.slice(0, 2).join(" ") || "0 s";
  return ahead ? "in " + text : text;
}

async function ask(method, path, body) {
  const headers = { "x-headgate-csrf": csrf };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(api + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const said = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (!answer.ok) throw new Error(said.detail || answer.statusText);
  return said;
}

function told(said, done) {
  const parts = [];
  if (said.state) parts.push("The job is " + said.state + ".");
  if (said.done !== undefined) parts.push(said.done + (said.done === 1 ? " job was " : " jobs were ") + done + ".");
  if (said.asked) parts.push(said.asked + " run on and were asked to stop.");
  if (said.refused && said.refused.length) parts.push(said.refused.length + " refused.");
  if (said.changed === false) parts.push("It was so already.");
  return parts.join(" ") || "Done.";
}

// A button with data-do="METHOD /path" asks the API; with data-confirm it says first how many jobs are meant.
async function act(button) {
  const [method, path] = button.dataset.do.split(" ", 2);
  const body = button.dataset.body === undefined ? undefined : JSON.parse(button.dataset.body);
  if (button.dataset.confirm !== undefined) {
    let question = button.dataset.confirm;
    if (body && body.filter) {
      const found = await ask(method, path, { ...body, dry_run: true });
      question = question.replace("{n}", found.matching);
      if (found.matching === 0) return toast("No job matches.");
    }
    if (!(await confirmed(question))) return;
  }
  const said = await ask(method, path, body);
  toast(told(said, button.dataset.done || "changed"));
  if (button.dataset.then) location.href = button.dataset.then;
  else renew();
}

function confirmed(question) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("p").textContent = question;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-do]");
  const opens = event.target.closest("[data-opens]");
  const shuts = event.target.closest("[data-shuts]");
  if (opens) document.getElementById(opens.dataset.opens).showModal();
  if (shuts) shuts.closest("dialog").close("");
  if (!button || button.disabled) return;
  button.disabled = true;
  try {
    await act(button);
  } catch (error) {
    toast(error.message, true);
  } finally {
    button.disabled = false;
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-api]");
  if (!form) return;
  event.preventDefault();
  const [method, path] = form.dataset.api.split(" ", 2);
  const given = Object.fromEntries(new FormData(form));
  const body = {};
  for (const [name, value] of Object.entries(given)) {
    if (value === "") {
      if (name === "max") body.max = null;
    } else body[name] = form.elements[name].type === "number" ? Number(value) : value;
  }
  try {
    toast(told(await ask(method, path, body), "changed"));
    form.closest("dialog")?.close("");
    renew();
  } catch (error) {
    toast(error.message, true);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    const search = document.querySelector(".search input");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});

// One stream of events; a change renews the parts of the page that ask for it, at most once a second.
function follow() {
  const light = document.querySelector(".live");
  const about = document.body.dataset.events;
  if (!about || !light) return;
  let due = null;
  const changed = () => {
    if (due === null) due = setTimeout(() => { due = null; renew(); }, 1000);
  };
  const say = (state, text) => { light.dataset.state = state; light.lastElementChild.textContent = text; };
  const source = new EventSource(api + about);
  let first = true;
  source.onopen = () => { say("on", "live"); if (!first) changed(); first = false; };
  source.onerror = () => say("off", "not connected");
  for (const name of ["queues", "workers", "totals", "job", "available"]) source.addEventListener(name, changed);
  source.addEventListener("unavailable", () => say("off", "the store cannot be reached"));
  source.addEventListener("available", () => say("on", "live"));
}

document.addEventListener("htmx:afterSwap", (event) => tellTimes(event.target.parentElement || document));
tellTimes(document);
follow();
setInterval(() => tellTimes(document), 1000);
