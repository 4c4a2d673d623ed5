// The tab Check: a manifest with marks at the lines of its findings, its repair as a diff, and the ledgers.

import { ask, copyButton, element, finding, latest } from "./dom.js";
import { waterfall } from "./waterfall.js";

const PAUSE = 120;
const RANK = ["denied", "likely", "advice", "note"];
const panel = document.getElementById("check");
const [editor, files, numbers, marks] = ["textarea", "select", ".numbers", ".marks"].map((one) => panel.querySelector(one));
const undo = panel.querySelector(".undo");
let name = "";
let texts = new Map();
let before = [];

export async function start() {
  editor.addEventListener("input", () => {
    number();
    later();
  });
  editor.addEventListener("scroll", follow);
  files.addEventListener("change", () => open(files.value, texts.get(files.value)));
  undo.addEventListener("click", () => {
    editor.value = before.pop();
    undo.hidden = !before.length;
    number();
    update();
  });
  panel.addEventListener("dragover", (event) => event.preventDefault());
  panel.addEventListener("drop", async (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (file) open(file.name, await file.text());
  });
  number();
  const given = await fetch("files").then((response) => response.json());
  panel.querySelector(".unread").replaceChildren(...given.problems.map((text) => element("p.problem", {}, text)));
  texts = new Map(given.files.map((one) => [one.name, one.text]));
  files.replaceChildren(...[...texts.keys()].map((one) => element("option", { value: one }, one)));
  files.parentElement.hidden = texts.size === 0;
  if (texts.size && !editor.value) open(files.value, texts.get(files.value));
}

function open(file, text) {
  name = file;
  before = [];
  undo.hidden = true;
  editor.value = text;
  editor.scrollTop = 0;
  number();
  update();
}

// ── The editor ──

let pause = 0;

function later() {
  clearTimeout(pause);
  pause = setTimeout(update, PAUSE);
}

function number() {
  const lines = editor.value.split("\n").length;
  numbers.textContent = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
  follow();
}

function follow() {
  const by = `translateY(${-editor.scrollTop}px)`;
  numbers.style.transform = by;
  marks.style.transform = by;
}

const height = () => parseFloat(getComputedStyle(editor).lineHeight);

function mark(rows) {
  const worst = new Map();
  for (const { line, level } of rows) {
    if (line && (!worst.has(line) || RANK.indexOf(level) < RANK.indexOf(worst.get(line)))) worst.set(line, level);
  }
  marks.replaceChildren(
    ...[...worst].map(([line, level]) => {
      const made = element(`span.${level}`);
      made.style.top = `${(line - 1) * height()}px`;
      return made;
    }),
  );
}

function go(line) {
  const lines = editor.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  editor.focus();
  editor.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  editor.scrollTop = Math.max(0, (line - 5) * height());
}

// ── The answer ──

const update = latest(async () => {
  const found = editor.value.trim() ? await ask("check", { name, text: editor.value }) : null;
  show(found);
});

function show(found) {
  const to = (selector, ...children) => panel.querySelector(selector).replaceChildren(...children);
  panel.querySelector(".nothing").hidden = found !== null;
  panel.querySelector(".result").hidden = found === null;
  if (found === null) return mark([]);
  if (found.error) {
    mark([]);
    to(".problems", element("p.problem", {}, found.error));
    for (const one of [".counts", ".list", ".fix", ".ledgers"]) to(one);
    return undefined;
  }
  const { answer } = found;
  mark([...answer.findings.map((one) => (one.accepted ? { ...one, level: "note" } : one)), ...answer.problems.map((one) => ({ line: one.line, level: "denied" }))]);
  to(".counts", ...counts(answer));
  to(".problems", ...answer.problems.map(problem));
  to(".list", ...answer.findings.map(row), ...answer.notes.map((text) => element("p.quiet", {}, text)));
  to(".fix", ...fix(answer.fix));
  to(".ledgers", ...answer.containers.flatMap(container));
  return undefined;
}

function counts({ counts: by, problems, containers }) {
  if (!containers.length && !Object.values(by).some(Boolean)) {
    return [element("span.badge.advice", {}, problems.length ? "can't be read" : "nothing to check: no vLLM container")];
  }
  const shown = [["denied", "denied"], ["likely", "likely to fail"], ["advice", "advice"]];
  const badges = shown.map(([level, words]) => element(`span.badge.${by[level] ? level : "none"}`, {}, `${by[level]} ${words}`));
  const clean = !Object.values(by).some(Boolean) && !problems.length;
  return clean ? [element("span.badge.fits", {}, "no findings")] : badges;
}

const link = (line) => {
  const button = element("button.line", { type: "button" }, `line ${line}`);
  button.addEventListener("click", () => go(line));
  return button;
};

function problem({ line, message }) {
  return element("p.problem", {}, line ? link(line) : null, " ", message);
}

function row(one) {
  const shown = finding(one, link(one.line));
  if (one.softened) shown.append(element("p.quiet", {}, `not denied: ${one.softened}`));
  if (one.accepted) {
    shown.classList.add("accepted");
    shown.append(element("p.quiet", {}, `accepted by ${one.accepted.by}: ${one.accepted.reason}`));
  }
  shown.append(element("p.quiet", {}, `${one.object}, container ${one.container}, ${one.path}`));
  return shown;
}

function fix(found) {
  if (!found) return [];
  const head = element("h3", {}, `podfit fix: ${found.made.length} ${found.made.length === 1 ? "repair" : "repairs"}`);
  if (found.problem) return [head, element("p.problem", {}, found.problem)];
  const accept = element("button.accept", { type: "button" }, "Accept");
  accept.addEventListener("click", () => {
    before.push(editor.value);
    editor.value = found.text;
    undo.hidden = false;
    number();
    update();
    editor.focus();
  });
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  const lines = found.diff.split("\n").slice(2);
  const shown = lines.filter((line, index) => line || index < lines.length - 1).map((line) => element(`span.${kinds[line[0]] ?? "same"}`, {}, `${line}\n`));
  const made = found.made.map((one) => element("li", {}, element("code", {}, one.rule), ` ${one.message}`));
  return [
    element("div.head", {}, head, element("span.buttons", {}, accept, copyButton("Copy diff", () => found.diff))),
    element("pre.diff", { tabIndex: 0 }, ...shown),
    element("details", {}, element("summary", {}, "What each repair is for"), element("ul", {}, ...made)),
  ];
}

function container(one) {
  const tiles = one.tiles.map((tile) => element("div", {}, element("dt", {}, tile.name), element("dd", {}, element("b", {}, tile.value), element("span", {}, tile.range))));
  return [
    element("h3", {}, one.title),
    element("p.quiet", {}, one.summary),
    element("p.why", {}, `${one.verdict}: ${one.why}`),
    element("dl.tiles", {}, ...tiles),
    ...one.charts.map(waterfall),
  ];
}
