// Keys: / searches, g and a letter opens a page, j and k walk through rows, x picks one, ? tells them all.
"use strict";

const typing = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName) && document.activeElement.type !== "checkbox";
let going = 0;

function walk(by) {
  const rows = [...document.querySelectorAll("#part tbody tr, #part .line li, #part .groups li, #part .lights li")];
  const stops = rows.map((row) => row.querySelector("a, button")).filter(Boolean);
  const row = document.activeElement.closest("tr, li");
  const at = rows.filter((one) => one.querySelector("a, button")).indexOf(row);
  stops[at < 0 ? (by > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, at + by))]?.focus();
}

const keys = {
  "/": () => document.querySelector(".search input").focus(),
  "?": () => document.getElementById("keys").showModal(),
  g: () => { going = Date.now(); },
  j: () => walk(1),
  k: () => walk(-1),
  x: () => document.activeElement.closest("tr")?.querySelector("[data-pick]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing() || document.querySelector("dialog[open]")) {
    if (event.key === "Escape" && typing()) document.activeElement.blur();
    return;
  }
  if (Date.now() - going < 1500) {
    going = 0;
    const to = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (to) {
      event.preventDefault();
      to.click();
      return;
    }
  }
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
