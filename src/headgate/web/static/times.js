// Times in the viewer's zone and as spans that count on; the store's own time is in each title. Spans go by the store's
// clock, which the page brings along: this machine's may be wrong.
"use strict";

const zone = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const otherDay = new Intl.DateTimeFormat(undefined, zone);
const otherYear = new Intl.DateTimeFormat(undefined, { ...zone, year: "numeric" });
let ahead = 0;

function setClock() {
  const clock = document.getElementById("clock");
  if (clock) ahead = new Date(clock.dataset.now) - Date.now();
}

function storeNow() {
  return Date.now() + ahead;
}

function moment(at) {
  const now = new Date(storeNow());
  if (at.toDateString() === now.toDateString()) return sameDay.format(at);
  return (at.getFullYear() === now.getFullYear() ? otherDay : otherYear).format(at);
}

function lasting(seconds) {
  if (seconds > 0 && seconds < 1) return "0 s";
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many) parts.push(many + " " + unit);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

// ago: how long, "in" where it lies ahead · past: the same with "ago" · due: "now" once it is reached · at: the time
const told = {
  ago: (seconds) => (seconds < 0 ? "in " + lasting(-seconds) : lasting(seconds)),
  past: (seconds) => (seconds < 0 ? "in " + lasting(-seconds) : lasting(seconds) + " ago"),
  due: (seconds) => (seconds < 0 ? "in " + lasting(-seconds) : "now"),
};

function tellTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const how = told[time.dataset.how];
    const text = how ? how((storeNow() - at) / 1000) : moment(at);
    if (time.textContent !== text) time.textContent = text;
  }
}

setClock();
tellTimes(document);
setInterval(() => tellTimes(document), 1000);
