// The tab Plan: up to three configurations, each with its controls and its answer.

import { combobox } from "./combobox.js";
import { ask, copied, copyButton, element, finding, latest, sides, svg, table } from "./dom.js";
import { waterfall } from "./waterfall.js";

const MOST = 3;
const FIRST = { model: "Qwen/Qwen3-14B", gpu: "l40s" };
const PATIENCE = 500; // milliseconds that a value which is still typed may be wrong
const PAUSE = 250; // milliseconds without a change before the ways, which take longer
const COLORS = { fits: "fits", unsure: "unsure", "does-not-fit": "does-not-fit" };
const place = document.getElementById("configurations");
let count = 0;

export function start() {
  const held = read(location.hash);
  for (const one of held.length ? held : [{}]) add(one);
  document.getElementById("compare").addEventListener("click", () => add(values(forms().at(-1)), true));
  const link = document.getElementById("link");
  link.addEventListener("click", () => copied(link, location.href));
}

// ── The link ──

function read(hash) {
  if (!hash.startsWith("#plan:")) return [];
  return hash.slice(6).split("|").slice(0, MOST).map((one) => Object.fromEntries(new URLSearchParams(one)));
}

/** Keep the controls in the fragment, but never a config.json. */
export function keep() {
  const said = forms().map((form) => {
    const held = Object.entries(values(form)).filter(([name, value]) => name !== "config" && value !== "" && value !== false);
    return new URLSearchParams(held).toString();
  });
  history.replaceState(null, "", `#plan:${said.join("|")}`);
}

const forms = () => [...place.querySelectorAll("form")];

function values(form) {
  return Object.fromEntries(
    [...form.elements].filter((one) => one.name).map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value]),
  );
}

// ── A configuration ──

function add(held, focus = false) {
  const article = document.getElementById("configuration").content.cloneNode(true).firstElementChild;
  const form = article.querySelector("form");
  const number = (count += 1);
  label(form, number);
  if (!form.elements.gpu.value) form.elements.gpu.value = FIRST.gpu;
  form.elements.model.value = FIRST.model;
  for (const [name, value] of Object.entries(held)) {
    const input = form.elements[name];
    if (!input) continue;
    if (input.type === "checkbox") input.checked = String(value) === "true";
    else input.value = value;
  }
  let [patience, pause] = [0, 0];
  const updateWays = latest(async () => showWays(article, await ask("ways", values(form))));
  const update = latest(async () => {
    const reply = await ask("plan", values(form));
    clearTimeout(patience);
    const typed = reply.error && form.elements[reply.field] === document.activeElement;
    patience = setTimeout(() => show(article, reply), typed ? PATIENCE : 0);
    clearTimeout(pause);
    if (reply.answer) pause = setTimeout(updateWays, PAUSE);
  });
  const changed = () => {
    keep();
    update();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    if (target.name === "model") hint(target.closest(".field"), "Choose a model: the answer is that of the last one.");
    else if (target.name) changed();
  });
  combobox(form.elements.model, form.querySelector("[role=listbox]"), changed);
  for (const field of form.querySelectorAll("[data-slider]")) slide(field, changed);
  article.querySelector(".remove").addEventListener("click", () => {
    article.remove();
    renumber();
    compare();
    keep();
  });
  place.append(article);
  renumber();
  if (focus) {
    form.elements.model.focus();
    keep();
  }
  update();
}

/** Names for the controls of this configuration: each input has a label and a hint. */
function label(form, number) {
  for (const field of form.querySelectorAll(".field")) {
    for (const input of field.querySelectorAll("[name]")) {
      input.id = `${input.name}-${number}`;
      const hint = input.name === "config" ? field.querySelector("details .hint") : field.querySelector(".hint");
      hint.id = `${input.id}-hint`;
      input.setAttribute("aria-describedby", hint.id);
      const name = input.name === "config" ? field.querySelector("details label") : field.querySelector("label");
      if (!name.contains(input)) name.htmlFor = input.id;
    }
  }
  const list = form.querySelector("[role=listbox]");
  list.id = `models-${number}`;
  form.elements.model.setAttribute("aria-controls", list.id);
}

function renumber() {
  const articles = [...place.children];
  place.className = `columns-${articles.length}`;
  for (const [index, article] of articles.entries()) {
    const name = articles.length > 1 ? `Configuration ${"ABC"[index]}` : "Configuration";
    article.querySelector("h2").textContent = name;
    article.setAttribute("aria-label", name);
    article.querySelector(".remove").hidden = articles.length === 1;
    article.querySelector(".remove").setAttribute("aria-label", `Remove ${name}`);
  }
  document.getElementById("compare").disabled = articles.length >= MOST;
}

