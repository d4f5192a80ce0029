// Part 4: the likeliest words of this step; force one and see where it leads.
import { bar, byId, el, fixed, label, percent, t } from "./dom.js";
import { ask, served } from "./server.js";
import { on, set, state } from "./state.js";

const spoken = (pieces) => pieces.filter((piece) => piece !== "</s>").join("").replaceAll("▁", " ").trimStart();

function drawCandidates() {
  const { trace, step, forced } = state;
  const before = Array.from(trace.target.text).slice(0, trace.target.spans[step][0]).join("");
  byId("so-far").replaceChildren(before, el("span", { class: "blank" }, "\u00a0"));
  byId("candidate-list").replaceChildren(...trace.candidates[step].map((one, place) => {
    const key = `${step}:${one.id}`;
    return el("li", {}, el("button", {
      type: "button", class: one.chosen ? "chosen" : "", "aria-pressed": String(forced === key), "data-id": one.id,
      disabled: one.chosen, onclick: () => force(one, key), title: `${one.piece} · ${t("id")} ${one.id} · log p ${one.log_prob.toFixed(4)}`,
    }, el("span", { class: "rank" }, String((one.rank ?? place) + 1)), el("span", { class: "word" }, label(one.piece)),
    bar(Math.exp(one.log_prob)), el("span", { class: "p" }, percent(Math.exp(one.log_prob)))));
  }));
}

function force(one, key) {
  if (!served() || one.piece === "</s>") { set({ forced: state.forced === key ? null : key }); return; }
  const ids = state.trace.target.ids.slice(0, state.step);
  ask({ prefix: [...ids, one.id] }, byId("forced"), state.step);
}

function drawForced() {
  const host = byId("forced"), { trace, forced } = state;
  if (!forced) { host.replaceChildren(); return; }
  const [step, id] = forced.split(":").map(Number), one = trace.candidates[step].find((candidate) => candidate.id === id);
  const outcome = one.piece === "</s>" ? ended(one, step) : trace.continuations?.[forced];
  if (!outcome) { host.replaceChildren(el("p", { class: "panel" }, t("not_saved"))); return; }
  host.replaceChildren(el("div", { class: "panel" },
    el("span", { class: "label" }, t("if_said", { word: label(one.piece) })),
    el("p", { class: "text", "data-text": outcome.text }, ...continuation(outcome, step)),
    el("span", { class: "label" }, t("instead_of")), el("p", { class: "text" }, trace.target.text),
    el("p", { class: "label" }, `${t("score")} ${fixed(trace.scores.score)} → ${fixed(outcome.score)} · Σ log p ${fixed(trace.scores.log_prob)} → ${fixed(outcome.log_prob)}`)));
}

/** Where the end is forced, nothing is left to search. */
function ended(one, step) {
  const { target, request } = state.trace, length = step + 1;
  const sum = target.log_probs.slice(0, step).reduce((total, p) => total + p, one.log_prob);
  const factor = (request.penalty === "wu" ? (5 + length) / 6 : length) ** request.length_penalty;
  return { text: Array.from(target.text).slice(0, target.spans[step][0]).join(""), pieces: target.pieces.slice(0, step), log_prob: sum, score: sum / factor };
}

/** What was given, the forced word, and how it goes on. */
function continuation(outcome, step) {
  const given = spoken(outcome.pieces.slice(0, step)), upTo = spoken(outcome.pieces.slice(0, step + 1));
  if (!outcome.text.startsWith(upTo)) return [outcome.text]; // bytes of one character can't be told apart
  return [el("span", { class: "given" }, given), el("mark", {}, upTo.slice(given.length) || t("end")), outcome.text.slice(upTo.length)];
}

export function startCandidates() {
  on(["step", "forced"], drawCandidates);
  on(["forced"], drawForced);
}
