// The page of debug/gates. It shows what the stream "events" sends: everything once, and then what has changed.
// Names, keys and texts go into the page as text alone.
"use strict";

const $ = id => document.getElementById(id);
const may = document.body.dataset.may === "yes";

const gates = new Map(); // by id: what is known of a gate, with its history and its row
const open = new Set();  // the ids of gates and keys that are unfolded
let points = 300;        // of a history
let offset = 0;          // the server's time less our own, in ms
let stream;

const serverNow = () => performance.now() + offset;

// make returns an element with a class, and with text or children.
function make(tag, name, ...inside) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  e.append(...inside); // what is no element becomes a text
  return e;
}

// write sets a text only if it differs, so that selections stay and nothing is laid out in vain.
function write(e, text) { if (e.textContent !== text) e.textContent = text; }

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const tenth = new Intl.NumberFormat("en", {maximumFractionDigits: 1});
const count = n => whole.format(n || 0);

function seconds(s) {
  if (s < 0) s = 0;
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
}

// span tells a round time.
function span(s) { return s < 90 ? tenth.format(s) + " s" : s < 5400 ? tenth.format(s / 60) + " min" : tenth.format(s / 3600) + " h"; }

// unit returns the time by which a pace is best told, by its limit.
function unit(limit) {
  if (limit >= 1 || !limit) return ["/s", 1];
  return limit >= 1 / 60 ? ["/min", 60] : ["/h", 3600];
}

// --- gates

function addGate(g, history) {
  const item = {g, v: [], l: [], t: [], row: null, seen: false, stale: true};
  const n = history ? history.n : 0;
  for (let i = 0; i < n; i++) item.v.push(history.v ? history.v[i] : 0);
  for (let i = 0, step = -1; i < n; i++) {
    while (step + 1 < history.limit.length && history.limit[step + 1][0] <= i) step++;
    item.l.push(history.limit[step][1]);
    item.t.push(false);
  }
  if (history && history.throttled) for (const i of history.throttled) item.t[i] = true;
  const li = $("gate").content.firstElementChild.cloneNode(true);
  const part = c => li.querySelector("." + c);
  item.row = {li, button: part("row"), name: part("name"), plan: part("plan"), number: part("number"), of: part("of"), held: part("held"),
    waiting: part("waiting"), more: part("more"), paths: Object.fromEntries(["area", "marks", "most", "limit", "value"].map(c => [c, part("chart").querySelector("." + c)]))};
  li.id = g.id;
  li.classList.toggle("member", !!g.parent);
  item.row.more.id = g.id + "-more";
  item.row.button.setAttribute("aria-controls", item.row.more.id);
  item.row.button.addEventListener("click", () => unfold(g.id, item.row.button, item.row.more));
  write(item.row.name, g.name);
  gates.set(g.id, item);
  watcher.observe(li);
  return li;
}

// Rows that can't be seen are not drawn.
const watcher = new IntersectionObserver(entries => {
  for (const e of entries) {
    const item = gates.get(e.target.id);
    if (!item) continue;
    item.seen = e.isIntersecting;
    if (item.seen) drawGate(item);
  }
}, {rootMargin: "200px"});

function drawGate(item) {
  const {g, row} = item;
  if (!item.stale) return;
  item.stale = false;
  write(row.name, g.name);
  write(row.plan, g.plan || "");
  row.name.title = g.name;
  const limit = g.most || g.limit;
  if (g.measure === "in use") {
    write(row.number, count(g.value));
    write(row.of, limit ? "of " + count(g.limit) + " in use" : "in use");
  } else {
    const [per, times] = unit(limit);
    write(row.number, tenth.format(g.value * times) + per);
    write(row.of, g.limit ? "of " + tenth.format(g.limit * times) + per : "");
  }
  drawChart(item);
  if (open.has(g.id)) drawFigures(row.more, g);
  countDown(item);
}