/** Mark what differs between the configurations, and name the controls that do. */
function compare() {
  const articles = [...place.children];
  const mark = (selector, key, value) => {
    const rows = articles.map((article) => new Map([...article.querySelectorAll(selector)].map((row) => [key(row), row])));
    const differ = (name) => articles.length > 1 && new Set(rows.map((row) => row.has(name) && value(row.get(name)))).size > 1;
    const names = [...new Set(rows.flatMap((row) => [...row.keys()]))].filter(differ);
    for (const row of rows) for (const [name, shown] of row) shown.classList.toggle("differs", names.includes(name));
    return names;
  };
  const control = (field) => field.querySelector("[name]");
  const value = (input) => (input.type === "checkbox" ? input.checked : input.value || input.placeholder);
  const title = (field) => field.querySelector("label").firstChild.textContent.trim() || field.querySelector("label").textContent.trim();
  const names = mark(".field", title, (field) => value(control(field)));
  mark(".tiles > div", (tile) => tile.querySelector("dt").textContent, (tile) => tile.textContent);
  mark(".waterfall li", (row) => `${row.closest("figure").dataset.memory} ${row.firstChild.textContent}`, (row) => row.querySelector(".size").textContent);
  document.getElementById("differences").textContent = names.length ? `They differ in: ${names.join(", ")}` : "";
}

// ── Sliders ──

function slide(field, changed) {
  const [input, range, reset] = [field.querySelector("[name]"), field.querySelector("[type=range]"), field.querySelector(".reset")];
  range.addEventListener("input", () => {
    const stop = JSON.parse(field.dataset.stops ?? "[]")[range.value];
    if (stop === undefined) return;
    input.value = stop;
    changed();
  });
  reset.addEventListener("click", () => {
    input.value = "";
    changed();
    input.focus();
  });
}

/** The place of a value among the stops. */
function at(stops, value) {
  const index = stops.findIndex((stop) => stop >= value);
  return index < 0 ? stops.length - 1 : index;
}

function showSlider(field, slider) {
  const [input, range, track] = [field.querySelector("[name]"), field.querySelector("[type=range]"), field.querySelector(".track")];
  const { stops, verdicts, value } = slider;
  field.dataset.stops = JSON.stringify(stops);
  range.max = stops.length - 1;
  if (value !== null && document.activeElement !== range) range.value = at(stops, value);
  const shown = value === null ? "default" : value.toLocaleString("en");
  range.setAttribute("aria-valuetext", `${shown}, ${slider.fits || "unknown"}`);
  const origin = input.name === "max_num_seqs" && input.form.elements.users.value ? "users" : "default";
  input.placeholder = value === null ? "default" : `${origin}: ${shown}`;
  field.classList.toggle("unset", input.value === "");
  const step = 100 / Math.max(1, stops.length - 1);
  track.replaceChildren(
    ...verdicts.map((verdict, index) => {
      const [from, to] = [Math.max(0, (index - 0.5) * step), Math.min(100, (index + 0.5) * step)];
      return svg("rect", { class: COLORS[verdict] ?? "unknown", x: from, y: 0, width: to - from + 0.1, height: 1 });
    }),
  );
  hint(field, slider.fits);
}

// ── The answer ──

function hint(field, text, wrong = false) {
  const shown = field.querySelector(".hint");
  shown.textContent = text;
  shown.title = text;
  shown.classList.toggle("wrong", wrong);
}

function complain(form, name, text) {
  const input = form.elements[name];
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  const shown = document.getElementById(`${input.id}-hint`);
  shown.textContent = text;
  shown.title = text;
  shown.classList.add("wrong");
  const details = input.closest("details");
  if (details) details.open = true;
}

