"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs, problems = data.problems;
  const total = (runs.p || []).length;
  // Okabe and Ito's, the darkest left out on a dark page.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colours = dark.matches ? ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#f0e442", "#b0b0b0"]
    : ["#0072b2", "#d55e00", "#009e73", "#c0699a", "#b87d00", "#3f8fca", "#606060"];
  dark.addEventListener("change", () => location.reload()); // drawings do not change by themselves
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

  // make(tag, attributes, children…): attributes that are functions are listeners.
  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes || {})) {
      if (typeof v === "function") e.addEventListener(k, v);
      else if (v !== undefined && v !== null) e.setAttribute(k, v);
    }
    e.append(...children);
    return e;
  }

  function scaled(x, units) {
    for (const [name, size] of units) if (Math.abs(x) >= size * 0.9999995) return +(x / size).toPrecision(5) + " " + name;
    return x === 0 ? "0 " + units[0][0] : +(x / units.at(-1)[1]).toPrecision(5) + " " + units.at(-1)[0];
  }
  const seconds = x => x == null ? "–" : scaled(x, [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]);
  const bytes = x => x == null ? "–" : scaled(x, [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]]);
  const percent = x => x == null ? "–" : (100 * x).toFixed(3) + " %";

  // ---- Tables -------------------------------------------------------------

  // compare sorts numbers by size and words by letters; what is missing is last.
  function compare(a, b, way) {
    const none = x => x === null || x === undefined || x === "";
    if (none(a) || none(b)) return none(a) - none(b);
    const c = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
    return way * c;
  }

  // order is the button in the head of a column by which it is sorted, so that keys reach
  // it; sorted says to eyes and ears which column the rows are sorted by, and which way.
  const order = (name, click) => make("button", {type: "button", click}, name);
  function sorted(heads, by, way) {
    heads.forEach((h, k) => k === by ? h.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : h.removeAttribute("aria-sort"));
  }

  // Tables that are in the page already sort by data-v, or by their words.
  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((th, k) => th.replaceChildren(order(th.textContent, () => {
      const way = th.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      sorted(heads, k, way);
      const key = row => {
        const v = row.cells[k].dataset.v;
        return v === undefined ? row.cells[k].textContent : v === "" ? null : +v;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b), way)));
    })));
    if (table.tBodies[0].rows.length < 8) return;
    const count = make("span", {class: "count"});
    const find = make("input", {type: "search", placeholder: "filter", "aria-label": "filter the table", input() {
      const words = find.value.toLowerCase().split(/\s+/);
      let n = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(w => text.includes(w));
        if (!row.hidden) n++;
      }
      count.textContent = n + " of " + table.tBodies[0].rows.length;
    }});
    table.parentElement.before(make("div", {class: "filter"}, find, count));
  }

  // paged is a table over numbers 0 to n−1, of which it shows a page at a time.
  // columns: {name, n: right-aligned, key(i): to sort by, cell(i): text or nodes}.
  function paged(parent, columns, size) {
    let list = [], page = 0, by = -1, way = 1;
    const body = make("tbody"), heads = columns.map((c, k) => make("th", {class: c.n ? "n" : "", title: c.title}, order(c.name, () => {
      way = by === k ? -way : 1;
      by = k;
      sorted(heads, by, way);
      sort();
      page = 0;
      draw();
    })));
    const where = make("span", {class: "count"});
    const back = make("button", {type: "button", click() { page--; draw(); }}, "back");
    const next = make("button", {type: "button", click() { page++; draw(); }}, "next");
    parent.append(make("div", {class: "scroll"}, make("table", null, make("thead", null, make("tr", null, ...heads)), body)), make("div", {class: "pager"}, back, next, where));
    function sort() {
      if (by < 0) return;
      const keys = new Map(list.map(i => [i, columns[by].key(i)]));
      list.sort((a, b) => compare(keys.get(a), keys.get(b), way) || a - b);
    }
    function draw() {
      const rows = list.slice(page * size, (page + 1) * size).map(i => make("tr", null, ...columns.map(c => {
        const cell = c.cell(i), bad = c.bad && c.bad(i);
        return make("td", {class: (c.n ? "n " : "") + (c.long ? "long " : "") + (c.wraps ? "wraps " : "") + (bad ? "bad" : "")}, cell == null ? "–" : cell);
      })));
      body.replaceChildren(...rows);
      where.textContent = list.length === 0 ? "none" : (page * size + 1) + " to " + Math.min(list.length, (page + 1) * size) + " of " + list.length;
      const here = document.activeElement;
      back.disabled = page === 0;
      next.disabled = (page + 1) * size >= list.length;
      if (here === next && next.disabled) back.focus(); // or keys would begin at the top of the page again
      if (here === back && back.disabled) next.focus();
    }
    // show takes the numbers, and the name of a column to sort by, with - for the largest first.
    return {show(numbers, sorting) {
      list = numbers;
      page = 0;
      if (sorting) {
        by = columns.findIndex(c => c.name === sorting.replace(/^-/, ""));
        way = sorting.startsWith("-") ? -1 : 1;
        sorted(heads, by, way);
      }
      sort();
      draw();
    }};
  }

  const link = (i, ...children) => make("a", {href: "#run=" + i}, ...children);
  const problem = i => problems[runs.p[i]], method = i => problem(i).methods[runs.m[i]], kase = i => problem(i).cases[runs.c[i]];

  // ---- All runs -----------------------------------------------------------

  const runColumns = [
    {name: "problem", key: i => problem(i).name, cell: i => problem(i).name},
    {name: "instance", key: i => kase(i).i, cell: i => kase(i).i},
    {name: "limits", wraps: 1, key: i => kase(i).m, cell: i => kase(i).l},
    {name: "method", key: method, cell: method},
    {name: "seed", n: 1, key: i => runs.s[i], cell: i => runs.s[i]},
    {name: "rep.", n: 1, key: i => runs.n[i], cell: i => runs.n[i]},
    {name: "outcome", key: i => runs.o[i], cell: i => link(i, runs.o[i]), bad: i => runs.fl[i] === 1},
    {name: "objective", n: 1, key: i => runs.v[i], cell: i => link(i, seconds(runs.v[i]))},
    {name: "bound", n: 1, key: i => runs.b[i], cell: i => link(i, seconds(runs.b[i]))},
    {name: "proof", key: i => runs.pf[i], cell: i => runs.pf[i] || "–"},
    {name: "claimed", n: 1, title: "what a solver claims and nobody checked", key: i => runs.cl[i], cell: i => seconds(runs.cl[i])},
    {name: "gap", n: 1, key: i => runs.g[i], cell: i => link(i, percent(runs.g[i]))},
    {name: "time", n: 1, key: i => runs.t[i], cell: i => link(i, (runs.st[i] && !runs.fl[i] ? "> " : "") + seconds(runs.t[i]))},
    {name: "peak memory", n: 1, key: i => runs.pk[i], cell: i => memory(i)},
    {name: "detail", long: 1, key: i => runs.d[i], cell: i => runs.d[i].length > 160 ? runs.d[i].slice(0, 160) + "…" : runs.d[i]},
  ];
  const memory = i => runs.pk[i] == null ? "–" : / slots/.test(kase(i).l) ? runs.pk[i] + " slots" : bytes(runs.pk[i]);

  const kinds = {
    plan: ["with a plan", i => runs.v[i] != null], proved: ["proved", i => runs.pr[i]],
    stopped: ["stopped by the limit", i => runs.st[i] && !runs.fl[i]], none: ["without a plan", i => runs.fl[i] === 2], failed: ["failed", i => runs.fl[i] === 1],
    won: ["with the best plan of the case", i => runs.win[i]],
    certified: ["with a certified bound", i => runs.pf[i] === "certified"],
    searched: ["with a bound by a search", i => runs.pf[i] === "search"],
    claimed: ["with an unchecked claim", i => runs.cl[i] != null],
  };

  const filter = document.getElementById("runs-filter");
  const options = pairs => pairs.map(([v, t]) => make("option", {value: v}, t));
  const pick = {
    p: make("select", {"aria-label": "problem", change() { pick.m.value = ""; go(); }}, ...options([["", "all problems"], ...problems.map((p, k) => [k, p.name])])),
    m: make("select", {"aria-label": "method", change: () => go()}),
    w: make("select", {"aria-label": "kind of outcome", change: () => go()}, ...options([["", "all outcomes"], ...Object.entries(kinds).map(([k, v]) => [k, v[0]])])),
    o: make("select", {"aria-label": "outcome", change: () => go()}, ...options([["", "any word"], ...[...new Set(runs.o || [])].sort().map(o => [o, o])])),
    c: make("input", {type: "hidden"}),
    q: make("input", {type: "search", placeholder: "instance, limits, method, detail", "aria-label": "search", change: () => go()}),
  };
  const found = make("span", {class: "count"});
  filter.append(pick.p, pick.m, pick.w, pick.o, pick.q, make("button", {type: "button", click() { location.hash = "#runs"; }}, "all"), found);
  const table = paged(document.getElementById("runs-table"), runColumns, 100);

  function methodsOf(p) {
    const of = p === "" ? [] : problems[p].methods.map((m, k) => [k, m]);
    pick.m.replaceChildren(...options([["", p === "" ? "all methods (pick a problem)" : "all methods"], ...of]));
  }

  // go writes the filters into the address, from which they are read.
  function go() {
    const q = new URLSearchParams();
    for (const [k, e] of Object.entries(pick)) if (e.value !== "" && !(k === "m" && pick.p.value === "")) q.set(k, e.value);
    const s = q.toString();
    location.hash = "#runs" + (s ? "?" + s : "");
  }

  function showRuns(text) {
    const q = new URLSearchParams(text), known = k => q.get(k) || "";
    pick.p.value = problems[known("p")] ? known("p") : "";
    methodsOf(pick.p.value);
    for (const k of ["m", "w", "o", "c", "q"]) pick[k].value = known(k);
    const words = pick.q.value.toLowerCase().split(/\s+/).filter(w => w);
    const want = {p: pick.p.value, m: pick.m.value, o: pick.o.value, c: pick.c.value, w: kinds[pick.w.value]};
    const list = [];
    for (let i = 0; i < total; i++) {
      if (want.p !== "" && runs.p[i] !== +want.p || want.m !== "" && runs.m[i] !== +want.m || want.c !== "" && runs.c[i] !== +want.c) continue;
      if (want.o !== "" && runs.o[i] !== want.o || want.w && !want.w[1](i)) continue;
      if (words.length) {
        const text = [problem(i).name, kase(i).i, kase(i).l, method(i), runs.o[i], runs.d[i]].join(" ").toLowerCase();
        if (!words.every(w => text.includes(w))) continue;
      }
      list.push(i);
    }
    found.textContent = list.length + " of " + total + (want.c !== "" ? ", of one case" : "");
    table.show(list, known("s"));
  }

  // ---- One run ------------------------------------------------------------

  const dialog = document.getElementById("detail");
  // The address without the run: where the reader was before, without moving there.
  let before = "#";
  const leave = () => { if (location.hash.startsWith("#run=")) history.replaceState(null, "", before); };
  dialog.addEventListener("close", leave); // by the Escape key, too
  function showRun(i) {
    if (!(i >= 0 && i < total)) return;
    const facts = [
      ["instance", kase(i).i], ["limits", kase(i).l], ["outcome", runs.o[i]], ["objective", seconds(runs.v[i])],
      ["bound", seconds(runs.b[i]) + (runs.by[i] ? ", by " + runs.by[i] : "") + (runs.pf[i] ? " (" + runs.pf[i] + ")" : "")],
      ["claimed, unchecked", seconds(runs.cl[i])], ["ended", runs.en[i] || "–"],
      ["best bound", kase(i).r < 0 ? "none" : make("span", null, seconds(kase(i).b) + " ", link(kase(i).r, "by " + runs.by[kase(i).r]))],
      ["gap to the best", percent(runs.g[i])], ["time", seconds(runs.t[i]) + (runs.st[i] && !runs.fl[i] ? " until it was stopped" : "")],
      ["processor time", seconds(runs.cpu[i])], ["peak memory of the plan", memory(i)],
      ["memory of the process", runs.rss[i] ? bytes(runs.rss[i]) : "–"], ["seed, repetition", runs.s[i] + ", " + runs.n[i]],
      ["detail", runs.d[i] || "–"], ["task", runs.id[i]],
    ];
    const copied = make("span", {class: "count"});
    const command = make("pre", {class: "command"}, runs.cmd[i]);
    dialog.replaceChildren(
      make("h3", null, problem(i).name + ": " + method(i)),
      make("dl", null, ...facts.flatMap(([k, v]) => [make("dt", null, k), make("dd", null, v)])),
      make("p", null, "Again, in the folder of the specification:"), command,
      make("div", {class: "filter"},
        make("button", {type: "button", click() {
          getSelection().selectAllChildren(command);
          copied.textContent = document.execCommand("copy") ? "copied" : "select and copy by hand";
        }}, "copy"),
        make("a", {href: "#runs?p=" + runs.p[i] + "&c=" + runs.c[i]}, "all runs of this case"),
        make("button", {type: "button", autofocus: "", click() { dialog.close(); leave(); }}, "close"), copied));
    if (!dialog.open) dialog.showModal();
  }

  // ---- Figures ------------------------------------------------------------

  const charts = [];

  // aligned puts series on the x of all, as uPlot wants them.
  function aligned(series) {
    const x = [...new Set(series.flatMap(s => s.x))].sort((a, b) => a - b);
    const last = x.at(-1);
    return [x, ...series.map(s => {
      const at = new Map(s.x.map((v, k) => [v, s.y[k]]));
      if (s.steps === 0 || s.runs && s.steps === 1) return x.map(v => at.has(v) ? at.get(v) : undefined);
      if (s.steps === -1) { // holds up to its x
        let k = 0;
        return x.map(v => { while (k < s.x.length && s.x[k] < v) k++; return k < s.x.length ? s.y[k] : null; });
      }
      let y = 0; // nothing before its first
      return x.map(v => { if (at.has(v)) y = at.get(v); return v > last ? null : y; });
    })];
  }

  // under counts for each column how many later ones lie on it, at a quarter of the places or more:
  // its line is that much wider, so that both show.
  function under(columns) {
    return columns.map((a, i) => columns.slice(i + 1).filter(b => {
      const both = a.map((y, k) => [y, b[k]]).filter(([y, z]) => y != null && z != null);
      return both.length && 4 * both.filter(([y, z]) => Math.abs(y - z) <= 1e-3 * Math.max(Math.abs(y), Math.abs(z))).length >= both.length;
    }).length);
  }

  function chart(parent, f, open, small) {
    const holder = make("div", {class: "chart"}, make("h4", null, f.title));
    parent.append(holder);
    // One that has no point is drawn as what it is: no case solved.
    const points = f.series.filter(s => s.x.length || s.steps === 1);
    if (!points.some(s => s.x.length)) { holder.append(make("p", null, "Nothing to draw.")); return; }
    const values = points.flatMap(s => s.x), most = Math.max(...values), log = f.log && most > 3;
    if (f.y.endsWith("(%)") && most === Math.min(...values)) { // one point a curve is no curve
      holder.append(make("p", null, f.x.replace(/ *\(.*/, "") + " " + most + ": " + points.map(s => s.name + " " + +(s.y.at(-1) || 0).toPrecision(3) + " %").join(", ") + "."));
      return;
    }
    const columns = aligned(points), hidden = under(columns.slice(1).map((c, k) => points[k].style < 0 ? [] : c));
    const axis = {stroke: colour("--ink"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line"), width: 1}};
    const digits = v => v == null ? "–" : String(+v.toPrecision(5));
    const options = {
      width: 400, height: 300, cursor: {y: false, focus: {prox: 24}}, focus: {alpha: 0.35},
      legend: {live: !small, markers: {dash: (u, k) => ["solid", "dashed", "dotted", "double"][Math.floor(Math.max(0, k && points[k - 1].style) / colours.length) % dashes.length]}},
      scales: {x: {time: false, distr: log ? 3 : 1, log: 10}, y: {range: (u, low, high) => f.y.endsWith("(%)") ? [0, 101] : [low - 0.05 * (high - low || high || 1), high + 0.05 * (high - low || high || 1)]}},
      axes: [{...axis, label: f.x, labelSize: 22, size: 36, values: (u, vs) => vs.map(v => v == null ? "" : digits(v))}, {...axis, label: f.y, labelSize: 22, size: 52}],
      series: [{label: f.x.replace(/ *\(.*/, ""), value: (u, v) => digits(v)}, ...points.map((s, k) => {
        return {
          label: s.name, stroke: s.style < 0 ? "#999" : colours[s.style % colours.length], width: 1.8 + 2.2 * Math.min(2, hidden[k]), dash: s.style < 0 ? [] : dashes[Math.floor(s.style / colours.length) % dashes.length],
          fill: s.style < 0 ? "rgba(128,128,128,0.16)" : undefined, value: (u, v) => digits(v), spanGaps: s.steps === 0,
          paths: s.steps === 0 ? undefined : uPlot.paths.stepped({align: s.steps}), points: {show: s.steps === 0 || s.runs && s.steps === 1, size: 6},
        };
      })],
    };
    const u = new uPlot(options, columns, holder);
    if (open) u.over.addEventListener("click", () => {
      const k = u.cursor.idx, nearest = points.map((s, n) => [s, columns[n + 1][k]]).filter(([s, y]) => y != null && s.runs)
        .sort((a, b) => Math.abs(u.valToPos(a[1], "y") - u.cursor.top) - Math.abs(u.valToPos(b[1], "y") - u.cursor.top))[0];
      if (!nearest) return;
      const run = nearest[0].runs[nearest[0].x.indexOf(columns[0][k])];
      if (run >= 0) location.hash = "#run=" + run;
    });
    // The legend shows and hides curves by a click, and by keys.
    for (const name of [...u.root.querySelectorAll(".u-series > th")].slice(1)) {
      name.tabIndex = 0;
      name.setAttribute("role", "button");
      name.addEventListener("keydown", e => {
        if (e.key !== "Enter" && e.key !== " ") return;
        e.preventDefault();
        name.click();
      });
    }
    charts.push([u, holder, small]);
    fit();
  }

  function fit() {
    for (const [u, holder, small] of charts) {
      const width = Math.min(holder.clientWidth, 900);
      if (holder.isConnected && width > 0 && Math.abs(u.width - width) > 1) u.setSize({width, height: small ? 150 : Math.max(220, Math.min(360, width * 0.62))});
    }
  }
  addEventListener("resize", fit);
  // Paper has two columns of figures, whatever the window's width.
  addEventListener("beforeprint", () => { for (const [u] of charts) u.setSize({width: 490, height: 240}); });
  addEventListener("afterprint", fit);

  for (const e of document.querySelectorAll(".grid")) for (const p of problems) chart(e, p.small, false, true);
  for (const e of document.querySelectorAll(".figures")) for (const f of problems[e.dataset.problem].figures) chart(e, f, false);
  for (const e of document.querySelectorAll(".tradeoff")) {
    const all = problems[e.dataset.problem].tradeoffs, place = make("div");
    const choose = make("select", {"aria-label": "instance", change: () => { place.replaceChildren(); chart(place, all[choose.value], true); }}, ...options(all.map((t, k) => [k, t.title])));
    e.append(make("div", {class: "filter"}, choose, make("span", {class: "count"}, "a click on a point shows its run")), place);
    chart(place, all[0], true);
  }

  // ---- Cases --------------------------------------------------------------

  for (const e of document.querySelectorAll(".cases")) {
    const p = problems[e.dataset.problem], n = e.dataset.problem;
    const columns = [
      {name: "instance", key: k => p.cases[k].i, cell: k => make("a", {href: "#runs?p=" + n + "&c=" + k}, p.cases[k].i)},
      {name: "limits", wraps: 1, key: k => p.cases[k].m, cell: k => p.cases[k].l},
      {name: "best bound", n: 1, key: k => p.cases[k].b, cell: k => p.cases[k].r < 0 ? "–" : link(p.cases[k].r, seconds(p.cases[k].b))},
      ...p.methods.map((m, k) => ({
        name: m, n: 1,
        key: c => p.cases[c].g[k] != null ? p.cases[c].g[k] : p.cases[c].f[k] < 0 ? null : p.cases[c].o[k],
        cell: c => { const x = p.cases[c], text = x.g[k] != null ? percent(x.g[k]) : x.o[k] || "–"; return x.f[k] < 0 ? text : link(x.f[k], text); },
        bad: c => p.cases[c].g[k] == null && !["", "optimal", "infeasible", "feasible", "limit", "no-plan"].includes(p.cases[c].o[k]),
      })),
    ];
    const count = make("span", {class: "count"});
    const find = make("input", {type: "search", placeholder: "instance, limits", "aria-label": "filter cases", input: () => show()});
    e.append(make("div", {class: "filter"}, find, count));
    const list = paged(e, columns, 25);
    const show = () => {
      const words = find.value.toLowerCase().split(/\s+/);
      const some = p.cases.map((c, k) => k).filter(k => words.every(w => (p.cases[k].i + " " + p.cases[k].l + " " + p.cases[k].o.join(" ")).toLowerCase().includes(w)));
      count.textContent = some.length + " of " + p.cases.length;
      list.show(some);
    };
    show();
  }
  document.querySelectorAll("table.sortable").forEach(sortable);

  // ---- The address --------------------------------------------------------

  function route() {
    const h = location.hash;
    if (h.startsWith("#run=")) {
      showRun(+h.slice(5));
      return;
    }
    before = h || "#";
    if (dialog.open) dialog.close();
    if (h.startsWith("#runs")) {
      showRuns(h.slice(6));
      document.getElementById("runs").scrollIntoView();
    }
  }
  addEventListener("hashchange", route);
  showRuns("");
  route();
  fit();
  document.documentElement.dataset.ready = "yes";
})();
