// Part 1: the sentence pair as text with curved links, and the step.  Part 2: the alignment matrix.
import { byId, choices, el, svg, t, label, percent } from "./dom.js";
import { groups, grouped, placeName, places, weights } from "./data.js";
import { Matrix } from "./matrix.js";
import { goTo, on, set, state, steps } from "./state.js";

let pair = null; // the groups of both sides and the weights between them
let spots = null; // where the words stand, until they move
let pointed = null; // {side, index} under the mouse or with the focus

function gather() {
  const { trace, mode, place, head } = state;
  const source = groups(trace.source, mode, trace.model.source_language);
  const target = groups(trace.target, mode, trace.model.target_language);
  pair = { source, target, matrix: grouped(weights(trace, place, head), target, source) };
}

const isCurrent = (group) => group.tokens.some(([index]) => index === state.step);

/** The (first) group that holds the token of this step. */
const currentGroup = () => pair.target.findIndex(isCurrent);

function drawWords() {
  gather();
  spots = null;
  for (const side of ["source", "target"]) {
    byId(`${side}-words`).replaceChildren(...pair[side].map((group, index) => el("button", {
      type: "button", class: `${group.starts ? "starts" : ""} ${group.special ? "special" : ""}`, title: group.title ?? group.label,
      onpointerenter: () => point({ side, index }), onpointerleave: () => point(null),
      onfocus: () => point({ side, index }), onblur: () => point(null),
      onclick: () => { if (side === "target") goTo(group.tokens[0][0]); point({ side, index }); },
    }, group.label)));
    byId(`${side}-words`).lang = state.trace.model[`${side}_language`] || "";
  }
  choices(byId("grouping"), [["pieces", t("pieces")], ["words", t("words")], ["characters", t("characters")]], state.mode, (mode) => set({ mode }));
  drawSelect();
}

function drawSelect() {
  const select = byId("links-from"), chosen = `${state.place}:${state.head}`;
  select.replaceChildren(...places(state.trace, "cross").flatMap((place) => {
    const layer = Number(place.split(".")[1]) + 1;
    return [el("option", { value: `${place}:-1` }, t("links_mean", { layer })),
      ...state.trace.heads[place].map((_, head) => el("option", { value: `${place}:${head}` }, t("links_head", { layer, head: head + 1 })))];
  }));
  select.value = chosen;
}

function point(what) {
  pointed = what;
  drawLinks();
}

function drawLinks() {
  if (!pair) return;
  const current = currentGroup();
  const sources = [...byId("source-words").children], targets = [...byId("target-words").children];
  const { above, below } = (spots ??= measure(sources, targets));
  const paths = [], lit = new Float32Array(sources.length);
  const { data, columns } = pair.matrix;
  const add = (row, column, faint) => {
    const weight = data[row * columns + column];
    if (weight < 0.02) return;
    const [x, y] = above[column], [u, v] = below[row], bend = (v - y) * 0.5;
    paths.push(svg("path", {
      d: `M${x} ${y} C${x} ${y + bend} ${u} ${v - bend} ${u} ${v}`, "stroke-width": (faint ? 1 : 1 + 6 * weight).toFixed(2),
      "stroke-opacity": (faint ? 0.13 : 0.12 + 0.75 * weight).toFixed(3),
    }));
  };
  const one = pointed?.side === "source" ? null : pointed?.side === "target" ? pointed.index : current;
  const crowded = targets.length > 30; // too many faint lines say nothing
  for (let row = 0; row < targets.length && !crowded; row++) if (row !== one && one !== null) add(row, strongest(row), true);
  if (one === null) for (let row = 0; row < targets.length; row++) add(row, pointed.index, false);
  else for (let column = 0; column < columns; column++) { lit[column] = data[one * columns + column]; add(one, column, false); }
  byId("links").replaceChildren(...paths);
  sources.forEach((element, column) => element.classList.toggle("lit", lit[column] >= 0.15));
  targets.forEach((element, row) => {
    element.classList.toggle("now", isCurrent(pair.target[row]));
    element.classList.toggle("later", row > current && !isCurrent(pair.target[row]));
  });
}

function measure(sources, targets) {
  const box = byId("pair-view").getBoundingClientRect();
  return { above: sources.map((element) => middle(element, box, true)), below: targets.map((element) => middle(element, box, false)) };
}

function middle(element, box, bottom) {
  const place = element.getBoundingClientRect();
  return [place.left + place.width / 2 - box.left, (bottom ? place.bottom : place.top) - box.top];
}

function strongest(row) {
  const { data, columns } = pair.matrix;
  let best = 0;
  for (let column = 1; column < columns; column++) if (data[row * columns + column] > data[row * columns + best]) best = column;
  return best;
}

function drawStep() {
  const { trace, step } = state, slider = byId("step"), word = label(trace.target.pieces[step]);
  slider.max = steps() - 1;
  slider.value = step;
  slider.setAttribute("aria-valuetext", `${step + 1}: ${word}`);
  byId("earlier").disabled = step === 0;
  byId("later").disabled = step === steps() - 1;
  byId("step-reading").replaceChildren(t("step_reading", { step: step + 1, steps: steps() }), " ", el("b", {}, word), ` · ${percent(Math.exp(trace.target.log_probs[step]))}`);
}

let alignment = null;

function drawAlignment() {
  alignment ??= new Matrix(byId("alignment-matrix"), { onrow: (row) => goTo(pair.target[row].tokens[0][0]) });
  const name = state.head < 0 ? t("mean_of", { place: placeName(state.place) }) : t("head_of", { place: placeName(state.place), head: state.head + 1 });
  alignment.show(pair.matrix, pair.target.map((group) => group.label), pair.source.map((group) => group.label), name, currentGroup());
}

export function startLinks() {
  on(["trace", "mode", "place", "head"], drawWords);
  on(["step", "mode", "place", "head"], drawLinks);
  on(["step"], drawStep);
  on(["mode", "place", "head"], drawAlignment);
  on(["step"], () => alignment.setCurrent(currentGroup()));
  byId("step").addEventListener("input", (event) => goTo(Number(event.target.value)));
  byId("earlier").addEventListener("click", () => goTo(state.step - 1));
  byId("later").addEventListener("click", () => goTo(state.step + 1));
  byId("links-from").addEventListener("change", (event) => {
    const [place, head] = event.target.value.split(":");
    set({ place, head: Number(head) });
  });
  new ResizeObserver(() => { spots = null; drawLinks(); }).observe(byId("pair-view"));
}
