#include "experiments/report/html_parts.h"

namespace paceline::html {

// Colours 0-7: Okabe & Ito's palette, darkened or lightened for contrast against the page.
const char* page_style() {
  return R"css(
:root{--bg:#fff;--fg:#1b1f24;--mute:#5b6672;--line:#e3e7ec;--panel:#f6f8fa;--accent:#0060a8;--good:#00704d;--bad:#b3261e;--warn:#8a5a00;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8608f;--c4:#c98a00;--c5:#3f9fd6;--c6:#a39a00;--c7:#6b7580}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e4e9ee;--mute:#98a4b0;--line:#2b323a;--panel:#1a2027;--accent:#6cb6f5;--good:#45c99b;--bad:#ff8a80;--warn:#e8b04a;
--c0:#4aa8e8;--c1:#f08a3c;--c2:#2fc598;--c3:#dd8fbb;--c4:#eab23a;--c5:#8cd0f5;--c6:#e0d84a;--c7:#98a4b0}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:27px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:18px;margin:38px 0 8px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:15px;margin:18px 0 4px}
p{margin:6px 0;max-width:100ch}
.sub,.note{color:var(--mute)}.note{font-size:13.5px}
.badges{margin:12px 0 0;display:flex;flex-wrap:wrap;gap:8px}
.badge{border:1px solid var(--line);background:var(--panel);border-radius:999px;padding:2px 11px;font-size:13px}
.badge.good{color:var(--good);border-color:currentColor}.badge.bad{color:var(--bad);border-color:currentColor;font-weight:600}.badge.warn{color:var(--warn);border-color:currentColor}
.verdict{background:var(--panel);border:1px solid var(--line);border-left:4px solid var(--accent);border-radius:6px;padding:10px 18px;margin:20px 0 12px}
.verdict ul{margin:0;padding:0;list-style:none}.verdict li{margin:7px 0;max-width:100ch}.verdict li:first-child{font-size:16.5px;font-weight:600}
.verdict li.caution{color:var(--mute);font-size:14px}.verdict li.bad{color:var(--bad);font-weight:600}
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:10px 14px;overflow:auto;margin:8px 0;white-space:pre-wrap;overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
caption{text-align:left;color:var(--mute);font-size:13.5px;padding:0 0 6px}
th,td{padding:4px 7px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap;vertical-align:top}
thead th{background:var(--panel);font-weight:600;vertical-align:bottom}
th.s,td.s{text-align:left}td.why{white-space:normal;min-width:170px;text-align:left}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort=ascending] button::after{content:" \25B2"}th[aria-sort=descending] button::after{content:" \25BC"}
tbody tr:hover{background:var(--panel)}
tr.muted td{color:var(--mute)}tr.failed td.why,.bad{color:var(--bad)}.good{color:var(--good)}.slow{color:var(--warn)}
.ci{color:var(--mute);font-size:12px}
td .bar{display:inline-block;height:8px;border-radius:2px;background:var(--c0);margin-right:6px;vertical-align:1px}
input.filter{font:inherit;padding:4px 10px;border:1px solid var(--line);border-radius:6px;background:var(--bg);color:var(--fg);margin:4px 0 10px;width:280px;max-width:100%}
.grid{display:flex;flex-wrap:wrap;gap:10px 14px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13.5px;margin:8px 0}.legend span{display:inline-flex;align-items:center;gap:6px}
svg.chart{max-width:100%;height:auto;display:block}
svg text{fill:var(--fg);font:12px system-ui,"Liberation Sans",Arial,sans-serif}svg .t{fill:var(--mute);font-size:11.5px}svg .h{font-weight:600;font-size:13px}
svg .g{stroke:var(--line);fill:none}svg .ref{stroke:var(--mute);stroke-dasharray:2 3;fill:none}
svg .l{fill:none;stroke-width:2}svg .dash{stroke-dasharray:7 4}svg .dot{stroke-dasharray:1.5 4;stroke-linecap:round}
svg .e{fill:none;stroke-width:1.3}svg .w{stroke:var(--fg);stroke-width:1.2;fill:none}svg .m{stroke:var(--bg);stroke-width:1}
svg .faded{opacity:.4}svg text.faded{opacity:.65}
svg .l.k0,svg .e.k0{stroke:var(--c0)}svg .l.k1,svg .e.k1{stroke:var(--c1)}svg .l.k2,svg .e.k2{stroke:var(--c2)}svg .l.k3,svg .e.k3{stroke:var(--c3)}
svg .l.k4,svg .e.k4{stroke:var(--c4)}svg .l.k5,svg .e.k5{stroke:var(--c5)}svg .l.k6,svg .e.k6{stroke:var(--c6)}svg .l.k7,svg .e.k7{stroke:var(--c7)}
svg .m.k0,svg .b.k0{fill:var(--c0)}svg .m.k1,svg .b.k1{fill:var(--c1)}svg .m.k2,svg .b.k2{fill:var(--c2)}svg .m.k3,svg .b.k3{fill:var(--c3)}
svg .m.k4,svg .b.k4{fill:var(--c4)}svg .m.k5,svg .b.k5{fill:var(--c5)}svg .m.k6,svg .b.k6{fill:var(--c6)}svg .m.k7,svg .b.k7{fill:var(--c7)}
details{margin:8px 0}summary{cursor:pointer;font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;margin:8px 0;font-size:14px}dt{color:var(--mute)}dd{margin:0;overflow-wrap:anywhere}
@media print{main{max-width:none;padding:0}body{font-size:11px}h2{break-after:avoid}svg.chart,.verdict,tr{break-inside:avoid}input.filter{display:none}
table{font-size:9px}th,td{padding:2px 4px}.wide{overflow:visible}}
)css";
}

// Sorting and filtering; without script the table stands in plan order.
const char* page_script() {
  return R"js(
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.title = "Sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.tHead.querySelectorAll("th").forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => { const c = row.cells[column]; return c.dataset.v === undefined ? c.textContent : c.dataset.v; };
      const sorted = [...rows].sort((a, b) => {
        const x = key(a), y = key(b);
        if (x === "" || y === "") return (x === "") - (y === "");
        const d = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
        return down ? -d : d;
      });
      body.append(...sorted);
    });
  });
  const input = document.createElement("input");
  input.className = "filter";
  input.type = "search";
  input.placeholder = "filter rows, e.g. ngram tp2";
  input.setAttribute("aria-label", "Filter rows");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = (row.dataset.label + " " + row.textContent).toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
  table.parentNode.before(input);
}
)js";
}

}  // namespace paceline::html