// drawChart draws the value as a line, the limit as a dashed line, and a mark for throttles.
function drawChart({v, l, t, g, row}) {
  const first = points - v.length, x = i => (first + i) / (points - 1) * 100;
  const limit = Math.max(...l, g.most || 0), most = Math.max(...v); // what is far above a limit is cut off
  const top = (limit ? Math.max(limit, Math.min(most, 2 * limit)) : most) * 1.12 || 1, y = n => 100 - Math.min(n / top, 1) * 100;
  let line = "", steps = "", marks = "";
  for (let i = 0; i < v.length; i++) {
    line += (i ? "L" : "M") + x(i).toFixed(2) + " " + y(v[i]).toFixed(1);
    if (t[i]) marks += "M" + x(i).toFixed(2) + " 0V18";
    if (!l[i]) continue;
    if (!i || !l[i - 1]) steps += "M" + x(i).toFixed(2) + " " + y(l[i]).toFixed(1);
    else if (l[i] !== l[i - 1]) steps += "H" + x(i).toFixed(2) + "V" + y(l[i]).toFixed(1);
    if (i === v.length - 1 || !l[i + 1]) steps += "H" + x(i).toFixed(2);
  }
  const path = (name, d) => row.paths[name].setAttribute("d", d);
  path("value", line);
  path("area", v.length ? line + "L100 100L" + x(0).toFixed(2) + " 100Z" : "");
  path("limit", steps);
  path("most", g.most ? "M" + x(0).toFixed(2) + " " + y(g.most).toFixed(1) + "H100" : "");
  path("marks", marks);
}

// countDown writes what changes with time alone.
function countDown({g, row}) {
  write(row.held, heldText(g));
  write(row.waiting, waitingText(g));
}

function heldText(g) {
  if (!g.held) return "";
  if (!g.heldUntil) return "held";
  const left = (Date.parse(g.heldUntil) - serverNow()) / 1000;
  return left > 0 ? "held, " + seconds(left) : "";
}

function waitingText(g) {
  if (!g.waiting) return "";
  const s = g.since ? (serverNow() - Date.parse(g.since)) / 1000 : 0;
  return count(g.waiting) + " waiting" + (s < 0.1 ? "" : ", " + seconds(s));
}

setInterval(() => {
  for (const item of gates.values()) if (item.seen && (item.g.held || item.g.waiting)) countDown(item);
  for (const k of keys.values()) if (k.g.held || k.g.waiting) write(k.state, keyState(k.g));
}, 100);

// --- what a click unfolds: the explanation, figures, and what can be done

function unfold(id, button, more) {
  const now = !open.delete(id);
  if (now) open.add(id);
  button.setAttribute("aria-expanded", now);
  more.hidden = !now;
  if (!now) return;
  if (!more.firstChild) fillMore(id, more);
  drawFigures(more, (gates.get(id) || keys.get(id)).g);
  explain(id, more);
}

function fillMore(id, more) {
  more.append($("more").content.cloneNode(true));
  const g = (gates.get(id) || keys.get(id)).g, form = more.querySelector("form"), can = g.can || [];
  if (!may || !can.length) return;
  form.hidden = false;
  for (const c of ["hold", "rate", "limit"]) form.querySelector(".can-" + c).hidden = !can.includes(c);
  form.addEventListener("submit", async e => {
    e.preventDefault();
    const change = {id, do: e.submitter.value}, says = form.querySelector("output");
    if (change.do === "hold") change.for = form.elements.for.value;
    if (change.do === "rate") change.rate = form.elements.rate.value;
    if (change.do === "limit") change.limit = Number(form.elements.limit.value);
    says.textContent = "";
    try {
      const r = await fetch("do", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(change)});
      if (!r.ok) says.textContent = await r.text();
      explain(id, more);
    } catch {
      says.textContent = "The program can't be reached.";
    }
  });
}

async function explain(id, more) {
  try {
    const r = await fetch("explain?id=" + encodeURIComponent(id));
    write(more.querySelector(".why"), (await r.text()).trimEnd());
  } catch { /* the status says it */ }
}

