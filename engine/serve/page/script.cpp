#include "engine/serve/page/parts.h"

namespace paceline {

const char* serve_page_script() {
  return R"js(
"use strict";
const byId = id => document.getElementById(id);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;  // the only way of a text into the page: it is never read as HTML
  return node;
};

// Figures: one sample a second while the page can be seen, of the last two minutes.

const kSeconds = 120, kGap = 4;  // samples further apart than kGap are not joined
const percent = share => (100 * share).toFixed(share > 0 && share < 0.095 ? 1 : 0) + " %";
const gauges = [
  {name: "Throughput", unit: "tok/s", keys: ["speed"], least: 10, show: s => s.speed.toFixed(s.speed > 0 && s.speed < 9.95 ? 1 : 0)},
  {name: "Acceptance", unit: "of drafted tokens", keys: ["acceptance"], most: 1, show: s => percent(s.acceptance)},
  {name: "KV cache in use", unit: "of all blocks", keys: ["kv"], most: 1, show: s => percent(s.kv)},
  {name: "Queue", unit: "sequences", keys: ["running", "waiting"], words: ["running", "waiting"], least: 4,
   show: s => s.running + " + " + s.waiting},
];
const samples = [];
let lastCounts = null, drafts = true;

function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

for (const gauge of gauges) {
  const figure = make("figure"), caption = make("figcaption", "", gauge.name), scale = make("div", "scale");
  gauge.value = make("span", "value", "–");
  gauge.unitText = make("span", "unit", gauge.words ? "" : gauge.unit);
  for (const [i, word] of (gauge.words || []).entries())
    gauge.unitText.append(i ? " + " : "", make("span", "key" + i, word));
  caption.append(gauge.value, gauge.unitText);
  gauge.chart = svg("svg", {viewBox: "0 0 120 50", preserveAspectRatio: "none", role: "img"});
  gauge.chart.append(svg("path", {class: "edge", d: "M0 49.5H120"}));
  gauge.lines = gauge.keys.map((key, i) => svg("path", {class: "s" + i}));
  gauge.chart.append(...gauge.lines);
  gauge.top = make("span", "");
  scale.append(make("span", "", "2 min ago"), gauge.top, make("span", "", "now"));
  figure.append(caption, gauge.chart, scale);
  figure.dataset.gauge = gauge.keys[0];
  byId("gauges").append(figure);
}

/// 1, 2 or 5 times a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find(step => step * power >= value * 0.9999);
}

function draw() {
  const now = samples.at(-1);
  for (const gauge of gauges) {
    const top = gauge.most || roundUp(Math.max(gauge.least, ...samples.flatMap(s => gauge.keys.map(k => s[k] || 0))));
    gauge.keys.forEach((key, i) => {
      let path = "", before = null;
      for (const sample of samples) {
        if (sample[key] === null) { before = null; continue; }
        const joined = before !== null && sample.at - before < kGap;
        const x = (120 - (now.at - sample.at) * 120 / kSeconds).toFixed(2);
        path += (joined ? "L" : "M") + x + " " + (49 - 47 * sample[key] / top).toFixed(2) + (joined ? "" : "h.01");
        before = sample.at;
      }
      gauge.lines[i].setAttribute("d", path);
    });
    // A figure that the last second does not give, as of drafts while none is made, is the last one there was.
    const known = samples.findLast(s => gauge.keys.every(key => s[key] !== null));
    gauge.value.textContent = known ? gauge.show(known) : "–";
    gauge.top.textContent = "top: " + (gauge.most ? percent(top) : top);
    gauge.chart.setAttribute("aria-label", gauge.name + " of the last two minutes; now " + gauge.value.textContent +
                             " " + (gauge.words ? gauge.words.join(" + ") : gauge.unit));
  }
}

function take(text) {
  const found = new Map([...text.matchAll(/^(paceline_\w+) (\S+)$/gm)].map(m => [m[1], Number(m[2])]));
  const get = name => found.get("paceline_" + name);
  const counts = {at: performance.now() / 1000, tokens: get("generation_tokens_total"),
                  drafted: get("spec_decode_draft_tokens_total"), kept: get("spec_decode_accepted_tokens_total")};
  if (drafts !== (counts.drafted !== undefined)) {
    drafts = !drafts;
    byId("legend").hidden = !drafts;
    gauges[1].unitText.textContent = drafts ? gauges[1].unit : "this server drafts nothing";
  }
  const before = lastCounts;
  lastCounts = counts;
  if (!before || counts.tokens < before.tokens) return;  // the first, or the server began anew
  const drafted = counts.drafted - before.drafted;
  samples.push({at: counts.at, speed: (counts.tokens - before.tokens) / (counts.at - before.at),
                acceptance: drafted > 0 ? (counts.kept - before.kept) / drafted : null,
                kv: get("kv_cache_usage_ratio"), running: get("requests_running"), waiting: get("requests_waiting")});
  while (samples[0].at < counts.at - kSeconds) samples.shift();
  draw();
}

