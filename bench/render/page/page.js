"use strict";
(() => {
// The viewer of plans. Everything is drawn on one canvas a plan: lanes above, memory below.
const data = JSON.parse(document.getElementById("data").textContent);
// kinds of operations: words and texture; data.colours has their colours and those of what memory is used for.
const kinds = {
  forward: ["forward"], recompute: ["recomputed forward", "hatch"], backward: ["backward"], weight: ["weight gradient", "dots"],
  out: ["to the host"], in: ["from the host", "dots"], other: ["other"],
};
const memoryColour = part => data.colours[part] || data.colours.other;
const laneHeight = 26, mostCharts = 16, left = 92, top = 8;

const bytes = x => x >= 2 ** 30 ? (x / 2 ** 30).toPrecision(4) + " GiB" : x >= 2 ** 20 ? (x / 2 ** 20).toPrecision(4) + " MiB" : x >= 1024 ? (x / 1024).toPrecision(4) + " KiB" : Math.round(x) + " B";
const time = us => us >= 1e6 ? (us / 1e6).toPrecision(5) + " s" : us >= 1e3 ? (us / 1e3).toPrecision(5) + " ms" : us.toPrecision(4) + " µs";

function kindOf(c, args) {
  if (args.recomputed) return "recompute";
  if (c === "W") return "weight";
  if (c === "O" || c === "out" || c === "CF") return "out";
  if (c === "P" || c === "in" || c === "CB") return "in";
  if (c === "B" || c === "I" || c === "backward") return "backward";
  if (c.startsWith("F") || c === "C" || c === "forward" || c === "loss") return "forward";
  return "other";
}

// read takes a plan as package page writes it: boxes are [lane, start, duration, category, name, arguments], memory
// has rows of a time and a value for each part, rectangles are [start, end, offset, size, name]; microseconds and bytes.
function read(plan) {
  const p = { ...plan };
  p.boxes = plan.boxes.map(([lane, start, duration, c, name, args]) => ({ lane, start, end: start + duration, kind: kindOf(c, args || {}), name, args: args || {} }));
  p.rects = plan.rects.map(([start, end, low, size, name]) => ({ start, end, low, size, name }));
  p.memory = plan.memory.map(m => ({ name: m.name, parts: m.parts, list: m.rows.map(([t, ...v]) => ({ t, sum: v.reduce((x, y) => x + y, 0), parts: Object.fromEntries(m.parts.map((k, q) => [k, v[q]])) })) }));
  p.end = Math.max(1e-6, ...p.boxes.map(b => b.end), ...p.rects.map(r => r.end), ...p.memory.map(m => m.list.at(-1).t));
  p.time = p.rects.length ? t => "step " + Math.round(t / 1e3) : time; // buffers live for steps, not seconds
  return p;
}

const plans = data.plans.map(read);
const whole = [0, Math.max(...plans.map(p => p.end))];
let view = [...whole];

function pattern(g, kind) {
  const colour = data.colours[kind], texture = kinds[kind][1];
  if (!texture) return colour;
  const c = document.createElement("canvas"); c.width = c.height = 8;
  const h = c.getContext("2d");
  h.fillStyle = colour; h.fillRect(0, 0, 8, 8); h.strokeStyle = h.fillStyle = "#ffffffd0"; h.lineWidth = 1.6;
  if (texture === "hatch") { h.beginPath(); for (const o of [-8, 0, 8]) { h.moveTo(o, 8); h.lineTo(o + 8, 0); } h.stroke(); }
  else { h.fillRect(1, 1, 2, 2); h.fillRect(5, 5, 2, 2); }
  return g.createPattern(c, "repeat");
}

function ticks(a, b, n) {
  const raw = (b - a) / n, ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * ten).find(s => s >= raw), list = [];
  for (let t = Math.ceil(a / step) * step; t <= b; t += step) list.push(t);
  return list;
}

function draw(p) {
  const ratio = window.devicePixelRatio || 1, width = p.canvas.clientWidth;
  const lanesHeight = p.rects.length ? 320 : p.lanes.length * laneHeight, memoryHeight = p.memory.length > 2 ? 80 : 170, charts = memoryHeight * Math.min(p.memory.length, mostCharts);
  const height = top + lanesHeight + charts + 26;
  p.canvas.style.height = height + "px"; p.canvas.width = width * ratio; p.canvas.height = height * ratio;
  const g = p.canvas.getContext("2d"); g.scale(ratio, ratio); g.clearRect(0, 0, width, height); g.font = "12px system-ui, sans-serif"; g.textBaseline = "middle";
  const [a, b] = view, x = t => left + (t - a) / (b - a) * (width - left - 8);
  p.x = x; p.hit = [];
  g.save(); g.beginPath(); g.rect(left, 0, width - left - 8, height); g.clip();
  const n = Math.max(2, Math.min(8, Math.floor((width - left) / 110)));
  for (const t of ticks(a, b, n)) { g.fillStyle = "#e8e8e8"; g.fillRect(x(t), top, 1, height - top - 22); }
  const fills = {};
  for (const box of p.boxes) {
    if (box.end < a || box.start > b) continue;
    const x0 = x(box.start), w = Math.max(0.6, x(box.end) - x0), y = top + box.lane * laneHeight + 3, h = laneHeight - 6;
    g.fillStyle = fills[box.kind] ??= pattern(g, box.kind);
    g.fillRect(x0, y, w, h); p.hit.push([x0, y, w, h, box]);
    if (w > 3) { g.strokeStyle = "#fff"; g.lineWidth = 0.7; g.strokeRect(x0, y, w, h); }
    const wide = g.measureText(box.name).width;
    if (w > wide + 8) {
      g.fillStyle = data.colours[box.kind]; g.fillRect(x0 + 2, y + 2, wide + 4, h - 4);
      g.fillStyle = "#fff"; g.fillText(box.name, x0 + 4, y + h / 2);
    }
  }
  if (p.rects.length) {
    const high = Math.max(...p.rects.map(r => r.low + r.size));
    p.rects.forEach((r, k) => {
      if (r.end < a || r.start > b) return;
      const x0 = x(r.start), w = Math.max(0.6, x(r.end) - x0), h = r.size / high * lanesHeight, y = top + lanesHeight - (r.low + r.size) / high * lanesHeight;
      g.fillStyle = `hsl(${k * 47 % 360} 45% 62%)`; g.fillRect(x0, y, w, Math.max(h, 0.6)); g.strokeStyle = "#333"; g.lineWidth = 0.4; g.strokeRect(x0, y, w, h);
      p.hit.push([x0, y, w, h, { name: r.name, kind: "other", start: r.start, end: r.end, args: { offset: r.low, bytes: r.size } }]);
    });
  }
  p.memory.slice(0, mostCharts).forEach((m, k) => {
    const y0 = top + lanesHeight + k * memoryHeight + memoryHeight - 8, peak = Math.max(p.limit || 0, ...m.list.map(s => s.sum)) || 1, y = v => y0 - v / peak * (memoryHeight - 28);
    m.parts.forEach((part, q) => {
      g.beginPath();
      const base = s => m.parts.slice(0, q).reduce((z, n) => z + (s.parts[n] || 0), 0);
      m.list.forEach((s, i) => { const v = y(base(s) + (s.parts[part] || 0)); if (i) g.lineTo(x(s.t), p.last); g.lineTo(x(s.t), v); p.last = v; });
      g.lineTo(x(p.end), p.last);
      for (let i = m.list.length - 1; i >= 0; i--) { g.lineTo(i + 1 < m.list.length ? x(m.list[i + 1].t) : x(p.end), y(base(m.list[i]))); g.lineTo(x(m.list[i].t), y(base(m.list[i]))); }
      g.fillStyle = memoryColour(part); g.fill();
    });
    if (p.limit) { g.strokeStyle = "#000"; g.setLineDash([5, 3]); g.beginPath(); g.moveTo(left, y(p.limit)); g.lineTo(width, y(p.limit)); g.stroke(); g.setLineDash([]); }
    p.hit.push([left, top + lanesHeight + k * memoryHeight, width - left, memoryHeight, { memory: m }]);
  });
  g.restore();
  g.fillStyle = "#1b1b1b";
  p.lanes.forEach((n, k) => { if (!p.rects.length) g.fillText(n.slice(0, 13), 4, top + (k + 0.5) * laneHeight); });
  p.memory.slice(0, mostCharts).forEach((m, k) => {
    const peak = Math.max(p.limit || 0, ...m.list.map(s => s.sum)), y1 = top + lanesHeight + k * memoryHeight;
    g.fillText(bytes(peak), 4, y1 + 20); g.fillText("0", 4, y1 + memoryHeight - 10); g.fillText(m.name.replace(" (bytes)", "").slice(0, 14), 4, y1 + 40);
  });
  if (p.rects.length) g.fillText("address", 4, top + 12);
  for (const t of ticks(a, b, n)) { const s = p.time(t); g.fillText(s, Math.min(x(t) - 10, width - 70), height - 10); }
}

function redraw() { plans.filter(p => !p.section.hidden).forEach(draw); }

function zoom(factor, at) {
  const [a, b] = view, w = Math.min(whole[1] - whole[0], Math.max((whole[1] - whole[0]) / 1e5, (b - a) * factor));
  const f = (at - a) / (b - a); move(at - f * w, w);
}
function move(a, w) {
  a = Math.max(whole[0], Math.min(a, whole[1] - w)); view = [a, a + w]; redraw();
}

function showTip(p, event) {
  const r = p.canvas.getBoundingClientRect(), mx = event.clientX - r.left, my = event.clientY - r.top, tip = document.getElementById("tip");
  const found = p.hit.findLast(([x, y, w, h]) => mx >= x && mx <= x + w && my >= y && my <= y + h);
  if (!found) { tip.style.display = "none"; return; }
  const box = found[4], lines = [];
  if (box.memory) {
    const t = view[0] + (mx - left) / (r.width - left - 8) * (view[1] - view[0]), s = box.memory.list.findLast(s => s.t <= t) || box.memory.list[0];
    lines.push(time(Math.max(0, t)) + ": " + bytes(s.sum)); for (const k of box.memory.parts) if (s.parts[k]) lines.push(k + " " + bytes(s.parts[k]));
  } else {
    lines.push(box.name, kinds[box.kind][0] + ", " + p.time(box.start) + " to " + p.time(box.end) + (p.rects.length ? "" : " (" + time(box.end - box.start) + ")"));
    for (const [k, v] of Object.entries(box.args)) if (!["start", "end", "recomputed"].includes(k)) lines.push(k.replace("_", " ") + ": " + (["bytes", "offset", "size"].includes(k) ? bytes(v) : v));
    if (box.kind === "recompute") lines.push("runs again: its output was not kept");
  }
  tip.replaceChildren(...lines.map((l, k) => { const d = document.createElement(k ? "div" : "b"); d.textContent = l; return d; }));
  tip.style.display = "block";
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px"; tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}

for (const p of plans) {
  const section = document.createElement("section"), pre = document.createElement("pre");
  if (plans.length > 1) { const h = document.createElement("h2"); h.textContent = p.name; section.append(h); }
  pre.textContent = p.summary.trimEnd();
  p.canvas = document.createElement("canvas"); p.canvas.tabIndex = 0; p.canvas.setAttribute("role", "img");
  p.canvas.setAttribute("aria-label", `timeline of ${p.name}: ${p.boxes.length} operations in ${time(p.end)}`);
  section.append(pre, p.canvas); p.section = section;
  if (p.resident.length) {
    const h = document.createElement("h2"), box = document.createElement("div"), table = document.createElement("table");
    h.textContent = "Largest tensors at the peak"; box.className = "scroll";
    const row = (tag, cells) => { const tr = document.createElement("tr"); cells.forEach((c, k) => { const td = document.createElement(tag); td.textContent = c; if (k) td.className = "n"; tr.append(td); }); table.append(tr); };
    row("th", ["tensor", "size", "since"]);
    for (const t of p.resident) row("td", [t.name, bytes(t.bytes), p.rects.length ? "step " + t.since : time(t.since * 1e6)]);
    box.append(table); section.append(h, box);
  }
  document.getElementById("plans").append(section);
  p.canvas.addEventListener("wheel", e => { e.preventDefault(); const r = p.canvas.getBoundingClientRect(); zoom(e.deltaY > 0 ? 1.25 : 0.8, view[0] + (e.clientX - r.left - left) / (r.width - left - 8) * (view[1] - view[0])); }, { passive: false });
  let from = null;
  p.canvas.addEventListener("pointerdown", e => { from = [e.clientX, view[0]]; p.canvas.setPointerCapture(e.pointerId); });
  p.canvas.addEventListener("pointerup", () => { from = null; });
  p.canvas.addEventListener("pointermove", e => {
    if (from) { const w = view[1] - view[0]; move(from[1] - (e.clientX - from[0]) / (p.canvas.clientWidth - left - 8) * w, w); }
    showTip(p, e);
  });
  p.canvas.addEventListener("pointerleave", () => { document.getElementById("tip").style.display = "none"; });
}
if (data.slider && plans.length > 1) { // one plan at a time
  const row = document.createElement("p"), input = document.createElement("input"), out = document.createElement("output");
  Object.assign(input, { type: "range", min: 0, max: plans.length - 1, value: 0, ariaLabel: data.slider }); input.style.width = "min(40rem, 60%)";
  const choose = () => { plans.forEach((p, k) => { p.section.hidden = k !== +input.value; }); out.textContent = " " + plans[input.value].name; redraw(); };
  input.addEventListener("input", choose); row.append(data.slider + " ", input, out); document.getElementById("plans").before(row); choose();
}
document.addEventListener("keydown", e => {
  if (e.target.type === "range") return;
  const w = view[1] - view[0], middle = (view[0] + view[1]) / 2;
  const act = { "+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1.4, middle), ArrowLeft: () => move(view[0] - w / 5, w), ArrowRight: () => move(view[0] + w / 5, w), 0: () => move(whole[0], whole[1]) }[e.key];
  if (act) { act(); e.preventDefault(); }
});
const used = new Set(plans.flatMap(p => p.boxes.map(b => b.kind))), legend = document.getElementById("legend");
const entry = (text, paint) => {
  const li = document.createElement("li"), c = document.createElement("canvas"); c.width = 22; c.height = 12; paint(c.getContext("2d")); li.append(c, text); legend.append(li);
};
for (const k of Object.keys(kinds)) if (used.has(k)) entry(kinds[k][0], g => { g.fillStyle = pattern(g, k); g.fillRect(0, 0, 22, 12); });
const parts = [...new Set(plans.flatMap(p => p.memory.flatMap(m => m.parts)))];
const held = k => plans.some(p => p.memory.some(m => m.list.some(s => s.parts[k] > 0)));
parts.forEach((part, q) => held(part) && entry("memory: " + part, g => { g.fillStyle = memoryColour(part); g.fillRect(0, 0, 22, 12); }));
if (plans.some(p => p.limit && p.memory.length)) entry("memory limit", g => { g.strokeStyle = "#000"; g.lineWidth = 2; g.setLineDash([5, 3]); g.beginPath(); g.moveTo(0, 6); g.lineTo(22, 6); g.stroke(); });
window.addEventListener("resize", redraw);
redraw();
document.documentElement.dataset.ready = String(plans.reduce((n, p) => n + p.boxes.length + p.rects.length, 0));
})();
