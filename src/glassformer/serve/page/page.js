// Translate as you type: the text goes to /stream, sentences come back as they grow.

import * as api from "./api.js";
import { languageName, start, t } from "./texts.js";
import { close, open, walk, wordButtons } from "./words.js";

const DEBOUNCE = 250; // milliseconds without a key
const FAINT = 0.0005; // beyond the first few, words less likely than this are not offered
const byId = (id) => document.getElementById(id);
const [text, output, source, target, model] = ["text", "output", "source", "target", "model"].map(byId);
const state = { models: [], sentences: [], detected: "", limit: 0, running: null, waiting: 0, looked: 0 };

// What can be chosen

function fillChoices() {
  const wanted = source.value || "auto";
  const sources = [...new Set(state.models.map((one) => one.source))];
  options(source, [["auto", t("detect")], ...sources.map((code) => [code, languageName(code)])], wanted);
  const from = state.models.filter((one) => source.value === "auto" || one.source === source.value);
  options(target, [...new Set(from.map((one) => one.target))].map((code) => [code, languageName(code)]), target.value);
  fillModels();
  byId("swap").disabled = !state.models.some((one) => one.source === target.value);
  text.placeholder = t("type_here");
}

function fillModels() {
  const from = source.value === "auto" ? state.detected : source.value;
  const fitting = state.models.filter((one) => one.target === target.value && (!from || one.source === from));
  options(model, fitting.map((one) => [one.name, one.name]), model.value);
  model.disabled = fitting.length < 2;
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, label]) => new Option(label, value)));
  if (pairs.some(([value]) => value === chosen)) select.value = chosen;
}

function request(q, more = {}) {
  const chosen = source.value === "auto" ? {} : { model: model.value };
  return { q, source: source.value, target: target.value, beams: Number(byId("beams").value), ...chosen, ...more };
}

// Translating

function soon() {
  close();
  clearTimeout(state.waiting);
  state.waiting = setTimeout(translate, DEBOUNCE);
  output.setAttribute("aria-busy", "true"); // what stands there is no longer the answer
}

async function translate() {
  state.running?.abort();
  const running = state.running = new AbortController();
  clearTimeout(state.waiting);
  state.waiting = 0;
  showTrouble("");
  byId("others").hidden = true;
  if (!text.value.trim()) {
    Object.assign(state, { sentences: [], detected: "" });
    output.removeAttribute("aria-busy");
    return draw();
  }
  output.setAttribute("aria-busy", "true");
  try {
    const sentences = [];
    for await (const event of api.stream("/stream", request(text.value), running.signal)) {
      if (event.language) state.detected = event.language;
      else sentences[event.place] = { ...event, forced: 0 };
      state.sentences = sentences.length ? sentences : state.sentences;
      draw();
    }
    await fetchAlternatives(running.signal);
  } catch (error) {
    if (error.name !== "AbortError") showTrouble(error.message);
  } finally {
    settle(running);
  }
  return undefined;
}

/** What stands there is the answer now, unless something else has begun or is about to. */
function settle(running) {
  if (state.running === running && !state.waiting) output.removeAttribute("aria-busy");
}

async function fetchAlternatives(signal) {
  const count = Number(byId("alternatives").value);
  if (!count) return;
  const { alternatives } = await api.ask("/translate", request(text.value, { alternatives: count }), signal);
  const items = alternatives.map((one) => Object.assign(document.createElement("li"), { textContent: one }));
  byId("other-list").replaceChildren(...items);
  byId("others").hidden = !items.length;
}

// Another word

async function offerWords(button, sentence, start) {
  state.looked = sentence.place;
  const prefix = sentence.text.slice(0, start);
  try {
    const found = await api.ask("/words", request(sentence.source, { prefix, source: sourceOf(), model: modelOf() }));
    const said = button.textContent;
    const words = found.filter(({ word }) => word && word !== said)
      .filter(({ probability }, rank) => rank < 4 || probability > FAINT);
    if (button.isConnected) open(button, words, (word) => force(sentence, prefix, word));
  } catch (error) {
    showTrouble(error.message);
  }
}

async function force(sentence, begin, word) {
  const prefix = begin + word;
  const running = state.running = new AbortController();
  const asked = request(sentence.source, { prefix, source: sourceOf(), model: modelOf() });
  output.setAttribute("aria-busy", "true");
  try {
    for await (const event of api.stream("/stream", asked, running.signal)) {
      if (event.text === undefined) continue;
      Object.assign(sentence, { text: event.text, forced: prefix.length });
      draw();
    }
    output.querySelector(`[data-place="${sentence.place}"] .word`)?.focus();
  } catch (error) {
    if (error.name !== "AbortError") showTrouble(error.message);
  } finally {
    settle(running);
  }
}

