// The translation as words that can be clicked, and the little window with other words for a place.

import { t } from "./texts.js";

const choice = document.getElementById("choice");
const list = document.getElementById("choice-list");
const OPENS = /^[\p{Ps}\p{Pi}¿¡]/u;
const MOST = 5; // parts that stay on one line: an endless row of dashes must break somewhere
let opener = null;

/** Parts of a text: [start, text, is it a word]. */
export function parts(text, language) {
  try {
    const found = [...new Intl.Segmenter(language, { granularity: "word" }).segment(text)];
    return found.map(({ index, segment, isWordLike }) => [index, segment, Boolean(isWordLike)]);
  } catch {
    return [...text.matchAll(/\s+|\S+/g)].map((match) => [match.index, match[0], match[0].trim() !== ""]);
  }
}

/** Buttons for the words of one sentence; markup in it stays text. One of them can be reached by Tab. */
export function wordButtons(sentence, language, clicked) {
  const nodes = [];
  let group = null; // no line ends inside: a full stop stays with the word before it, a bracket with the one after
  let waits = false;
  for (const [start, text, isWord] of parts(sentence.text, language)) {
    const opens = OPENS.test(text);
    if (!text.trim()) {
      group = null;
      nodes.push(document.createTextNode(text));
    } else {
      if (!group || group.childNodes.length === MOST || ((isWord || opens) && !waits)) {
        group = Object.assign(document.createElement("span"), { className: "together" });
        nodes.push(group);
      }
      group.append(isWord ? wordButton(text, start < sentence.forced, (button) => clicked(button, start)) : text);
    }
    waits = opens;
  }
  return nodes;
}

function wordButton(text, forced, clicked) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = forced ? "word forced" : "word";
  button.textContent = text;
  button.tabIndex = -1;
  button.addEventListener("click", () => clicked(button));
  return button;
}

/** Arrow keys walk over the words, Home and End jump; Enter is the browser's own click. */
export function walk(host) {
  host.addEventListener("keydown", (event) => {
    const words = [...host.querySelectorAll(".word")];
    const place = words.indexOf(document.activeElement);
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: words.length - 1 }[event.key];
    if (place < 0 || next === undefined || !words[next]) return;
    event.preventDefault();
    words[next].focus();
  });
  host.addEventListener("focusin", (event) => {
    for (const word of host.querySelectorAll(".word")) word.tabIndex = word === event.target ? 0 : -1;
  });
}

export function close() {
  if (choice.hidden) return;
  choice.hidden = true;
  opener?.classList.remove("open");
  const back = opener;
  opener = null;
  back?.focus();
}

/** Show other words under the one that was clicked; `chosen(word)` is called with the reader's choice. */
export function open(button, words, chosen) {
  close();
  opener = button;
  button.classList.add("open");
  list.replaceChildren(...words.map(({ word, probability }) => row(word, probability, () => {
    opener = null;
    close();
    choice.hidden = true;
    chosen(word);
  })));
  if (!words.length) list.replaceChildren(Object.assign(document.createElement("li"), { textContent: t("no_other_words") }));
  choice.hidden = false;
  place(button);
  list.querySelector("button")?.focus();
}

function row(word, probability, click) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("role", "option");
  const name = Object.assign(document.createElement("span"), { textContent: word });
  const bar = Object.assign(document.createElement("i"), { className: "bar" });
  bar.style.setProperty("--share", String(Math.max(0.01, probability)));
  const share = Object.assign(document.createElement("small"), { textContent: percent(probability) });
  button.append(name, bar, share);
  button.addEventListener("click", click);
  item.append(button);
  return item;
}

const percent = (share) => (share >= 0.01 ? `${Math.round(100 * share)} %` : "< 1 %");

function place(button) {
  const box = button.getBoundingClientRect();
  const left = Math.min(box.left, document.documentElement.clientWidth - choice.offsetWidth - 12);
  const below = box.bottom + 6 + choice.offsetHeight < innerHeight || box.top < choice.offsetHeight;
  choice.style.left = `${Math.max(12, left) + scrollX}px`;
  choice.style.top = `${(below ? box.bottom + 6 : box.top - choice.offsetHeight - 6) + scrollY}px`;
}

choice.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return close();
  const rows = [...list.querySelectorAll("button")];
  const next = rows.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
  if (!rows[next]) return undefined;
  event.preventDefault();
  return rows[next].focus();
});
document.addEventListener("pointerdown", (event) => {
  if (!choice.hidden && !choice.contains(event.target) && event.target !== opener) close();
});
