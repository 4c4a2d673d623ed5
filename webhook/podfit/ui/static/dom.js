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

const LEVELS = { denied: "denied", likely: "likely to fail", advice: "advice" };

/** A finding: its level, rule, message, details and what would fit. */
export function finding(one, place = null) {
  const list = (items, className) => (items.length ? element(`ul.${className}`, {}, ...items.map((text) => element("li", {}, text))) : null);
  return element(
    "div.finding",
    {},
    element("p", {}, element(`span.badge.${one.level}`, {}, LEVELS[one.level]), " ", element("code", {}, one.rule), " ", place ?? ""),
    element("p.message", {}, one.message),
    list(one.details, "details"),
    list(one.suggestions, "fits"),
  );
}