const sourceOf = () => (source.value === "auto" ? state.detected : source.value);

const modelOf = () => state.models.find((one) => one.name === model.value && one.source === sourceOf())?.name
  ?? state.models.find((one) => one.source === sourceOf() && one.target === target.value)?.name ?? "";

// Drawing

const spaced = (code) => !/^(zh|ja|th|lo|km|my)\b/.test(code);

/** The white space before a sentence, as the target language wants it. */
function before(sentence) {
  if (sentence.place === 0 || !sentence.source || sentence.before.includes("\n")) return sentence.before;
  return spaced(target.value) ? sentence.before || " " : sentence.before.trim();
}

const said = () => state.sentences.map((sentence) => before(sentence) + sentence.text).join("");

function draw() {
  const spans = state.sentences.map((sentence) => {
    const span = document.createElement("span");
    span.dataset.place = sentence.place;
    const words = sentence.words
      ? wordButtons(sentence, target.value, (button, start) => offerWords(button, sentence, start))
      : [document.createTextNode(sentence.text)];
    span.append(before(sentence), ...words);
    return span;
  });
  output.lang = target.value;
  output.replaceChildren(...spans);
  const first = output.querySelector(".word");
  if (first) first.tabIndex = 0;
  fillModels();
  const there = state.sentences.some((sentence) => sentence.words);
  byId("detected").textContent = source.value === "auto" && state.detected && text.value.trim()
    ? t("detected", { language: languageName(state.detected) }) : "";
  byId("count").textContent = text.value ? `${text.value.length} / ${state.limit}` : "";
  const forced = state.sentences.some((sentence) => sentence.forced);
  byId("hint").textContent = there && !forced ? t("click_words") : "";
  byId("undo").hidden = !forced;
  for (const id of ["copy", "inspect"]) byId(id).hidden = !there;
  byId("clear").hidden = !text.value;
}

function showTrouble(message) {
  byId("trouble").textContent = message;
  byId("trouble").hidden = !message;
}

function showNumbers() {
  for (const id of ["beams", "alternatives"]) byId(`${id}-now`).textContent = byId(id).value;
}

function inspect() {
  const sentence = state.sentences.find((one) => one.place === state.looked && one.words)
    ?? state.sentences.find((one) => one.words);
  const query = new URLSearchParams({ text: sentence.source, model: modelOf(), beams: byId("beams").value });
  if (sentence.forced) query.set("prefix", sentence.text.slice(0, sentence.forced));
  if (api.apiKey()) query.set("api_key", api.apiKey());
  window.open(`/inspect?${query}`, "_blank", "noopener");
}

function swap() {
  const from = sourceOf() || state.models[0].source;
  source.value = target.value;
  text.value = said() || text.value;
  target.value = "";
  fillChoices();
  target.value = from;
  fillChoices();
  translate();
}

async function copy() {
  await navigator.clipboard?.writeText(said()).catch(() => {});
  byId("copy").textContent = t("copied");
  setTimeout(() => { byId("copy").textContent = t("copy"); }, 1500);
}

// Beginning

async function begin() {
  start(() => { fillChoices(); draw(); });
  walk(output);
  const [models, settings, family] = await Promise.all(["/models", "/frontend/settings", "/family"].map(api.get));
  Object.assign(state, { models, limit: settings.charLimit });
  byId("more").hidden = !family.length;
  text.maxLength = settings.charLimit;
  byId("key-label").hidden = !settings.keyRequired;
  byId("key").value = api.apiKey();
  byId("beams").value = Math.min(8, models[0].beams);
  fillChoices();
  source.value = models[0].source;
  fillChoices();
  showNumbers();
  text.addEventListener("input", soon);
  for (const select of [source, target]) select.addEventListener("change", () => { fillChoices(); translate(); });
  model.addEventListener("change", translate);
  for (const id of ["beams", "alternatives"]) byId(id).addEventListener("input", () => { showNumbers(); soon(); });
  byId("key").addEventListener("change", (event) => { api.setApiKey(event.target.value); translate(); });
  byId("clear").addEventListener("click", () => { text.value = ""; translate(); text.focus(); });
  byId("undo").addEventListener("click", translate);
  byId("swap").addEventListener("click", swap);
  byId("copy").addEventListener("click", copy);
  byId("inspect").addEventListener("click", inspect);
  if (text.value) translate();
}

begin().catch((error) => showTrouble(error.message));
