// The tab Policy effect: chosen policies against the default policy, over the files given or a saved scan.

import { ask, element, latest, table } from "./dom.js";

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
  const to = (selector, ...children) => panel.querySelector(selector).replaceChildren(...children.filter((child) => child !== null));
  for (const one of ["policy", "scan"]) {
    const wrong = error && field === one;
    form.elements[one].setAttribute("aria-invalid", Boolean(wrong));
    document.getElementById(`${one}-hint`).textContent = wrong ? error : "";
  }
  if (error) {
    to(".summary", element("span.badge.unsure", {}, "no answer"), " ", field ? "" : error);
    return to(".groups");
  }
  const changes = `${answer.decided} of them ${answer.decided > 1 ? "change" : "changes"} between allowed and denied.`;
  const decided = answer.decided ? changes : "All of them stay allowed or denied as before; only the findings change.";
  if (!answer.objects) to(".summary", element("p", {}, "No objects: start podfit ui with files or folders, or choose a saved scan."));
  else if (!chosen) to(".summary", element("p", {}, `${answer.summary.split(":")[0]}; choose a policy to see its effect.`));
  else to(".summary", element("p", {}, answer.summary), answer.changed ? element("p.quiet", {}, decided) : null);
  return to(
    ".groups",
    ...answer.problems.map((text) => element("p.problem", {}, text)),
    ...(answer.note ? [element("p.quiet", {}, answer.note)] : []),
    ...answer.groups.flatMap((one) => group(one, answer.folder)),
  );
}

function group({ what, count, objects, counts, rows }, folder) {
  const head = element("h3", {}, element(`span.badge.${LEVELS[what] ?? "advice"}`, {}, what), ` ${count} `, element("span.quiet", {}, `in ${objects} ${objects === 1 ? "object" : "objects"}`));
  const lines = counts.map((one) => {
    const own = rows.filter((row) => row.namespace === one.namespace && row.rule === one.rule);
    return [one.namespace || "(none)", element("code", {}, one.rule), list(own, folder)];
  });
  return [head, table("effect", ["Namespace", "Rule", "Objects"], lines)];
}

function list(rows, folder) {
  const items = rows.map((row) => {
    const modes = row.before ? ` ${row.before} → ${row.after}` : "";
    return element("li", {}, element("b", {}, row.object), element("span.quiet", {}, ` ${row.where.startsWith(folder) ? row.where.slice(folder.length) : row.where}${modes}`), element("p.quiet", {}, row.message));
  });
  return element("details", { open: rows.length <= 10 }, element("summary", {}, `${rows.length} ${rows.length === 1 ? "object" : "objects"}`), element("ul", {}, ...items));
}
