#include "experiments/report/html/parts.h"

namespace paceline::html {

// Colours c0-c7, of series: Okabe & Ito's palette, darkened or lightened until each has a contrast of 3 against the
// page; texts have 4.5. A test computes both. p0-p8, of the parts of a bar, are others, so that no part looks like a
// series; all of them may lie side by side, so each is as far from every other as a test asks, for those too who do not
// tell all hues apart. On paper a table's head stands again on each page that the table goes on to; a browser leaves
// buttons out of it, so there the heads' names are text. Tints f1-f4 and s1-s4 carry the text colour in light and in
// dark.
const char* page_style() {
  return R"css(
:root{--bg:#fff;--fg:#1b1f24;--mute:#5b6672;--line:#d9dee4;--panel:#f6f8fa;--accent:#0060a8;--good:#00704d;--bad:#b3261e;--warn:#8a5a00;
--c0:#0072b2;--c1:#d55e00;--c2:#00896a;--c3:#b8608f;--c4:#a87300;--c5:#2f8cc0;--c6:#8c8500;--c7:#6b7580;
--p0:#1f244c;--p1:#4c2091;--p2:#aa34ab;--p3:#cb7b12;--p4:#69481e;--p5:#005c65;--p6:#5b9ca7;--p7:#a076ff;--p8:#8a705b;
--f1:#e6f1fa;--f2:#c6dff3;--f3:#9cc8ea;--f4:#6db0df;--s1:#fdf0e2;--s2:#fadcbb;--s3:#f5bf88;--s4:#ee9f55}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e4e9ee;--mute:#98a4b0;--line:#333b44;--panel:#1a2027;--accent:#6cb6f5;--good:#45c99b;--bad:#ff8a80;--warn:#e8b04a;
--c0:#4aa8e8;--c1:#f08a3c;--c2:#2fc598;--c3:#dd8fbb;--c4:#eab23a;--c5:#8cd0f5;--c6:#e0d84a;--c7:#98a4b0;
--p0:#bddff4;--p1:#a768ec;--p2:#ffb9a4;--p3:#bf9f73;--p4:#b0cd29;--p5:#47bfe4;--p6:#707791;--p7:#ffffac;--p8:#b36946;
--f1:#16283a;--f2:#17385a;--f3:#184a7b;--f4:#195d9e;--s1:#32230f;--s2:#4c300f;--s3:#683f10;--s4:#854d0e}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:27px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:19px;margin:38px 0 8px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:15px;margin:18px 0 4px}h4{font-size:13px;margin:12px 0 2px}
section{content-visibility:auto;contain-intrinsic-size:auto 900px}
p{margin:6px 0;max-width:100ch}ol,ul{margin:6px 0}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.skip,.titled caption{position:absolute;left:-9999px}.skip:focus{left:12px;top:8px;background:var(--bg);padding:4px 10px}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13.5px;margin:14px 0 0}
.sub,.note{color:var(--mute)}.note{font-size:13.5px}
.badges{margin:12px 0 0;display:flex;flex-wrap:wrap;gap:8px}
.badge{border:1px solid var(--line);background:var(--panel);border-radius:999px;padding:2px 11px;font-size:13px}
.badge.good{color:var(--good);border-color:currentColor}.badge.bad{color:var(--bad);border-color:currentColor;font-weight:600}.badge.warn{color:var(--warn);border-color:currentColor}
.verdict{background:var(--panel);border:1px solid var(--line);border-left:4px solid var(--accent);border-radius:6px;padding:10px 18px;margin:20px 0 12px}
.verdict ul{margin:0;padding:0;list-style:none}.verdict li{margin:7px 0;max-width:100ch}.verdict li:first-child{font-size:16.5px;font-weight:600}
.verdict li.caution{color:var(--mute);font-size:14px}.verdict li.bad{color:var(--bad);font-weight:600}
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:10px 14px;overflow:auto;margin:8px 0;white-space:pre-wrap;overflow-wrap:anywhere}
del.part{color:var(--bad);text-decoration:none;border-bottom:2px solid}ins.part{color:var(--accent);text-decoration:none;border-bottom:2px dashed}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
caption{text-align:left;color:var(--mute);font-size:13.5px;padding:0 0 6px}
th,td{padding:4px 7px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap;vertical-align:top}
thead th{background:var(--panel);font-weight:600;vertical-align:bottom}
th.s,td.s{text-align:left}td.why{white-space:normal;min-width:170px;text-align:left}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort=ascending] button::after{content:" \25B2"}th[aria-sort=descending] button::after{content:" \25BC"}
table.fits th,table.fits td.s{white-space:normal}table.fits td.s{min-width:7em}
tbody tr:hover{background:var(--panel)}
tr.muted td{color:var(--mute)}tr.failed td.why,.bad{color:var(--bad)}.good{color:var(--good)}.slow{color:var(--warn)}
.ci{color:var(--mute);font-size:12px}
table.heat{width:auto}table.heat th,table.heat td{text-align:center;padding:6px 10px;border:2px solid var(--bg)}table.heat th[scope=row]{text-align:right;font-weight:400}
table.heat td.none{color:var(--mute)}table.heat tr:hover{background:none}
.open{background:repeating-linear-gradient(135deg,var(--panel) 0 5px,var(--bg) 5px 9px)}
.f1{background:var(--f1)}.f2{background:var(--f2)}.f3{background:var(--f3)}.f4{background:var(--f4)}.s1{background:var(--s1)}.s2{background:var(--s2)}.s3{background:var(--s3)}.s4{background:var(--s4)}
.filter{display:flex;flex-wrap:wrap;align-items:center;gap:4px 12px;margin:4px 0 10px;font-size:13.5px}
.filter input{font:inherit;padding:4px 10px;border:1px solid var(--mute);border-radius:6px;background:var(--bg);color:var(--fg);width:280px;max-width:100%}
.grid{display:flex;flex-wrap:wrap;gap:10px 14px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13.5px;margin:8px 0}.legend span{display:inline-flex;align-items:center;gap:6px}
.downloads{display:flex;flex-wrap:wrap;gap:8px;align-items:center}.button{border:1px solid var(--mute);border-radius:6px;padding:3px 11px;text-decoration:none}
svg.chart{max-width:100%;height:auto;display:block}.wide svg.chart{min-width:620px}
.wide svg.rows{min-width:170px;max-width:none;overflow:visible}.beside{display:flex;flex-wrap:wrap;gap:4px 24px;align-items:center}.beside>*{min-width:0;max-width:100%}
svg text{fill:var(--fg);font:12px system-ui,"Liberation Sans",Arial,sans-serif}svg .t,svg .t text{fill:var(--mute);font-size:11.5px}svg .h{font-weight:600;font-size:13px}
svg .h,svg .v{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
svg .g{stroke:var(--line);fill:none}svg .ref{stroke:var(--mute);stroke-width:1.2;stroke-dasharray:4 3;fill:none}
svg .l{fill:none;stroke-width:2}svg .dash{stroke-dasharray:7 4}svg .dashdot{stroke-dasharray:9 3 2 3}svg .dot{stroke-dasharray:1.5 4;stroke-linecap:round}
svg .e{fill:none;stroke-width:1.3}svg .w{stroke:var(--fg);stroke-width:1.2;fill:none}svg .m,svg .b{stroke:var(--bg);stroke-width:1}
svg .faded{opacity:.45}svg text.faded{opacity:1;fill:var(--mute)}
.k0{--k:var(--c0)}.k1{--k:var(--c1)}.k2{--k:var(--c2)}.k3{--k:var(--c3)}.k4{--k:var(--c4)}.k5{--k:var(--c5)}.k6{--k:var(--c6)}.k7{--k:var(--c7)}
.p0{--k:var(--p0)}.p1{--k:var(--p1)}.p2{--k:var(--p2)}.p3{--k:var(--p3)}.p4{--k:var(--p4)}.p5{--k:var(--p5)}.p6{--k:var(--p6)}.p7{--k:var(--p7)}.p8{--k:var(--p8)}
svg .l,svg .e{stroke:var(--k)}svg .m,svg .b{fill:var(--k)}
details{margin:8px 0}summary{cursor:pointer;font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;margin:8px 0;font-size:14px}dt{color:var(--mute)}dd{margin:0;overflow-wrap:anywhere}
@media screen and (max-width:760px){svg .odd{display:none}main{padding:18px 14px 40px}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}
@media print{:root{--bg:#fff;--fg:#000;--mute:#444;--line:#ccc;--panel:#f6f8fa;--accent:#0060a8;--good:#00704d;--bad:#b3261e;--warn:#8a5a00;
--c0:#0072b2;--c1:#d55e00;--c2:#00896a;--c3:#b8608f;--c4:#a87300;--c5:#2f8cc0;--c6:#8c8500;--c7:#6b7580;
--p0:#1f244c;--p1:#4c2091;--p2:#aa34ab;--p3:#cb7b12;--p4:#69481e;--p5:#005c65;--p6:#5b9ca7;--p7:#a076ff;--p8:#8a705b;
--f1:#e6f1fa;--f2:#c6dff3;--f3:#9cc8ea;--f4:#6db0df;--s1:#fdf0e2;--s2:#fadcbb;--s3:#f5bf88;--s4:#ee9f55}
section{content-visibility:visible}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}main{max-width:none;padding:0}body{font-size:11px}h1{font-size:20px}h2{font-size:14px;margin-top:18px}h2,h3,h4,caption,.legend{break-after:avoid}
.note,.sub,.legend,caption,.badge,dl,.verdict li,.verdict li.caution{font-size:10px}.verdict li:first-child{font-size:13px}h3{font-size:12px}pre,code{font-size:9px}.grid svg.chart{max-width:48%}
svg.chart,.verdict,tr{break-inside:avoid}.filter,nav,.skip,.downloads,.files{display:none}details::details-content{content-visibility:visible;display:block}
.wide svg.rows{zoom:.62;max-height:none!important}
th button{display:none}th[data-name]::before{content:attr(data-name)}
table{font-size:8px}th,td{padding:1px 3px;white-space:normal}td.why{min-width:90px}.ci{font-size:7px}.wide{overflow:visible}.wide svg.chart{min-width:0;max-height:190mm}}
)css";
}

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
