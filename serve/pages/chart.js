// Charts of curves, drawn as SVG in the manner of a training report (src/report/chart.c): the style sheet has the
// colours.  Nothing here makes markup of text: elements are made one by one, texts are set by textContent.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 50, RIGHT = 390, TOP = 10, BOTTOM = 192, WIDE = 400, HIGH = 236;

export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

export function shape(name, attributes = {}, ...children) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

// 1500000 as 1.5M, three digits at most.
export function short(v) {
  for (const [of, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(v) >= 0.9995 * of) return Number((v / of).toPrecision(3)) + unit;
  return String(Number(v.toPrecision(3)));
}

export function count(v) {
  return v < 100 ? String(Number(v.toFixed(2))) : Math.round(v).toLocaleString("en");
}

export function time(s) {
  const t = Math.round(s), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${t} s`;
  return t < 3600 ? `${Math.floor(t / 60)}:${two(t % 60)} min` : `${Math.floor(t / 3600)}:${two(Math.floor(t / 60) % 60)} h`;
}

export function bytes(n) {
  for (const [of, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (n >= of) return `${(n / of).toFixed(n >= 100 * of ? 0 : 1)} ${unit}`;
  return `${n} bytes`;
}

function scale(values, from, to) {
  let least = Math.min(...values), most = Math.max(...values);
  const size = Math.max(Math.abs(least), Math.abs(most));
  let room = 0.06 * (most - least);
  if (room <= 1e-6 * size) room = size > 0 ? 0.1 * size : 1;
  least -= room;
  most += room;
  return { least, most, at: (v) => from + ((v - least) / (most - least)) * (to - from) };
}

// Round numbers between the ends, at most 12 of them.
function ticks(s) {
  const range = s.most - s.least;
  let step = 10 ** Math.floor(Math.log10(range / 5));
  for (const k of [5, 2, 1]) if (range / (k * step) >= 4) { step *= k; break; }
  const list = [];
  for (let v = Math.ceil(s.least / step) * step; v <= s.most && list.length < 12; v += step)
    list.push(Math.abs(v) < 1e-6 * range ? 0 : v);
  return list;
}

// Draws into a figure: title, note and x stay, the curves are [{ name, colour, points: [[x, y], ...] }].  False: there
// is no point, and the figure is hidden.
export function draw(figure, { title, note, x = "epoch", whole = true, curves }) {
  const used = curves.map((c) => ({ ...c, points: c.points.filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b)) }))
    .filter((c) => c.points.length > 0);
  figure.hidden = used.length === 0;
  if (figure.hidden) return false;
  const xs = scale(used.flatMap((c) => c.points.map((p) => p[0])), LEFT, RIGHT);
  const ys = scale(used.flatMap((c) => c.points.map((p) => p[1])), BOTTOM, TOP);
  const text = (words, px, py, kind) => shape("text", { x: px.toFixed(1), y: py.toFixed(1), class: kind }, words);
  const svg = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" },
    shape("title", {}, title + used.slice(0, 12).map((c) =>
      `. ${c.name}: from ${short(c.points[0][1])} to ${short(c.points.at(-1)[1])}`).join("")));
  const rows = ticks(ys);
  svg.append(shape("path", { class: "grid", d: rows.map((v) => `M${LEFT} ${ys.at(v).toFixed(1)}H${RIGHT}`).join("") }),
    shape("path", { class: "axis", d: `M${LEFT} ${BOTTOM}H${RIGHT}` }));
  for (const v of rows)
    svg.append(text(Math.abs(ys.most) >= 10000 ? short(v) : String(Number(v.toPrecision(5))), LEFT - 6, ys.at(v) + 4, "end"));
  for (const v of ticks(xs)) if (!whole || Number.isInteger(v)) svg.append(text(short(v), xs.at(v), BOTTOM + 16, "mid"));
  svg.append(text(x, (LEFT + RIGHT) / 2, BOTTOM + 36, "mid"));
  for (const c of used.toReversed()) {
    const places = c.points.map(([a, b]) => [xs.at(a).toFixed(1), ys.at(b).toFixed(1)]);
    const g = shape("g", { class: `c${c.colour % 8} d${(c.colour + Math.floor(c.colour / 8)) % 4}` },
      shape("path", { d: places.map((p, i) => `${i ? "L" : "M"}${p[0]} ${p[1]}`).join("") }));
    if (places.length <= 60)
      places.forEach((p, i) => g.append(shape("g", {},
        shape("title", {}, `${c.name}, ${x} ${c.points[i][0]}: ${Number(c.points[i][1].toPrecision(6))}`),
        shape("circle", { cx: p[0], cy: p[1], r: 2.5 }))));
    svg.append(g);
  }
  const caption = element("figcaption", {}, element("h3", {}, title), element("p", {}, note));
  if (used.length > 1) {
    const legend = element("ul", { class: "legend" });
    for (const c of used)
      legend.append(element("li", {}, shape("svg", { class: "swatch", viewBox: "0 0 28 10", "aria-hidden": "true" },
        shape("g", { class: `c${c.colour % 8} d${(c.colour + Math.floor(c.colour / 8)) % 4}` }, shape("path", { d: "M1 5H27" }))), c.name));
    caption.append(legend);
  }
  figure.replaceChildren(caption, svg);
  return true;
}

// A list of shares: name, bar, number.
export function bars(list, rows) {
  list.replaceChildren(...rows.map(({ name, share, value }) => element("li", {},
    element("span", { class: "name" }, name), element("span", { class: "value" }, value),
    shape("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      shape("rect", { width: Math.max(0, Math.min(100, 100 * share)).toFixed(1), height: 8 })))));
}

// A list of facts as tiles: [name, value, more].  A unit of the value is set smaller, too.
export function tiles(list, rows) {
  list.replaceChildren(...rows.filter((r) => r[1] !== undefined && r[1] !== "").map(([name, value, more]) => {
    const [number, ...unit] = String(value).split(" ");
    const small = [...unit, more].filter(Boolean).join(" ");
    return element("div", {}, element("dt", {}, name), element("dd", {}, number, element("small", {}, small ? ` ${small}` : "")));
  }));
}

// An object as rows of a table, objects in it one level deep.  "0/card" is of the first member of a joint model; what is not said of a
// member is as in the whole model, or in its first member.
export function facts(body, object) {
  const said = new Map();
  body.replaceChildren();
  const add = (name, value, member) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      const of = ["card", "options"].includes(name) ? "" : `${name} `;
      for (const [k, v] of Object.entries(value)) add(of + k, v, member);
      return;
    }
    const whole = member ? `member ${member} ${name}` : name, text = String(value);
    if (value === "" || value === null || said.has(whole)) return; // the card comes before the options, and says more than "auto"
    if (member && (said.get(name) === text || said.get(`member 1 ${name}`) === text)) return;
    said.set(whole, text);
    body.append(element("tr", {}, element("th", { scope: "row" }, whole.replaceAll("_", " ")), element("td", {}, text)));
  };
  for (const [name, value] of Object.entries(object)) {
    const [, member, of] = /^(\d+)\/(.*)$/.exec(name) || [];
    add(of || name, value, member ? Number(member) + 1 : 0);
  }
}
