// What stands in the way of people: a function that looks through the page it runs in and gives a list of faults, one
// line each.  Run by browser.py; the same rules for every page.
() => {
  const faults = [];
  const all = (what) => [...document.querySelectorAll(what)];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const where = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.classList.length ? "." + [...e.classList].join(".") : "") +
    " '" + (e.textContent || "").trim().slice(0, 30) + "'";

  // the page as a whole
  const root = document.documentElement;
  if (!root.lang) faults.push("html has no lang");
  if (!document.title.trim()) faults.push("the page has no title");
  if (all("main").length !== 1) faults.push("there is not one main");
  if (root.scrollWidth > root.clientWidth)
    faults.push(`the page is ${root.scrollWidth} px wide, the window ${root.clientWidth}`);
  const ids = all("[id]").map((e) => e.id);
  for (const id of new Set(ids.filter((x, i) => ids.indexOf(x) !== i))) faults.push(`two elements have the id ${id}`);
  for (const e of all("*"))
    for (const a of e.attributes) if (/^on/i.test(a.name)) faults.push(`${where(e)} has a handler ${a.name}`);

  // headings go down one step at a time
  let level = 0;
  for (const h of all("h1, h2, h3, h4").filter(shown)) {
    const n = Number(h.tagName[1]);
    if (n > level + 1) faults.push(`${where(h)} comes after level ${level}`);
    level = n;
  }
  if (all("h1").filter(shown).length !== 1) faults.push("there is not one h1");

  // everything that takes input has a name, and is large enough to be hit
  const named = (e) => {
    const by = e.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).map((i) => document.getElementById(i)?.textContent || "").join("").trim();
    if (e.getAttribute("aria-label")) return e.getAttribute("aria-label");
    if (e.labels && e.labels.length) return [...e.labels].map((l) => l.textContent).join("").trim();
    return e.matches("a, button, summary") ? e.textContent.trim() : "";
  };
  for (const e of all("input, select, textarea, button, a[href], summary, canvas, [role=region], [role=progressbar]").filter(shown)) {
    if (!named(e) && !e.matches("input[type=hidden]")) faults.push(`${where(e)} has no name`);
    const box = e.getBoundingClientRect();
    if (e.matches("button, input, select, textarea, summary") && box.height < 24 && !e.closest("label"))
      faults.push(`${where(e)} is ${Math.round(box.height)} px high`);
  }
  for (const e of all("img")) if (!e.hasAttribute("alt")) faults.push(`${where(e)} has no alt`);
  for (const e of all("svg"))
    if (e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && e.querySelector("title")))
      faults.push(`${where(e)} is neither hidden nor named`);
  for (const e of all("th")) if (!e.scope) faults.push(`${where(e)} has no scope`);
  for (const e of all("[aria-labelledby], [aria-describedby]"))
    for (const id of (e.getAttribute("aria-labelledby") + " " + e.getAttribute("aria-describedby")).split(/\s+/))
      if (id && id !== "null" && !document.getElementById(id)) faults.push(`${where(e)} names ${id}, which is not there`);

  // contrast of text with what is behind it
  const parse = (c) => { const n = c.match(/[\d.]+/g).map(Number); return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const light = (c) => {
    const [r, g, b] = c.map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    let at = [255, 255, 255];
    for (const c of layers.reverse()) at = over(c, at);
    return at;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(e) || !shown(e) || e.closest(".hidden, title, style, script, canvas, noscript, [disabled]")) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    const behind = ground(e.closest("svg") ? e.closest("svg").parentElement : e);
    const colour = over(parse(e.closest("svg") ? style.fill : style.color), behind);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const have = ratio(colour, behind);
    if (have < least) faults.push(`${where(e)}: a contrast of ${have.toFixed(2)}, ${least} is needed`);
  }
  // and of lines in charts
  for (const e of all("svg g > path").filter(shown)) {
    const style = getComputedStyle(e);
    if (style.stroke === "none" || !e.getAttribute("d")) continue;
    const behind = ground(e.closest("svg").parentElement), have = ratio(over(parse(style.stroke), behind), behind);
    if (have < 3) faults.push(`a line of ${where(e.parentElement)}: a contrast of ${have.toFixed(2)}, 3 is needed`);
  }
  return faults;
}
