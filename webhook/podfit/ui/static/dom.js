// Elements from text that is never parsed as HTML, and questions to the server.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children; a string child becomes text. */
export function element(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role" || key === "for") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** POST a question: {answer} or {error, field}. */
export async function ask(path, question) {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
    });
    const found = await response.json();
    return response.ok ? { answer: found } : found;
  } catch {
    return { error: "podfit ui does not answer: is it still running?", field: null };
  }
}

/** Ask at most one question at a time; of those that wait, only the newest is asked. */
export function latest(work) {
  let running = false;
  let waiting = false;
  return async function start() {
    if (running) {
      waiting = true;
      return;
    }
    running = true;
    do {
      waiting = false;
      await work();
    } while (waiting);
    running = false;
  };
}

/** A button that copies a text, and says so. */
export function copyButton(label, text) {
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", () => copied(button, text()));
  return button;
}

export async function copied(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = button.dataset.done ?? "Copied";
  } catch {
    button.textContent = "Copying is not allowed here";
  }
  setTimeout(() => (button.textContent = before), 1500);
}

/** A table that narrow screens show as cards: each cell has the name of its column. */
export function table(className, names, rows) {
  const head = names.map((name) => (name ? element("th", { scope: "col", role: "columnheader" }, name) : element("td", { role: "cell" })));
  const named = (index) => (names[index] ? { "data-name": names[index] } : {});
  const line = (cells) => element("tr", { role: "row" }, ...cells.map((cell, index) => element("td", { role: "cell", ...named(index) }, cell)));
  return element(
    `table.cards.${className}`,
    { role: "table" },
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...head)),
    element("tbody", { role: "rowgroup" }, ...rows.map(line)),
  );
}

/** On which GPUs an engine without a named one fits: a row per verdict. */
export function sides(rows) {
  if (!rows.length) return [];
  const row = ({ verdict, words, gpus }) => [element("dt", {}, element(`span.badge.${verdict}`, {}, words)), element("dd", {}, gpus.join(", "))];
  return [element("dl.partition", {}, ...rows.flatMap(row))];
}

/** A heading of findings → words; the order is by importance. */
export const HEADINGS = { denied: "denied", would_deny: "denied if enforced", likely: "likely to fail", advice: "advice" };

/** A finding: its level, rule, message, details and what would fit. */
export function finding(one, place = null) {
  const list = (items, className) => (items.length ? element(`ul.${className}`, {}, ...items.map((text) => element("li", {}, text))) : null);
  return element(
    "div.finding",
    {},
    element("p", {}, element(`span.badge.${one.level}`, {}, HEADINGS[one.heading ?? one.level]), " ", element("code", {}, one.rule), " ", place ?? ""),
    element("p.message", {}, one.message),
    list(one.details, "details"),
    list(one.suggestions, "fits"),
  );
}
