#include "engine/serve/page/parts.h"

namespace paceline {

// Colours are those of the report. A kept draft differs by its line, too, for those who do not tell the tints apart.
const char* serve_page_style() {
  return R"css(
:root{--bg:#fff;--fg:#1b1f24;--mute:#5b6672;--line:#d9dee4;--panel:#f6f8fa;--accent:#0060a8;--bad:#b3261e;--tint:#dcecf8;--c0:#0072b2;--c1:#d55e00}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e4e9ee;--mute:#98a4b0;--line:#333b44;--panel:#1a2027;--accent:#6cb6f5;--bad:#ff8a80;--tint:#17385a;--c0:#4aa8e8;--c1:#f08a3c}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
main{max-width:960px;margin:0 auto;padding:20px 20px 40px}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 14px}
h1{font-size:24px;line-height:1.2;margin:0;letter-spacing:-.01em}
h2{font-size:17px;margin:24px 0 6px}
p{margin:0}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
#model{overflow-wrap:anywhere}
#state,.note,.unit,.scale,.stats{color:var(--mute);font-size:13px}
#state.bad,.failure{color:var(--bad)}
.gauges{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:12px;margin-top:16px}
figure{margin:0;padding:10px 12px 8px;background:var(--panel);border:1px solid var(--line);border-radius:8px;min-width:0}
figcaption{font-size:13px;color:var(--mute)}
.value{display:block;font-size:22px;line-height:1.25;color:var(--fg);font-variant-numeric:tabular-nums;white-space:nowrap}
svg{display:block;width:100%;height:52px;margin-top:4px}
svg path{fill:none;stroke-width:2;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
svg .s0{stroke:var(--c0)}svg .s1{stroke:var(--c1);stroke-dasharray:4 3}
svg .edge{stroke:var(--line);stroke-width:1}
.scale{display:flex;justify-content:space-between;font-size:11.5px}
.key0{border-bottom:2px solid var(--c0)}.key1{border-bottom:2px dashed var(--c1)}
#log{min-height:140px;max-height:55vh;overflow:auto;padding:4px 14px;border:1px solid var(--line);border-radius:8px;margin:8px 0 12px}
#log:empty::before{content:attr(data-empty);color:var(--mute);display:block;padding:8px 0}
.turn{margin:10px 0}
.who{font-size:12.5px;color:var(--mute)}
.text{white-space:pre-wrap;overflow-wrap:anywhere}
mark{color:inherit;background:var(--tint);border-bottom:2px solid var(--accent);border-radius:2px;margin-right:1px;-webkit-box-decoration-break:clone;box-decoration-break:clone}
form label{display:block;font-size:13px;color:var(--mute)}
textarea,input,button{font:inherit;color:var(--fg);background:var(--bg);border:1px solid var(--mute);border-radius:6px}
textarea{width:100%;padding:8px 10px;resize:vertical;min-height:70px;display:block;margin:2px 0 4px}
.row{display:flex;flex-wrap:wrap;align-items:end;gap:10px;margin-top:10px}
input{width:8em;padding:5px 8px;display:block}
button{padding:5px 16px;cursor:pointer}
button[type=submit]{background:var(--accent);border-color:var(--accent);color:var(--bg);font-weight:600}
button:disabled{opacity:.5;cursor:default}
.buttons{display:flex;gap:10px;margin-left:auto}
@media(max-width:480px){main{padding:14px 12px 30px}.gauges{grid-template-columns:1fr 1fr;gap:8px}figure{padding:8px 9px 6px}.value{font-size:18px}.buttons{margin-left:0}}
)css";
}

}  // namespace paceline
