// Models that do not translate: a text goes on as it is written; labels, tags and guesses come while one types.

import * as api from "./api.js";
import { start, t } from "./texts.js";

const DEBOUNCE = 250; // milliseconds without a key
const LABELS = 5;
const AROUND = 24; // characters shown on each side of a blank
const BLANK = "___";
const INVITES = { generate: "begin_here", classify: "label_here", tag: "label_here", fill: "blanks_here" };
const byId = (id) => document.getElementById(id);
const [text, output, model] = ["text", "output", "model"].map(byId);
const state = { models: [], limit: 0, running: null, waiting: 0 };

const chosen = () => state.models.find((one) => one.name === model.value) ?? state.models[0];
const percent = (share) => `${(100 * share).toFixed(1)}%`;

function el(name, className, ...children) {
  const element = Object.assign(document.createElement(name), { className });
  element.append(...children);
  return element;
}

// What each kind of model gives

async function write(signal) {
  const grown = el("span", "grown");
  output.replaceChildren(text.value, grown);
  const sample = byId("sample").checked;
  const asked = {
    prompt: text.value, model: model.value, stream: true, max_tokens: Number(byId("length").value), sample,
    ...(sample ? { temperature: Number(byId("temperature").value), seed: Math.floor(Math.random() * 2 ** 31) } : {}),
  };
  let said = "";
  for await (const event of api.stream("/generate", asked, signal)) {
    said += event.text;
    grown.textContent = said.startsWith(text.value) ? said.slice(text.value.length) : said;
  }
}

function bars(labels) {
  return labels.map(({ name, probability }) => {
    const bar = el("span", "bar");
    bar.style.setProperty("--share", probability);
    return el("div", "label", el("span", "", name), bar, el("small", "", percent(probability)));
  });
}

async function classify(signal) {
  const { labels } = await api.ask("/classify", { q: text.value, model: model.value, n_best: LABELS }, signal);
  output.replaceChildren(...bars(labels));
}

const ending = (part) => (part.length > AROUND ? `…${part.slice(-AROUND)}` : part);
const beginning = (part) => (part.length > AROUND ? `${part.slice(0, AROUND)}…` : part);

async function fill(signal) {
  if (!text.value.includes(BLANK)) return output.replaceChildren();
  const { blanks } = await api.ask("/fill", { q: text.value, model: model.value, n_best: LABELS }, signal);
  const between = text.value.split(BLANK);
  const rows = blanks.map((labels, at) => el("section", "blank",
    el("p", "", ending(between[at]), el("mark", "", labels[0].name), beginning(between[at + 1])),
    ...bars(labels)));
  return output.replaceChildren(...rows);
}

async function tag(signal) {
  const { words } = await api.ask("/tag", { q: text.value, model: model.value }, signal);
  output.replaceChildren(...words.map(({ word, label }) => {
    const tagged = el("span", "tagged", word, el("small", "", label.name));
    tagged.title = percent(label.probability);
    return tagged;
  }));
}

const ANSWERS = { generate: write, classify, tag, fill };

async function answer() {
  state.running?.abort();
  const running = state.running = new AbortController();
  clearTimeout(state.waiting);
  state.waiting = 0;
  const { task } = chosen();
  showTrouble("");
  if (!text.value.trim() && task !== "generate") {
    finish();
    return output.replaceChildren();
  }
  output.setAttribute("aria-busy", "true");
  byId("stop").hidden = task !== "generate";
  try {
    await ANSWERS[task](running.signal);
  } catch (error) {
    if (error.name !== "AbortError") showTrouble(error.message);
  } finally {
    if (state.running === running && !state.waiting) finish();
  }
  return undefined;
}

function finish() {
  output.removeAttribute("aria-busy");
  byId("stop").hidden = true;
}

function soon() {
  byId("count").textContent = text.value ? `${text.value.length} / ${state.limit}` : "";
  clearTimeout(state.waiting);
  state.waiting = 0;
  if (chosen().task === "generate") return;
  state.waiting = setTimeout(answer, DEBOUNCE);
  output.setAttribute("aria-busy", "true"); // what stands there is no longer the answer
}

// Drawing

function draw() {
  const before = model.value;
  model.replaceChildren(...state.models.map(({ name, task }) => new Option(`${name} · ${t(task)}`, name)));
  if (before) model.value = before;
  if (!state.models.length) return;
  const writes = chosen().task === "generate";
  for (const element of document.querySelectorAll(".writing")) element.hidden = !writes;
  byId("go").hidden = !writes;
  byId("temperature").disabled = !byId("sample").checked;
  for (const id of ["length", "temperature"]) byId(`${id}-now`).textContent = byId(id).value;
  text.placeholder = t(INVITES[chosen().task]);
  byId("hint").textContent = t(`${chosen().task}_hint`);
}

function showTrouble(message) {
  byId("trouble").textContent = message;
  byId("trouble").hidden = !message;
}

function changeModel() {
  state.running?.abort();
  finish();
  output.replaceChildren();
  draw();
  soon();
}

// Beginning

async function begin() {
  start(draw);
  const [models, settings] = await Promise.all([api.get("/family"), api.get("/frontend/settings")]);
  Object.assign(state, { models, limit: settings.charLimit });
  text.maxLength = settings.charLimit;
  byId("key-label").hidden = !settings.keyRequired;
  byId("key").value = api.apiKey();
  draw();
  model.addEventListener("change", changeModel);
  text.addEventListener("input", soon);
  text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) answer(); });
  byId("go").addEventListener("click", answer);
  byId("stop").addEventListener("click", () => { state.running?.abort(); finish(); });
  for (const id of ["length", "temperature", "sample"]) byId(id).addEventListener("input", draw);
  byId("key").addEventListener("change", (event) => api.setApiKey(event.target.value));
}

begin().catch((error) => showTrouble(error.message));
