// The tab Policy effect: chosen policies against the default policy, over the files given or a saved scan.

import { ask, element, latest } from "./dom.js";

const PAUSE = 150;
const LEVELS = { "newly denied": "denied", "no longer denied": "fits", "newly warned": "likely", "newly patched": "fits" };
const panel = document.getElementById("effect");
const form = panel.querySelector("form");
const saved = panel.querySelector("[name=scan]");
let scan = "";
let pause = 0;

export function start() {
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(update, PAUSE);
  });
  saved.addEventListener("change", async () => {
    scan = saved.files.length ? await saved.files[0].text() : "";
    update();
  });
  update();
}

const update = latest(async () => {
  const shipped = [...form.querySelectorAll("[name=shipped]:checked")].map((one) => one.value);
  show(await ask("effect", { shipped, policy: form.elements.policy.value, scan }), shipped.length || form.elements.policy.value.trim());
});

function show({ answer, error, field }, chosen) {
  const to = (selector, ...children) => panel.querySelector(selector).replaceChildren(...children);
  for (const one of ["policy", "scan"]) {
    const wrong = error && field === one;
    form.elements[one].setAttribute("aria-invalid", Boolean(wrong));
    document.getElementById(`${one}-hint`).textContent = wrong ? error : "";
  }
  if (error) {
    to(".summary", element("span.badge.unsure", {}, "no answer"), " ", field ? "" : error);
    return to(".groups");
  }
  const objects = `${answer.objects} ${answer.objects === 1 ? "object" : "objects"}`;
  const words = `${answer.decided} of ${objects} would be denied or allowed instead; findings or repairs of ${answer.changed} change`;
  const nothing = answer.objects === 0 ? "No objects: start podfit ui with files or folders, or choose a saved scan." : words;
  to(".summary", element("p", {}, chosen || !answer.objects ? nothing : `${answer.objects} objects; choose a policy to see its effect.`));
  return to(
    ".groups",
    ...answer.problems.map((text) => element("p.problem", {}, text)),
    ...(answer.note ? [element("p.quiet", {}, answer.note)] : []),
    ...answer.groups.flatMap(group),
  );
}

function group({ what, objects, counts, rows }) {
  const head = element("h3", {}, element(`span.badge.${LEVELS[what] ?? "advice"}`, {}, what), ` ${objects} ${objects === 1 ? "object" : "objects"}`);
  const body = counts.map((one) => {
    const own = rows.filter((row) => row.namespace === one.namespace && row.rule === one.rule);
    return element("tr", {}, element("td", {}, one.namespace || "(none)"), element("td", {}, element("code", {}, one.rule)), element("td", {}, list(own)));
  });
  const names = ["Namespace", "Rule", "Objects"].map((text) => element("th", { scope: "col" }, text));
  return [head, element("div.wide", { tabIndex: 0, role: "region", "aria-label": what }, element("table.effect", {}, element("thead", {}, element("tr", {}, ...names)), element("tbody", {}, ...body)))];
}

function list(rows) {
  const items = rows.map((row) => {
    const modes = row.before ? ` ${row.before} → ${row.after}` : "";
    return element("li", {}, element("b", {}, row.object), element("span.quiet", {}, ` ${row.where}${modes}`), element("p.quiet", {}, row.message));
  });
  return element("details", { open: rows.length <= 10 }, element("summary", {}, `${rows.length}`), element("ul", {}, ...items));
}
