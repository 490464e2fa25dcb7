// Questions in SQL: the API answers, and the rows become a table.
"use strict";

const form = document.getElementById("sql");
const query = document.getElementById("query");
const answer = document.getElementById("answer");
const csv = document.getElementById("csv");
const jobColumns = new Set(["id", "job"]);
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
let rows = null;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function cell(value, column) {
  if (value === null) return element("td", {}, element("span", { class: "muted" }, "null"));
  if (typeof value === "number") return element("td", { class: "n" }, String(value));
  const text = String(value);
  if (instant.test(text)) return element("td", {}, element("time", { datetime: text, title: text + " (the store's clock)" }, text));
  if (jobColumns.has(column) && text) return element("td", {}, element("a", { class: "key", href: root + "/jobs/" + encodeURIComponent(text) }, text));
  return element("td", {}, text);
}

function table(said) {
  const numeric = said.columns.map((_, index) => said.rows.length > 0 && said.rows.every((row) => row[index] === null || typeof row[index] === "number"));
  const head = element("tr", {}, ...said.columns.map((name, index) => element("th", numeric[index] ? { class: "n" } : {}, name)));
  const body = said.rows.map((row) => element("tr", {}, ...row.map((value, index) => cell(value, said.columns[index]))));
  const shown = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" }, shown);
}

function empty(bold, text) {
  return element("p", { class: "empty" }, element("b", {}, bold), text);
}

async function question() {
  const asked = query.value;
  const begun = performance.now();
  try {
    const said = await ask("POST", "/sql", { query: asked });
    rows = said;
    const took = ((performance.now() - begun) / 1000).toFixed(2) + " s";
    const many = number.format(said.rows.length) + (said.rows.length === 1 ? " row" : " rows") + (said.more ? ", more were left off" : "");
    const head = element("div", { class: "head" }, element("h2", {}, many), element("small", {}, took));
    answer.replaceChildren(head, said.rows.length ? table(said) : empty("No row.", "The question is right, and nothing matches."));
    tellTimes(answer);
    history.replaceState(null, "", "?" + new URLSearchParams({ q: asked }));
  } catch (error) {
    rows = null;
    answer.replaceChildren(element("p", { class: "say failed", role: "alert" }, error.message));
  }
  csv.disabled = !rows;
}

const quoted = (value) => (value === null ? "" : /[",\n]/.test(String(value)) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  whilePressed(form.querySelector(".primary"), question);
});
query.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
csv.addEventListener("click", () => {
  const text = [rows.columns, ...rows.rows].map((row) => row.map(quoted).join(",")).join("\n");
  navigator.clipboard.writeText(text).then(() => toast("Copied."), () => toast("The browser refused.", true));
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.query) {
    query.value = button.dataset.query;
    form.requestSubmit();
  }
  if (button?.dataset.insert) {
    query.setRangeText(button.dataset.insert, query.selectionStart, query.selectionEnd, "end");
    query.focus();
  }
});
