// The tab Check: a manifest with marks at the lines of its findings, its repair as a diff, and the memory tables.

import { ask, copyButton, element, finding, HEADINGS, latest, sides } from "./dom.js";
import { waterfall } from "./waterfall.js";

const PAUSE = 120;
const RANK = ["denied", "likely", "advice", "note"];
const panel = document.getElementById("check");
const [editor, files, numbers, marks] = ["textarea", "select", ".numbers", ".marks"].map((one) => panel.querySelector(one));
const undo = panel.querySelector(".undo");
const GROUPS = { error: "can't be read", ...HEADINGS, clean: "no findings", none: "no vLLM container" };
const own = element("option", { value: "", hidden: true }, "pasted text");
let name = "";
let texts = new Map();
let before = [];

export async function start() {
  editor.addEventListener("input", () => {
    number();
    later();
  });
  editor.addEventListener("scroll", follow);
  editor.addEventListener("paste", () => {
    if (editor.selectionEnd - editor.selectionStart === editor.value.length) foreign("");
  });
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
    if (!file) return;
    open(file.name, await file.text());
    foreign(file.name);
  });
  number();
  const given = await fetch("files").then((response) => response.json());
  panel.querySelector(".unread").replaceChildren(...given.problems.map((text) => element("p.problem", {}, text)));
  texts = new Map(given.files.map((file) => [file.name, file.text]));
  const options = new Map(given.files.map((file) => [file.name, element("option", { value: file.name, title: file.name }, file.label)]));
  files.replaceChildren(own, ...options.values());
  files.parentElement.hidden = texts.size === 0;
  if (!texts.size) return;
  if (!editor.value) open(given.files[0].name, given.files[0].text);
  marked(options, await fetch("marks").then((response) => response.json()));
}

/** A group of files per verdict, the worst first, each file with its counts. */
function marked(options, { files: rows, tally }) {
  const chosen = files.value;
  const group = (level) => {
    const members = rows.filter((row) => row.level === level && options.has(row.name));
    for (const { name: file, words } of members) options.get(file).append(members[0].level in HEADINGS ? ` · ${words}` : "");
    return element("optgroup", { label: `${GROUPS[level]} (${members.length})` }, ...members.map((row) => options.get(row.name)));
  };
  const levels = Object.keys(GROUPS).filter((level) => rows.some((row) => row.level === level));
  files.replaceChildren(own, ...levels.map(group));
  files.value = chosen;
  panel.querySelector(".tally").textContent = tally;
}

/** The text is none of the files. */
function foreign(file) {
  name = file;
  own.textContent = file || "pasted text";
  own.hidden = false;
  files.value = "";
}

function open(file, text) {
  name = file;
  if (texts.has(file)) files.value = file;
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
    for (const part of [".counts", ".list", ".fix", ".containers"]) to(part);
    return undefined;
  }
  const { answer } = found;
  mark([...answer.findings.map((one) => (one.accepted ? { ...one, level: "note" } : one)), ...answer.problems.map((one) => ({ line: one.line, level: "denied" }))]);
  to(".counts", ...counts(answer));
  to(".problems", ...answer.problems.map(problem));
  to(".list", ...answer.findings.map(row), ...answer.notes.map((text) => element("p.quiet", {}, text)));
  to(".fix", ...fix(answer.fix));
  to(".containers", ...answer.containers.flatMap(container));
  return undefined;
}

function counts({ counts: by, accepted, problems, containers }) {
  const any = Object.values(by).some(Boolean);
  if (!containers.length && !any) {
    return [element("span.badge.advice", {}, problems.length ? "can't be read" : "nothing to check: no vLLM container")];
  }
  const shown = Object.entries(HEADINGS).filter(([heading]) => heading !== "would_deny" || by[heading]);
  const badges = shown.map(([heading, words]) => element(`span.badge.${by[heading] ? heading : "none"}`, {}, `${by[heading]} ${words}`));
  const clean = !any && !problems.length ? [element("span.badge.fits", {}, "no findings")] : badges;
  return accepted ? [...clean, element("span.badge.none", {}, `${accepted} accepted`)] : clean;
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
    ...sides(one.sides),
    element("dl.tiles", {}, ...tiles),
    ...one.charts.map(waterfall),
  ];
}