function show(article, { answer, error, field }) {
  const form = article.querySelector("form");
  for (const input of form.elements) input.removeAttribute("aria-invalid");
  if (error) {
    for (const shown of form.querySelectorAll(".hint.wrong")) shown.classList.remove("wrong");
    if (form.elements[field]) complain(form, field, error);
    const bar = article.querySelector(".verdict");
    bar.querySelector(".badge").className = "badge unsure";
    bar.querySelector(".badge").textContent = "no answer";
    bar.querySelector(".held").hidden = true;
    bar.querySelector(".quiet").textContent = error;
    article.classList.add("stale");
    return;
  }
  article.classList.remove("stale");
  for (const shown of form.querySelectorAll(".hint")) {
    shown.textContent = "";
    shown.classList.remove("wrong");
  }
  for (const name of ["model", "gpu"]) {
    const { text, wrong } = answer.hints[name];
    hint(form.elements[name].closest(".field"), text, wrong);
  }
  for (const [name, slider] of Object.entries(answer.sliders)) showSlider(form.querySelector(`[data-slider=${name}]`), slider);
  for (const one of answer.findings) if (one.field && one.level === "denied") complain(form, one.field, one.message);
  const bar = article.querySelector(".verdict");
  const [badge, held] = [bar.querySelector(".badge"), bar.querySelector(".held")];
  badge.className = `badge ${answer.state}`;
  badge.textContent = answer.headline;
  held.hidden = answer.users === null;
  held.className = `held ${answer.users?.state ?? ""}`;
  held.textContent = answer.users?.text ?? "";
  bar.querySelector(".quiet").textContent = answer.users?.room ?? answer.room;
  article.querySelector(".why").textContent = answer.why;
  article.querySelector(".sides").replaceChildren(...sides(answer.sides));
  article.querySelector(".tiles").replaceChildren(...answer.tiles.map(tile));
  article.querySelector(".charts").replaceChildren(...answer.charts.map(waterfall));
  article.querySelector(".findings").replaceChildren(...titled("Findings", answer.findings.map((one) => finding(one))));
  const fits = answer.changes.length ? [element("ul.fits", {}, ...answer.changes.map((text) => element("li", {}, text)))] : [];
  article.querySelector(".changes").replaceChildren(...titled("Each of these fits", fits));
  article.querySelector(".gpus").replaceChildren(...titled("Which GPUs hold it", answer.gpus.length ? [grid(form, answer.gpus)] : []));
  article.querySelector(".copies").replaceChildren(...copies(answer));
  compare();
}

const titled = (title, children) => (children.length ? [element("h3", {}, title), ...children] : []);

function tile({ name, value, range }) {
  return element("div", {}, element("dt", {}, name), element("dd", {}, element("b", {}, value), element("span", {}, range)));
}

function showWays(article, { answer }) {
  const children = answer?.title ? titled(answer.title, ways(article.querySelector("form"), answer.rows)) : [];
  article.querySelector(".ways").replaceChildren(...children);
}

/** Set controls, and ask. */
function choose(form, controls) {
  for (const [name, value] of Object.entries(controls)) form.elements[name].value = value;
  form.elements.gpu.dispatchEvent(new Event("input", { bubbles: true }));
}

/** The ways to hold the users: what keeps the model's output, then what changes it. */
function ways(form, rows) {
  if (!rows.length) return [element("p.quiet", {}, "None: up to 8 GPUs of the usual models were tried.")];
  const line = (row) => {
    const use = element("button", { type: "button", "aria-label": `Use ${row.gpus}${row.changes ? ` with ${row.changes}` : ""}` }, "Use");
    use.addEventListener("click", () => choose(form, row.controls));
    const total = row.replicas > 1 ? `${row.gpus}, ${row.replicas} replicas` : row.gpus;
    return [total, row.memory, row.holds, row.changes || "nothing", row.refused ? "" : use];
  };
  const note = element("p.quiet", {}, "As podfit plan lists them: the same output first, then what changes it, each with the least GPU memory first.");
  return [note, table("ways", ["GPUs", "GPU memory", "Holds", "Changes", ""], rows.map(line))];
}

/** A row per product, a cell per number of GPUs: how many requests of this context at once. */
function grid(form, rows) {
  const sizes = [...new Set(rows.flatMap((row) => row.cells.map((cell) => cell.gpus)))].sort((one, other) => one - other);
  const cell = (row, gpus) => {
    const answer = row.cells.find((of) => of.gpus === gpus);
    if (!answer) return element("td", {}, "");
    const shown = answer.verdict === "does-not-fit" ? "–" : `${answer.concurrency ?? ""}${answer.verdict === "unsure" ? "?" : "×"}`;
    const button = element(`button.cell.${answer.verdict}`, { type: "button", "aria-label": `${gpus} × ${row.product}: ${answer.words}, ${shown}` }, shown);
    button.addEventListener("click", () => choose(form, { gpu: row.product, gpus, tensor_parallel_size: "" }));
    return element("td", {}, button);
  };
  const head = element("tr", {}, element("th", { scope: "col" }, "requests at once"), ...sizes.map((gpus) => element("th", { scope: "col" }, `${gpus} GPU${gpus > 1 ? "s" : ""}`)));
  const body = rows.map((row) => element("tr", {}, element("th", { scope: "row" }, row.product.replace("NVIDIA-", "")), ...sizes.map((gpus) => cell(row, gpus))));
  return element("table.grid", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

function copies(answer) {
  const block = (title, text) =>
    element("details", {}, element("summary", {}, title), element("div.copy", {}, copyButton("Copy", () => text), element("pre", { tabIndex: 0 }, text)));
  const command = element("div.command", {}, element("h3", {}, "Command"), element("div.copy", {}, copyButton("Copy", () => answer.command), element("pre", { tabIndex: 0 }, answer.command)));
  const manifest = answer.manifest === null ? element("p.quiet", {}, `No manifest: ${answer.manifest_missing}`) : block("Manifest: Deployment, Service, claim", answer.manifest);
  return [command, manifest];
}
