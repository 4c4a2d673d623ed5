// Search as you type over the catalog: the ARIA combobox pattern with a list box. `chosen` is called for a whole name:
// one of the catalog, or any other once the field is left.

import { element } from "./dom.js";

const MOST = 12;
let catalog = null;

async function models() {
  catalog ??= fetch("models").then((response) => response.json());
  return catalog;
}

/** The ids that contain all words: originals before copies, and first those whose name begins with the first word. */
function matches({ originals, copies }, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const rank = (id) => {
    if (id === words[0]) return 0;
    const name = id.slice(id.indexOf("/") + 1);
    return id.startsWith(words[0]) || name.startsWith(words[0]) ? 1 : 2;
  };
  const sorted = (ids) =>
    ids
      .map((id) => [id, id.toLowerCase()])
      .filter(([, lower]) => words.every((word) => lower.includes(word)))
      .sort(([, one], [, other]) => rank(one) - rank(other) || one.length - other.length)
      .map(([id]) => id);
  return [...sorted(originals), ...sorted(copies)].slice(0, MOST);
}

export function combobox(input, list, chosen) {
  let active = -1;
  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (id) => {
    input.value = id;
    close();
    chosen();
  };
  const mark = (index) => {
    active = index;
    for (const [place, option] of [...list.children].entries()) option.setAttribute("aria-selected", place === active);
    const option = list.children[active];
    if (!option) return;
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", async () => {
    const catalog = await models();
    const ids = matches(catalog, input.value);
    const exact = catalog.originals.includes(input.value) || catalog.copies.includes(input.value);
    if (exact) chosen();
    if (!ids.length || (exact && ids.length === 1) || document.activeElement !== input) return close();
    list.replaceChildren(
      ...ids.map((id, index) => {
        const option = element("li", { id: `${list.id}-${index}`, role: "option", "aria-selected": "false" }, id);
        option.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          choose(id);
        });
        return option;
      }),
    );
    list.hidden = false;
    active = -1;
    input.setAttribute("aria-expanded", "true");
  });
  input.addEventListener("keydown", (event) => {
    const count = list.children.length;
    if (list.hidden) return;
    if (event.key === "ArrowDown") mark((active + 1) % count);
    else if (event.key === "ArrowUp") mark((active - 1 + count) % count);
    else if (event.key === "Enter") choose(list.children[Math.max(active, 0)].textContent);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", close);
  input.addEventListener("change", chosen);
}
