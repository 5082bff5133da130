// The page at '/' of a server: try a model, see what it says and why, its card, and how the server is doing.
// All text that comes from models, people or the server is set as text, never as markup.
import { Refused, metrics, models, predict, set_token } from "./api.js";
import { bytes, count, draw, element, facts, shape, tiles } from "./chart.js";
import { Picture } from "./picture.js";

const by = (id) => document.getElementById(id);
const EXPLAIN = 8; // reasons that are shown for a label
const PIECES = 100; // asked for of a text, whose words may be features many times over, piece by piece
let all = [], model = null, explains = true, turn = 0;
const picture = new Picture((trouble) => {
  tell_trouble(trouble);
  if (!trouble) ask();
});

function tell_trouble(words) {
  by("trouble").hidden = !words;
  by("trouble").textContent = words;
}

// ---- a question ----

// Lines "name: value"; the last colon with a number behind it divides them.
function read_features(text) {
  const features = {};
  for (const line of text.split(/[\n,]/).map((s) => s.trim()).filter(Boolean)) {
    const found = /^(.*\S)\s*[:=]\s*([-+\d.eE]+)$/.exec(line);
    const value = found ? Number(found[2]) : 1;
    const name = found && Number.isFinite(value) ? found[1] : line;
    features[name] = (features[name] || 0) + (Number.isFinite(value) ? value : 1);
  }
  return features;
}

// One row of what stands in the form; null: nothing yet.
function row() {
  if (model.reads === "text") return by("text").value.trim() ? { text: by("text").value } : null;
  if (model.reads === "image") return picture.pixels ? { pixels: picture.pixels } : null;
  const features = read_features(by("features").value);
  return Object.keys(features).length ? { features } : null;
}

async function put_question(rows) {
  const question = { model: model.name, rows, k: Math.min(50, Math.max(1, Number(by("k").value) || 5)) };
  if (model.sparse) question.inference = by("inference").value;
  if (explains) {
    try {
      return await predict({ ...question, explain: model.reads === "text" ? PIECES : EXPLAIN });
    } catch (e) {
      if (!(e instanceof Refused) || e.status < 400 || e.status === 401 || !/explain/.test(e.message)) throw e;
      explains = false; // this server, or this model, has no reasons
    }
  }
  return predict(question);
}

async function ask() {
  const one = row(), mine = ++turn;
  tell_trouble("");
  if (!one) return show_labels([], "");
  try {
    const answer = await put_question([one]);
    if (mine !== turn) return; // another question has been put meanwhile
    const unknown = answer.unknown ? `${answer.unknown} feature${answer.unknown === 1 ? " is" : "s are"} not known to the model.` : "";
    show_labels(answer.rows[0].labels, unknown);
  } catch (e) {
    if (mine === turn) trouble(e);
  }
}

function trouble(e) {
  if (!(e instanceof Refused)) throw e;
  if (e.status === 401) {
    by("unlock").hidden = false;
    by("work").hidden = by("live").hidden = true;
    by("what").textContent = "Locked.";
    by("token").focus();
    return;
  }
  tell_trouble(e.message);
}

// ---- an answer ----

// Pieces of words ("~<brea" begins one, "~read>" ends one) are added up by the words of the text that they are of.
function by_words(why, text) {
  const words = [...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || [])], sums = new Map();
  const add = (name, part) => sums.set(name, (sums.get(name) || 0) + part);
  for (const { feature, part } of why) {
    const of = feature.startsWith("~") ? words.filter((w) => `<${w}>`.includes(feature.slice(1))) : [];
    for (const w of of) add(w, part / of.length);
    if (of.length === 0) add(feature, part);
  }
  return [...sums].map(([feature, part]) => ({ feature, part })).sort((a, b) => Math.abs(b.part) - Math.abs(a.part));
}

function reasons(why) {
  const list = element("ul", { class: "why", "aria-label": "Because of" });
  for (const r of (model.reads === "text" ? by_words(why, by("text").value) : why).slice(0, EXPLAIN)) {
    const part = Number(r.part);
    list.append(element("li", { class: part < 0 ? "against" : "for" },
      String(r.feature), element("span", {}, ` ${part < 0 ? "−" : "+"}${Math.abs(part).toPrecision(2)}`)));
  }
  return list;
}

// The picture that the model got, with pixels that speak for a label in one colour and those against it in another.
function pixels(parts) {
  const [channels, high, wide] = model.shape, n = wide * high;
  const canvas = element("canvas", { class: "parts", width: wide, height: high, role: "img", "aria-label": "Pixels that count for this label" });
  const g = canvas.getContext("2d"), image = g.createImageData(wide, high);
  const sums = Array.from({ length: n }, (_, i) => { let t = 0; for (let c = 0; c < channels; c++) t += parts[c * n + i]; return t; });
  const most = Math.max(1e-9, ...sums.map(Math.abs));
  sums.forEach((v, i) => image.data.set([...(v < 0 ? [222, 120, 30] : [40, 170, 150]), Math.round(255 * Math.sqrt(Math.abs(v) / most))], 4 * i));
  g.putImageData(image, 0, 0);
  return canvas;
}

