// Elements, texts and what they share. Text only ever enters the page through textContent: markup stays text.

const texts = JSON.parse(document.getElementById("texts").textContent);
const remembered = {
  get(key) { try { return localStorage.getItem(`glassformer.${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`glassformer.${key}`, value); } catch { /* private window */ } },
};
let language = remembered.get("language") || (navigator.language.startsWith("zh") ? "zh" : "en");

/** A text in the reader's language; {name} is filled in. */
export function t(key, values = {}) {
  const text = texts[language][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const byId = (id) => document.getElementById(id);

/** An element: el("b", {class: "x", onclick: f}, "text", child). */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (typeof value === "boolean") element.toggleAttribute(key, value);
    else element.setAttribute(key, value);
  }
  element.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
  return element;
}

export function bar(share) {
  const inner = el("i");
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "bar" }, inner);
}

/** A row of buttons of which one is pressed. */
export function choices(host, options, chosen, choose) {
  host.replaceChildren(...options.map(([value, label]) => el("button", {
    type: "button", "aria-pressed": String(value === chosen), "data-value": value, onclick: () => choose(value),
  }, label)));
}

export function applyTexts() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-title]")) {
    element.title = t(element.dataset.title);
    element.setAttribute("aria-label", t(element.dataset.title));
  }
}

export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
  remembered.set("language", language);
}

export function theme() { return document.documentElement.dataset.theme; }

export function setTheme(name) {
  document.documentElement.dataset.theme = name;
  remembered.set("theme", name);
}

export function firstTheme() {
  return remembered.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/** How a piece looks to a reader: word marks and special tokens have names. */
export function label(piece) {
  if (piece === "</s>") return t("end");
  if (piece === "<pad>") return t("start");
  return piece.replaceAll("▁", " ").trim() || "␣";
}

export function percent(p) {
  if (p < 0.00005) return "<0.01%";
  return p >= 0.9995 ? "100%" : p >= 0.0995 ? `${(p * 100).toFixed(1)}%` : `${(p * 100).toPrecision(2)}%`;
}
export const fixed = (x, digits = 3) => (x === null ? "–" : x.toFixed(digits));

export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission, or an old browser
    const area = el("textarea");
    area.value = text;
    (button.closest("dialog") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = t("copied");
  button.classList.add("copied");
  setTimeout(() => { button.textContent = before; button.classList.remove("copied"); }, 1200);
}
