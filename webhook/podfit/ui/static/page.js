// The tabs, with the keys of the ARIA tab pattern; the fragment of the URL holds the tab and its controls.

import * as check from "./check.js";
import * as effect from "./effect.js";
import * as plan from "./plan.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
const starts = { plan: plan.start, check: check.start, effect: effect.start };
const started = new Set();

function show(tab, focus = false) {
  for (const one of tabs) {
    const selected = one === tab;
    one.setAttribute("aria-selected", selected);
    one.tabIndex = selected ? 0 : -1;
    document.getElementById(one.getAttribute("aria-controls")).hidden = !selected;
  }
  if (focus) tab.focus();
  const name = tab.getAttribute("aria-controls");
  if (!started.has(name)) {
    started.add(name);
    starts[name]();
  }
}

for (const [index, tab] of tabs.entries()) {
  tab.addEventListener("click", () => {
    show(tab);
    history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
    if (tab.id === "tab-plan") plan.keep();
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) show(tabs[(index + step + tabs.length) % tabs.length], true);
  });
}

const wanted = location.hash.slice(1).split(":")[0];
show(tabs.find((tab) => tab.getAttribute("aria-controls") === wanted) ?? tabs[0]);
