// Jobs that are picked, one by one or all that match the filter, and what is done with them.
"use strict";

let allMatch = false;
const picks = () => [...document.querySelectorAll("[data-pick]")];
const picked = () => picks().filter((box) => box.checked).map((box) => box.value);
const filter = () => JSON.parse(document.getElementById("jobs").dataset.filter || "null");
const questions = {
  restart: ["Restart", "They run as soon as their limits admit them."],
  expedite: ["Run", "They are due now; their limits still count."],
  cancel: ["Cancel", "Those that run are asked to stop."],
  delete: ["Delete", "They are gone for good."],
};

function showPicked() {
  const many = picked().length;
  const status = document.getElementById("picked");
  if (!status) return;
  if (!picks().length) allMatch = false;
  status.textContent = allMatch ? "All that match" : many ? jobs(many) + " picked" : "None picked";
  const toggle = document.querySelector("[data-all]");
  if (toggle) toggle.textContent = allMatch ? "Only some" : "All that match";
  for (const button of document.querySelectorAll("[data-verb]")) button.disabled = !many && !allMatch;
  for (const box of picks()) box.closest("tr").classList.toggle("picked", box.checked || allMatch);
  const page = document.querySelector("[data-page]");
  page.checked = many > 0 && many === picks().length;
  page.indeterminate = many > 0 && many < picks().length;
  if (many || allMatch) say("held", "holds still while jobs are picked");
  else say("on", "live");
}

function unpick() {
  allMatch = false;
  for (const box of picks()) box.checked = false;
  showPicked();
}

async function actOnPicked(button) {
  const [verb, more] = questions[button.dataset.verb];
  const ids = picked();
  const many = allMatch ? "{n} jobs" : jobs(ids.length);
  const body = allMatch ? { filter: filter() } : { ids };
  const call = "POST /jobs/" + button.dataset.verb;
  const question = `${verb} ${many}${allMatch ? " that match the filter" : ""}? ${more}`;
  const yes = `${verb} ${allMatch ? "{n}" : number.format(ids.length)}`;
  if (await act({ call, body, question, yes, done: button.dataset.done })) {
    unpick();
    renew();
  }
}

document.addEventListener("change", (event) => {
  if ("page" in event.target.dataset) for (const box of picks()) box.checked = event.target.checked;
  if ("page" in event.target.dataset || "pick" in event.target.dataset) {
    allMatch = false;
    showPicked();
  }
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("all" in button.dataset) {
    allMatch = !allMatch;
    for (const box of picks()) box.checked = allMatch;
    showPicked();
  }
  if (button.dataset.verb) whilePressed(button, () => actOnPicked(button));
});
document.addEventListener("headgate:renewed", showPicked);
document.addEventListener("DOMContentLoaded", showPicked);
