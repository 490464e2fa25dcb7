// Changes go to the API: a button or a form says which call, a dialog asks first, a line at the edge tells what came of it.
"use strict";

const root = document.body.dataset.root;
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

async function ask(method, path, body) {
  const headers = { "x-headgate-csrf": document.body.dataset.csrf };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(api + path, { method, headers, body: sent });
  } catch {
    throw new Error("The server cannot be reached; nothing is known to have changed.");
  }
  const said = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (answer.status === 401) throw new Error((said.detail || "The session has ended") + ": load the page again.");
  if (!answer.ok) throw new Error(said.detail || answer.statusText);
  return said;
}

const number = new Intl.NumberFormat("en-US");
const jobs = (many) => number.format(many) + (many === 1 ? " job" : " jobs");

function cameOf(said, done) {
  const parts = [];
  if (said.created !== undefined && said.id) parts.push("Enqueued as " + said.id + ".");
  else if (said.state) parts.push("The job is " + said.state + ".");
  if (said.done !== undefined) parts.push(jobs(said.done) + (said.done === 1 ? " was " : " were ") + done + ".");
  if (said.asked) parts.push(number.format(said.asked) + " run on and were asked to stop.");
  if (said.refused && said.refused.length) parts.push(number.format(said.refused.length) + " refused: they are in another state.");
  if (said.changed === false) parts.push("It was so already.");
  return parts.join(" ") || "Done.";
}

// The dialog's own buttons close it; Escape means no. Focus goes back to where it was.
function confirmed(question, yes) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = yes || "Yes, do it";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((answered) =>
    dialog.addEventListener("close", () => answered(dialog.returnValue === "yes"), { once: true }));
}

// Asks first, and says how many jobs are meant where the server has to count them. True if it was done.
async function act({ call, body, question, yes, done, then }) {
  const [method, path] = call.split(" ", 2);
  if (question !== undefined) {
    if (question.includes("{n}") || (yes || "").includes("{n}")) {
      const { matching, exact } = await ask(method, path, { ...body, dry_run: true });
      if (matching === 0 && exact !== false) {
        toast("No job that matches is in a state for that.");
        return false;
      }
      const least = matching ? "at least " + number.format(matching) : "all";
      const many = exact === false ? least : number.format(matching);
      question = question.replaceAll("{n}", many);
      if (matching === 1) question = question.replace(" jobs", " job");
      yes = yes && yes.replaceAll("{n}", exact === false ? "all that match" : many);
    }
    if (!(await confirmed(question, yes))) return false;
  }
  const said = await ask(method, path, body);
  toast(cameOf(said, done || "changed"));
  if (then) location.href = then;
  else renew();
  return true;
}

async function whilePressed(button, work) {
  if (button.disabled || button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    toast(error.message, true);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// One dialog may serve many rows: the button says what it is about.
function openDialog(dialog, { api, title, value }) {
  if (api) {
    const form = dialog.querySelector("form");
    form.reset();
    form.dataset.api = api;
    dialog.querySelector("h2").textContent = title;
    form.querySelector("input").value = value;
  }
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button");
  if (!pressed) return;
  const { opens, copies, confirm, body, yes, done, then } = pressed.dataset;
  if (opens) openDialog(document.getElementById(opens), pressed.dataset);
  if ("shuts" in pressed.dataset) pressed.closest("dialog").close("");
  if (copies) navigator.clipboard.writeText(copies).then(() => toast("Copied."), () => toast("The browser refused.", true));
  if (pressed.dataset.do) {
    whilePressed(pressed, () =>
      act({ call: pressed.dataset.do, body: body && JSON.parse(body), question: confirm, yes, done, then }));
  }
});

// What a form sends: empty fields are left out, but an empty number is null: it lifts a limit.
function fields(form) {
  const body = {};
  for (const [name, value] of new FormData(form)) {
    const field = form.elements[name];
    if (name === form.dataset.json) body[name] = JSON.parse(value);
    else if (value !== "") body[name] = field.type === "number" || "number" in field.dataset ? Number(value) : value;
    else if (field.type === "number") body[name] = null;
  }
  return body;
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form");
  if (form.method === "get" && !form.closest("dialog")) {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    setTimeout(() => { for (const field of form.elements) field.disabled = false; }, 0);
  }
  if (!form.dataset.api) return;
  event.preventDefault();
  whilePressed(form.querySelector("button:not([type=button])"), async () => {
    let body;
    try {
      body = fields(form);
    } catch (error) {
      throw new Error("This is no JSON object: " + error.message);
    }
    const [method, path] = form.dataset.api.split(" ", 2);
    toast(cameOf(await ask(method, path, body), form.dataset.done || "changed"));
    form.closest("dialog")?.close("");
    renew();
  });
});
