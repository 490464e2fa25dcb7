// Draws the page's charts and feeds them what the renewed page brings; colours are those of the page.
"use strict";

const drawn = new Map();
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

const shown = {
  "per second": (value) => (value === null || value === undefined ? "–" : value < 10 ? value.toFixed(2) : value.toFixed(1)),
  seconds: (value) => (value === null || value === undefined ? "–" : value < 10 ? value.toFixed(1) + " s" : lasting(value)),
};
const steps = { "per second": undefined, seconds: [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400] };

function axis(extra) {
  return {
    stroke: color("--ink-3"), font: "11px " + getComputedStyle(document.body).fontFamily, gap: 6,
    grid: { stroke: color("--line-soft"), width: 1 }, ticks: { show: false }, ...extra,
  };
}

function series(curve, index) {
  return {
    label: curve.name, stroke: color("--c" + index), width: index === 0 ? 2 : 1.5, points: { show: false }, spanGaps: false,
    fill: index === 0 ? color("--accent-soft") : undefined,
  };
}

// Names and colours of the curves, and what they say at the cursor.
function legend(chart) {
  const made = document.createElement("div");
  made.className = "legend";
  const entry = (name, index) => {
    const one = document.createElement("span");
    one.innerHTML = '<svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" rx="2"/></svg><i></i> <b></b>';
    one.querySelector("rect").setAttribute("fill", color("--c" + index));
    one.querySelector("i").textContent = name;
    return one;
  };
  made.append(...chart.curves.map((curve, index) => entry(curve.name, index)), document.createElement("em"));
  return made;
}

function tellLegend(plot, box, unit) {
  const at = plot.cursor.idx;
  box.querySelectorAll(".legend b").forEach((said, index) => {
    said.textContent = at === null || at === undefined ? "" : shown[unit](plot.data[index + 1][at]);
  });
  const when = box.querySelector(".legend em");
  if (when) when.textContent = at === null || at === undefined ? "" : "at " + clock.format(new Date(plot.data[0][at] * 1000));
}

function options(box, chart) {
  return {
    width: box.clientWidth - 24, height: 150, cursor: { sync: { key: "charts" }, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false }, hooks: { setCursor: [(plot) => tellLegend(plot, box, chart.unit)] }, scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.15, chart.unit === "seconds" ? 1 : 0.1)] } },
    axes: [
      axis({ values: (_, at) => at.map((one) => clock.format(new Date(one * 1000))), grid: { show: false }, size: 24, space: 70 }),
      axis({ values: (_, at) => at.map((one) => axisText(one, chart.unit)), size: 46, space: 34, incrs: steps[chart.unit] }),
    ],
    series: [{}, ...chart.curves.map(series)],
  };
}

function axisText(value, unit) {
  if (unit !== "seconds") return String(Number(value.toFixed(2)));
  return value >= 60 ? lasting(value) : Number(value.toFixed(1)) + " s";
}

function draw() {
  const source = document.getElementById("chart-data");
  if (!source) return;
  const charts = JSON.parse(source.dataset.charts);
  for (const box of document.querySelectorAll("[data-chart]")) {
    const chart = charts[box.dataset.chart];
    const data = [chart.times, ...chart.curves.map((curve) => curve.values)];
    const names = chart.curves.map((curve) => curve.name).join("\n");
    const old = drawn.get(box.dataset.chart);
    if (old && old.names === names && old.box === box) old.plot.setData(data);
    else {
      old?.plot.destroy();
      box.replaceChildren();
      const plot = new uPlot(options(box, chart), data, box);
      box.append(legend(chart));
      drawn.set(box.dataset.chart, { plot, names, box });
    }
  }
}

function drawAnew() {
  for (const { plot } of drawn.values()) plot.destroy();
  drawn.clear();
  draw();
}

document.addEventListener("headgate:renewed", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAnew);
let resizing = null;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawAnew, 120); });
draw();
