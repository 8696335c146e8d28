#include "experiments/report/html/parts.h"

namespace paceline::html {

// Sorting, filtering and printing; without script every table stands complete in plan order.
const char* page_script() {
  return R"js(
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = (head.title ? head.title + "; " : "") + "sort";
    head.removeAttribute("title");
    head.dataset.name = button.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      table.tHead.querySelectorAll("th").forEach(h => h.setAttribute("aria-sort", "none"));
      if (before === "descending") { body.append(...rows); return; }
      const down = before === "ascending";
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      // The number at the start of a cell decides, else its text; empty cells stand last either way.
      const keyed = rows.map(row => {
        const text = row.cells[column].textContent.trim(), number = parseFloat(text);
        return [text === "–" ? "" : text, number, row];
      });
      keyed.sort(([x, a], [y, b]) => {
        if (x === "" || y === "") return (x === "") - (y === "");
        const d = isNaN(a) || isNaN(b) ? x.localeCompare(y) : a - b;
        return down ? -d : d;
      });
      body.append(...keyed.map(entry => entry[2]));
    });
  });
  if (!table.classList.contains("filterable")) continue;
  const label = document.createElement("label"), input = document.createElement("input"), count = document.createElement("span");
  label.className = "filter";
  input.type = "search";
  input.placeholder = "e.g. ngram tp2";
  count.className = "sub";
  count.setAttribute("aria-live", "polite");
  label.append("Filter rows", input, count);
  const texts = rows.map(row => (row.dataset.label + " " + row.textContent).toLowerCase());
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => { row.hidden = !words.every(word => texts[i].includes(word)); shown += !row.hidden; });
    count.textContent = shown + " of " + rows.length + " rows";
  };
  input.addEventListener("input", show);
  show();
  table.parentNode.before(label);
}
// Paper cannot be unfolded: what is closed opens for printing and closes after it.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach(d => { d.open = true; });
});
addEventListener("afterprint", () => opened.forEach(d => { d.open = false; }));
)js";
}

}  // namespace paceline::html
