// The live page of a training run: asks for its state once a second and draws it.  When the run has ended the server
// goes away; what was last known stays on the page.
import { bars, bytes, count, draw, facts, tiles, time } from "./chart.js";

const by = (id) => document.getElementById(id);
const epochs = []; // lines of the log, all that there were
let last = null; // the state that came last
let lost = 0; // questions without an answer
let said = ""; // what the line of state says

// Of a log with several runs ('wisp prune') the last one.
function current() {
  let first = 0;
  epochs.forEach((e, i) => { if (e.epoch === 1) first = i; });
  return epochs.slice(first);
}

function column(lines, key, colour = 0, name = "this run", times = 1) {
  return { name, colour, points: lines.map((e) => [e.epoch, e[key] >= 0 ? times * e[key] : NaN]) };
}

// A screen reader hears it when it changes, not once a second.
function say(words, kind) {
  by("dot").className = `dot ${kind}`;
  if (words !== said) by("state").textContent = said = words;
}

function show_state(s) {
  const n = s.now;
  if (s.state !== "training") return say(s.words || "The run has ended.", s.state);
  if (!n) return say("Reading data", "busy");
  say(`Training, epoch ${n.epoch} of ${n.epochs}`, "busy");
}

function show_progress(s) {
  const n = s.now;
  if (!n) return;
  let share = (n.epoch - 1 + (n.n_rows ? n.rows_done / n.n_rows : 0)) / n.epochs;
  if (s.state === "ended") share = 1;
  by("done").setAttribute("width", (100 * share).toFixed(2));
  by("progress").setAttribute("aria-valuenow", Math.floor(100 * share));
  document.title = `${Math.floor(100 * share)} % · ${by("title").textContent}`;
}

function show_tiles(s, lines) {
  const n = s.now, end = lines.at(-1), best = lines.filter((e) => e.best).at(-1);
  if (!n) return;
  const training = s.state === "training", judged = best && best["valid_p@1"] >= 0;
  tiles(by("tiles"), [
    ["Time left", training ? time(n.eta_s) : "none", ""],
    ["Epoch", n.epoch, `of ${n.epochs}`],
    ["Training loss", n.loss.toPrecision(4), ""],
    ["P@1", judged ? best["valid_p@1"].toFixed(2) : "", judged ? `%, epoch ${best.epoch}` : ""],
    ["P@5", judged ? best["valid_p@5"].toFixed(2) : "", "%"],
    ["Validation loss", judged ? best.valid_loss.toPrecision(4) : "", ""],
    ["Rows per second", count(n.rows_per_s), ""],
    ["Rows scored", n.sampled ? count(n.scored) : "all", s.run && s.run.labels ? `of ${count(s.run.labels)}` : ""],
    ["Recall", n.sampled && end ? (100 * end.retrieval_recall).toFixed(1) : "", "%"],
    ["Peak memory", end && end.peak_bytes ? bytes(end.peak_bytes) : "", ""],
  ]);
}

function show_zeros(lines) {
  const end = lines.at(-1), layers = end && end.zeros ? Object.keys(end.zeros) : [];
  by("zeros").hidden = layers.length === 0;
  if (layers.length === 0) return;
  bars(by("bars"), layers.map((name) => ({ name, share: end.zeros[name], value: `${(100 * end.zeros[name]).toFixed(1)} %` })));
  draw(by("layers"), { title: "Zeros by epoch", note: "percent, one line per layer",
    curves: layers.length > 8 ? [] : layers.map((name, i) => ({ name, colour: i,
      points: lines.map((e) => [e.epoch, e.zeros && name in e.zeros ? 100 * e.zeros[name] : NaN]) })) });
}

function show_curves(s, lines) {
  const sampled = s.now && s.now.sampled ? lines : [];
  const any = [
    draw(by("loss"), { title: "Training loss", note: "lower is better; mean between two looks", whole: false,
      curves: [{ name: "this run", colour: 0, points: s.trail }] }),
    draw(by("precision"), { title: "P@1, P@3, P@5", note: "percent of validation rows",
      curves: [1, 3, 5].map((k, i) => column(lines, `valid_p@${k}`, i, `P@${k}`)) }),
    draw(by("valid"), { title: "Validation loss", note: "lower is better", curves: [column(lines, "valid_loss")] }),
    draw(by("rate"), { title: "Rows per second", note: "trained, since the run began", curves: [column(lines, "rows_per_s")] }),
    draw(by("rows"), { title: "Output rows", note: "on average",
      curves: [column(sampled, "scored_mean", 0, "scored for a sample"), column(sampled, "active_mean", 1, "active in a step")] }),
    draw(by("recall"), { title: "Recall", note: "percent of the 20 best wrong labels found", curves: [column(sampled, "retrieval_recall", 0, "this run", 100)] }),
  ];
  by("none").hidden = any.includes(true);
}

function show_run(run) {
  if (!run || (last && last.run && JSON.stringify(last.run) === JSON.stringify(run))) return;
  by("title").textContent = run.model || "A training run";
  by("what").textContent = [run.card && run.card.data, run.net].filter(Boolean).join(" · ");
  facts(by("facts"), run);
}

function show(s) {
  if (s.from === epochs.length) epochs.push(...s.epochs);
  else if (s.from > epochs.length) epochs.splice(0, epochs.length, ...s.epochs); // older ones are forgotten
  const lines = current();
  show_run(s.run);
  show_state(s);
  show_progress(s);
  show_tiles(s, lines);
  show_curves(s, lines);
  show_zeros(lines);
  last = s;
}

async function ask() {
  let more = false;
  try {
    const answer = await fetch(`/watch.json?from=${epochs.length}`, { cache: "no-store" });
    const s = await answer.json();
    if (!answer.ok) throw new Error(s.error.message);
    lost = 0;
    show(s);
    more = s.n_epochs > epochs.length && s.epochs.length > 0;
    if (s.state !== "training" && !more) return;
  } catch (e) {
    if (!(e instanceof TypeError)) console.error(e); // the server is gone, or was never there
    if (++lost === 3) say("The run no longer answers. This is what it told last.", "failed");
  }
  setTimeout(ask, more ? 0 : document.hidden ? 2000 : 1000);
}
ask();