function drawFigures(more, g) {
  const list = more.querySelector(".figures");
  const figures = [["granted", count(g.granted)], ["refused", count(g.refused)], ["abandoned", count(g.abandoned)]];
  if (g.throttles) figures.push(["throttled", count(g.throttles)]);
  if (g.forfeited) figures.push(["tokens forfeited", count(g.forfeited)]);
  figures.push(["mean wait", seconds(g.granted ? (g.waited || 0) / g.granted : 0)]);
  if (g.inUse && g.kind !== "all") figures.push(["in use", count(g.inUse)]);
  if (g.left !== undefined) figures.push(["left", count(g.left)]);
  list.replaceChildren(...figures.map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", value))));
}

setInterval(() => {
  for (const id of open) {
    const more = $(id + "-more");
    if (more && stream && stream.readyState === EventSource.OPEN) explain(id, more);
  }
}, 1000);

// --- pipelines

function drawPipelines(all) {
  const body = $("pipelines").querySelector(".body");
  $("pipelines").hidden = !all.length;
  body.replaceChildren(...all.map(p => make("div", "pipeline", make("h3", "", p.name), make("ol", "stages", ...p.stages.map((s, i) => {
    const slowest = i === p.slowest && p.stages.length > 1;
    const workers = make("div", "workers");
    workers.setAttribute("aria-hidden", "true");
    const states = [["in flight", s.inFlight], ["at the gate", s.atGate], ["blocked", s.blocked], ["idle", s.idle]];
    for (const [name, n] of states) {
      if (!n) continue;
      const bar = make("i", {"in flight": "inflight", "at the gate": "atgate"}[name] || name);
      bar.style.flexGrow = n;
      workers.append(bar);
    }
    const says = states.filter(([, n]) => n).map(([name, n]) => count(n) + " " + name).join(", ") || "ended";
    const sink = i === p.stages.length - 1 && !s.out;
    const counts = make("p", "", count(s.in) + " in" + (sink ? "" : ", " + count(s.out) + " out"));
    if (s.errors) counts.append(", ", make("span", "bad", count(s.errors) + " errors"));
    const li = make("li", slowest ? "stage slowest" : "stage",
      make("div", "line", make("span", "name", s.name || "stage " + (i + 1)), make("span", "pace", tenth.format(s.perSecond) + "/s")),
      workers, make("p", "", says), counts);
    if (slowest) li.append(make("p", "note", "holds up the others"));
    return li;
  })))));
}

// --- keys

const keys = new Map(); // by id: the keys that are shown, with their cells

function keyState(k) { return [heldText(k), waitingText(k)].filter(Boolean).join("; "); }

function drawKeyed(all) {
  $("keyed").hidden = !all.length;
  const was = document.activeElement && document.activeElement.dataset.id;
  keys.clear();
  $("keyed").querySelector(".body").replaceChildren(...all.map(k => {
    const says = count(k.keys) + " keys, " + count(k.granted) + " granted" + (k.waiting ? ", " + count(k.waiting) + " waiting" : "") +
      (k.noRoom ? ", " + count(k.noRoom) + " without room" : "");
    const busiest = Math.max(1e-9, ...k.top.map(t => t.perSecond || 0));
    const body = make("tbody");
    for (const g of k.top) {
      const button = make("button", "key", g.key || "(empty)"), state = make("td", "", keyState(g)), bar = make("div", "bar");
      button.type = "button";
      button.dataset.id = g.id;
      button.title = g.plan || "";
      bar.style.width = (g.perSecond || 0) / busiest * 100 + "%";
      const under = make("tr", "under", make("td")), more = make("div", "more");
      under.firstChild.colSpan = 5;
      under.firstChild.append(more);
      more.id = g.id + "-more";
      under.hidden = more.hidden = !open.has(g.id);
      button.setAttribute("aria-expanded", !more.hidden);
      g.can = ["hold"];
      keys.set(g.id, {g, state});
      button.addEventListener("click", () => { under.hidden = open.has(g.id); unfold(g.id, button, more); });
      const share = make("td", "share", bar);
      body.append(make("tr", "", make("td", "", button), share, make("td", "", tenth.format(g.perSecond || 0) + "/s"), make("td", "", count(g.granted)), state), under);
      if (open.has(g.id)) { fillMore(g.id, more); drawFigures(more, g); explain(g.id, more); }
    }
    const share = make("th", "share", "Traffic");
    const head = make("tr", "", ...["Key", share, "Pace", "Granted", "State"].map(h => h instanceof Node ? h : make("th", "", h)));
    const panel = make("div", "panel scroll", make("table", "", make("thead", "", head), body));
    panel.tabIndex = 0;
    panel.setAttribute("role", "region");
    panel.setAttribute("aria-label", "Keys of " + k.name);
    return make("div", "keyed", make("h3", "", k.name, make("span", "", says)), panel);
  }));
  if (was) for (const b of document.querySelectorAll(".key")) if (b.dataset.id === was) b.focus();
}

// --- groups and policies

function drawTable(id, all, columns) {
  $(id).hidden = !all.length;
  const rows = all.map(a => make("tr", "", ...columns.map(([, f]) => make("td", "", f(a)))));
  $(id).querySelector(".body").replaceChildren(make("table", "", make("thead", "", make("tr", "", ...columns.map(([name]) => make("th", "", name)))), make("tbody", "", ...rows)));
}
const bad = n => n ? make("span", "bad", count(n)) : make("span", "none", "0");

function drawRest(m) {
  if (m.pipelines) drawPipelines(m.pipelines);
  if (m.keyed && !document.querySelector("#keyed form:focus-within")) drawKeyed(m.keyed); // what is being typed stays
  if (m.groups) drawTable("groups", m.groups, [["Name", g => g.name], ["Running", g => count(g.running) + (g.limit < 0 ? "" : " of " + count(g.limit))],
    ["At the gate", g => count(g.atGate)], ["Queued", g => count(g.queued)], ["Done", g => count(g.done) + " of " + count(g.started)],
    ["Failed", g => bad(g.failed)], ["Skipped", g => count(g.skipped)]]);
  if (m.policies) drawTable("policies", m.policies, [["Name", p => p.name], ["Calls", p => count(p.calls)], ["Failed", p => bad(p.failed)],
    ["Attempts", p => count(p.attempts)], ["Retries", p => count(p.retries)], ["Throttles", p => bad(p.throttles)], ["At the gate", p => count(p.atGate)],
    ["Asleep", p => count(p.asleep)], ["Slept", p => seconds(p.slept)], ["Budget left", p => p.budget === undefined ? "none set" : count(p.budget)]]);
}

// --- what is shown of it

function filter() {
  const find = $("find").value.trim().toLowerCase(), busy = $("busy").checked;
  let shown = 0;
  for (const {g, row} of gates.values()) {
    const hit = (!find || g.name.toLowerCase().includes(find)) && (!busy || g.value || g.waiting || g.held);
    row.li.hidden = !hit;
    if (hit) shown++;
  }
  write($("gates").querySelector(".count"), shown === gates.size ? count(shown) : count(shown) + " of " + count(gates.size));
  $("gates").hidden = !gates.size;
}
$("find").addEventListener("input", filter);
$("busy").addEventListener("change", filter);

// --- the stream

function takeTime(m) { offset = Date.parse(m.at) - performance.now(); }

function onState(e) {
  const m = JSON.parse(e.data);
  takeTime(m);
  points = m.points;
  write($("span"), "last " + span(points * m.every));
  const old = gates.size ? open : new Set();
  watcher.disconnect();
  gates.clear();
  const rows = document.createDocumentFragment();
  for (const g of m.gates) rows.append(addGate(g, m.history[g.id]));
  $("gates").querySelector(".body").replaceChildren(rows);
  drawRest(m);
  filter();
  for (const id of old) {
    const item = gates.get(id);
    if (!item) continue;
    open.delete(id);
    unfold(id, item.row.button, item.row.more);
  }
  performance.mark("rows");
  $("nothing").hidden = m.gates.length + m.keyed.length + m.groups.length + m.pipelines.length + m.policies.length > 0;
  live();
}

// A "tick" adds a point to each history. A "look" comes between two ticks.
function onChange(e) {
  const began = performance.now();
  const m = JSON.parse(e.data), tick = e.type === "tick";
  takeTime(m);
  for (const g of m.gates) {
    const item = gates.get(g.id);
    if (item) { item.g = g; item.stale = true; }
  }
  for (const item of gates.values()) {
    if (tick) {
      item.v.push(item.g.value);
      item.l.push(item.g.limit || 0);
      item.t.push(!!item.g.throttled);
      if (item.v.length > points) { item.v.shift(); item.l.shift(); item.t.shift(); }
      item.stale = true;
    }
    if (item.seen) drawGate(item);
  }
  drawRest(m);
  if ($("busy").checked) filter();
  live();
  performance.clearMeasures("update");
  performance.measure("update", {start: began});
}

function live() {
  $("status").dataset.state = "live";
  write($("status"), "live");
}

function connect() {
  stream = new EventSource("events");
  stream.addEventListener("state", onState);
  stream.addEventListener("tick", onChange);
  stream.addEventListener("look", onChange);
  stream.addEventListener("error", () => {
    $("status").dataset.state = "lost";
    write($("status"), stream.readyState === EventSource.CLOSED ? "closed, reload the page" : "lost, trying again");
  });
}

// A page that no person sees costs the program nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stream.close();
  else if (stream.readyState === EventSource.CLOSED) connect();
});
connect();