function show_labels(labels, note) {
  by("nothing").hidden = labels.length > 0;
  by("key").hidden = !labels.some((l) => l.parts || l.why);
  by("note").textContent = note;
  by("labels").replaceChildren(...labels.map((l) => {
    const percent = `${(100 * l.score).toFixed(1)} %`;
    const item = element("li", {}, element("span", { class: "name" }, l.label), element("span", { class: "value" }, percent),
      shape("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        shape("rect", { width: (100 * Math.max(0, Math.min(1, l.score))).toFixed(1), height: 8 })));
    if (Array.isArray(l.why) && l.why.length) item.append(reasons(l.why));
    if (Array.isArray(l.parts) && model.shape && l.score >= 0.01) item.append(pixels(l.parts));
    return item;
  }));
  by("status").textContent = labels.length
    ? `${labels.length} labels. The first is ${labels[0].label}, ${(100 * labels[0].score).toFixed(0)} percent.` : "";
}

// ---- models ----

function choose(name) {
  model = all.find((m) => m.name === name) || all[0];
  explains = true;
  by("title").textContent = model.name;
  document.title = `${model.name} · Try the model`;
  const reads = { text: "Reads text", features: `Reads ${count(model.features || 0)} features`, image: "Reads pictures" }[model.reads];
  by("what").textContent = model.ready
    ? `${reads} and knows ${count(model.labels)} labels. Version ${model.version}.` : "Not ready: its file could not be loaded.";
  for (const kind of ["text", "features", "image"]) by(`of-${kind}`).hidden = model.reads !== kind;
  by("of-sparse").hidden = !model.sparse;
  if (model.reads === "image") picture.set(model.shape);
  const { tensors, options, ...about } = model.about || {};
  facts(by("card"), { ...about, file: bytes(model.bytes || 0) });
  show_labels([], "");
  ask();
}

async function begin() {
  try {
    all = await models();
  } catch (e) {
    return trouble(e);
  }
  by("unlock").hidden = true;
  by("work").hidden = by("live").hidden = false;
  by("choose").hidden = all.length < 2;
  by("model").replaceChildren(...all.map((m) => element("option", { value: m.name }, m.name)));
  choose(all[0].name);
  watch_server();
}

// ---- the server ----

const rates = []; // [seconds, requests per second]
let before = null, began = 0, watching = false;

const sum = (list, name, keep = () => true) => list.reduce((s, m) => s + (m.name === name && keep(m.labels) ? m.value : 0), 0);

// A time within which half of the predictions were answered: a bound of the histogram.
function median(list) {
  const buckets = new Map();
  for (const m of list)
    if (m.name === "wisp_request_seconds_bucket" && m.labels.route === "/predict")
      buckets.set(Number(m.labels.le.replace("+Inf", "Infinity")), m.value);
  const sorted = [...buckets].sort((a, b) => a[0] - b[0]), n = sorted.length ? sorted.at(-1)[1] : 0;
  const found = n ? sorted.find(([, k]) => 2 * k >= n)[0] : 0;
  return found && Number.isFinite(found) ? `${Number((1000 * found).toPrecision(2))} ms` : "";
}

function show_server(list, now) {
  const requests = sum(list, "wisp_requests_total"), errors = sum(list, "wisp_requests_total", (l) => Number(l.code) >= 500);
  if (before) rates.push([(now - began) / 1000, Math.max(0, (requests - before[1]) / ((now - before[0]) / 1000))]);
  else began = now;
  before = [now, requests];
  if (rates.length > 150) rates.shift();
  tiles(by("tiles"), [
    ["Requests", count(requests), ""],
    ["Requests per second", rates.length ? count(rates.at(-1)[1]) : "", ""],
    ["Median latency", median(list), "or less"],
    ["Rows predicted", count(sum(list, "wisp_model_rows_total")), ""],
    ["Failed", count(errors), ""],
    ["Rows waiting", count(sum(list, "wisp_queue_rows")), ""],
    ["Connections", count(sum(list, "wisp_connections")), ""],
    ["Model version", count(sum(list, "wisp_model_version", (l) => l.model === model.name)), ""],
  ]);
  draw(by("rate"), { title: "Requests per second", note: "since this page was opened; it asks itself every two seconds", x: "seconds", whole: false,
    curves: [{ name: "all requests", colour: 0, points: rates.length > 4 ? rates : [] }] });
}

async function watch_server() {
  if (watching) return;
  watching = true;
  for (;;) {
    try {
      if (!document.hidden) show_server(await metrics(), performance.now());
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      if (e.status === 401) break;
    }
    await new Promise((done) => setTimeout(done, 2000));
  }
  watching = false;
}

// ---- what people do ----

let pause = 0;
const soon = () => {
  clearTimeout(pause);
  pause = setTimeout(ask, 400);
};
for (const id of ["text", "features", "k"]) by(id).addEventListener("input", soon);
for (const id of ["text", "features"])
  by(id).addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) ask();
  });
by("inference").addEventListener("change", ask);
by("model").addEventListener("change", () => choose(by("model").value));
by("ask").addEventListener("submit", (e) => {
  e.preventDefault();
  clearTimeout(pause);
  ask();
});
by("clear").addEventListener("click", () => {
  by("text").value = by("features").value = "";
  picture.clear();
  show_labels([], "");
  turn++;
  tell_trouble("");
});
by("unlock").addEventListener("submit", (e) => {
  e.preventDefault();
  set_token(by("token").value);
  begin();
});
begin();