let polling = false, timer = 0;
async function poll() {
  if (polling || document.hidden) return;
  polling = true;
  clearTimeout(timer);  // of the one before, where the page has just come back
  let state = "live";
  try {
    const reply = await fetch("metrics", {cache: "no-store", signal: AbortSignal.timeout(5000)});
    if (!reply.ok) throw new Error("status " + reply.status);
    take(await reply.text());
  } catch (error) {
    state = "no answer from the server; asking again";
    lastCounts = null;
  }
  if (byId("state").textContent !== state) byId("state").textContent = state;
  byId("state").classList.toggle("bad", state !== "live");
  polling = false;
  timer = setTimeout(poll, 1000);
}
document.addEventListener("visibilitychange", poll);

// The chat. A model without a chat template continues texts instead.

let messages = [], isChat = true, open = null;  // open: the AbortController of the answer under way

function addTurn(who, text) {
  const turn = make("div", "turn");
  turn.append(make("div", "who", who));
  const body = make("div", "text", text);
  turn.append(body);
  byId("log").append(turn);
  byId("log").scrollTop = byId("log").scrollHeight;
  return body;
}

function setBusy(busy) {
  byId("send").disabled = busy;
  byId("stop").disabled = !busy;
  byId("clear").disabled = busy;
  byId("log").setAttribute("aria-busy", busy);  // read out once, when it is whole
}

function ask(prompt, signal) {
  const body = {stream: true, return_draft_flags: true, max_tokens: Number(byId("max-tokens").value),
                temperature: Number(byId("temperature").value)};
  if (isChat) body.messages = [...messages, {role: "user", content: prompt}];
  else body.prompt = prompt;
  return fetch(isChat ? "v1/chat/completions" : "v1/completions",
               {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), signal});
}

/// The error of an answer that is no stream.
async function errorOf(reply) {
  try { return (await reply.json()).error; } catch (error) { return {message: "status " + reply.status}; }
}

/// The events' data, as they come.
async function* eventsOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = "";;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
  }
}

/// Appends the tokens of a stream to `body`; returns what they are.
async function show(reply, body) {
  const log = byId("log"), seen = {tokens: 0, kept: 0, text: "", first: 0, last: 0, perStep: null};
  for await (const event of eventsOf(reply)) {
    if (event.error) throw new Error(event.error.message);
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    for (const flag of event.choices[0].draft_flags) {
      ++seen.tokens;
      seen.kept += flag.kept_draft;
      seen.text += flag.text;
      if (flag.text) body.append(make(flag.kept_draft ? "mark" : "span", "", flag.text));
    }
    seen.last = performance.now();
    if (!seen.first) { seen.first = seen.last; seen.atFirst = seen.tokens; }
    if (event.metrics) seen.perStep = event.metrics.speculative_decoding.mean_acceptance_length;
    if (follows) log.scrollTop = log.scrollHeight;
  }
  return seen;
}

function statsOf(seen) {
  const seconds = (seen.last - seen.first) / 1000, words = [seen.tokens + " tokens"];
  if (drafts) words.push(seen.kept + " kept drafts (" + percent(seen.kept / Math.max(seen.tokens, 1)) + ")");
  if (seen.perStep) words.push(seen.perStep.toFixed(2) + " tokens per drafted step");
  if (seconds > 0.01) words.push(((seen.tokens - seen.atFirst) / seconds).toFixed(0) + " tok/s");
  return words.join(", ");
}

async function say(prompt) {
  open = new AbortController();
  setBusy(true);
  addTurn("You", prompt);
  const body = addTurn("Model", "");
  const seenTexts = () => [...body.childNodes].map(node => node.textContent).join("");
  let note = "", failed = false;
  try {
    let reply = await ask(prompt, open.signal);
    let error = reply.ok ? null : await errorOf(reply);
    if (isChat && error && error.code === "no_chat_template") {
      isChat = false;
      byId("h-chat").textContent = "Completion";
      byId("prompt-label").textContent = "Text to continue (this model has no chat template)";
      reply = await ask(prompt, open.signal);
      error = reply.ok ? null : await errorOf(reply);
    }
    if (error) throw new Error(error.message);
    note = statsOf(await show(reply, body));
  } catch (error) {
    failed = !open.signal.aborted;
    note = failed ? error.message : "stopped";
  }
  body.parentNode.append(make("p", failed ? "failure" : "stats", note));
  byId("log").scrollTop = byId("log").scrollHeight;
  if (isChat && seenTexts())
    messages.push({role: "user", content: prompt}, {role: "assistant", content: seenTexts()});
  open = null;
  setBusy(false);
}

byId("form").addEventListener("submit", event => {
  event.preventDefault();
  const prompt = byId("prompt").value;
  if (open || !prompt.trim()) return;
  byId("prompt").value = "";
  say(prompt);
});
byId("prompt").addEventListener("keydown", event => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("form").requestSubmit();
});
byId("stop").addEventListener("click", () => open && open.abort());
byId("clear").addEventListener("click", () => {
  messages = [];
  byId("log").replaceChildren();
  byId("prompt").focus();
});

fetch("v1/models").then(reply => reply.json()).then(models => {
  const model = models.data[0], most = byId("max-tokens");
  byId("model").textContent = model.id;
  document.title = model.id + " – Paceline";
  most.max = model.max_model_len;
  most.value = Math.min(256, Math.ceil(model.max_model_len / 2));
}).catch(() => {});
poll();
)js";
}

}  // namespace paceline
