// Part 6, under the hood: the walk through the model, what each layer would say, and the tokens themselves.
import { bar, byId, choices, el, label, percent, t } from "./dom.js";
import { unpack } from "./data.js";
import { on, set, state } from "./state.js";

const open = new Set(["encoder.embedding"]); // parts of the walk that the reader has opened

function drawHood() {
  choices(byId("hood-tab"), ["walk", "layers", "tokens"].map((name) => [name, t(`tab_${name}`)]), state.tab, (tab) => set({ tab }));
  byId("hood-view").replaceChildren({ walk: drawWalk, layers: drawLayers, tokens: drawTokens }[state.tab]());
}

function drawWalk() {
  const parts = new Map();
  for (const stage of state.trace.walk) {
    const name = stage.place.split(".").slice(0, 2).join(".");
    parts.set(name, [...(parts.get(name) ?? []), stage]);
  }
  const word = label(state.trace.target.pieces[state.step]);
  return el("div", {}, el("p", { class: "hint" }, t("walk_hint", { source: label(state.trace.source.pieces[0]), word })),
    ...[...parts].map(([name, stages]) => el("details", { "data-part": name, open: open.has(name), ontoggle: (event) => toggle(name, event.currentTarget.open) },
      el("summary", {}, partName(name), el("small", {}, t("stages", { count: stages.length }))), ...(open.has(name) ? stages.map(drawStage) : []))));
}

function toggle(name, isOpen) {
  if (open.has(name) === isOpen) return;
  if (isOpen) open.add(name); else open.delete(name);
  drawHood();
  document.querySelector(`[data-part="${name}"] summary`)?.focus();
}

function partName(name) {
  const [stack, part] = name.split(".");
  if (stack === "output") return t("part_output");
  if (!part) return t(`part_${stack}_end`);
  return part === "embedding" ? t(`part_${stack}_embedding`) : t(`part_${stack}_layer`, { layer: Number(part) + 1 });
}

function drawStage(stage) {
  const { shape: [, columns], data } = unpack(stage.numbers), row = stage.side === "target" ? state.step : 0;
  const numbers = [...data.subarray(row * columns, (row + 1) * columns)].map((x) => (x === -Infinity ? "−∞" : stage.key === "ids" ? String(x) : x.toFixed(4).replace("-", "−")));
  const kind = stage.place.split(".")[2], sublayer = kind ? `${t(`sublayer_${kind}`)} · ` : "";
  const more = stage.shape.at(-1) > columns && stage.key !== "ids" ? " …" : "";
  return el("div", { class: "stage" },
    el("div", { class: "what" }, el("b", {}, `${sublayer}${t(`stage_${stage.key}`)}`), el("span", {}, t(`about_${stage.key}`))),
    el("div", {}, el("div", { class: "equation" }, stage.equation), el("div", { class: "shape" }, `${stage.axes.split(" ").join(" × ")} = ${stage.shape.join(" × ")}`),
      el("div", { class: "numbers" }, `${numbers.join("  ")}${more}`)));
}

function drawLayers() {
  const { trace, step } = state, chosen = trace.target.pieces[step];
  const rows = trace.opinions.map((layer, number) => {
    const p = unpack(layer.p), many = p.shape[1], own = unpack(layer.chosen_p).data[step];
    const words = layer.words[step].map((piece, place) => el("td", { class: `opinion ${piece === chosen ? "is" : ""}` }, el("b", {}, label(piece)), ` ${percent(p.data[step * many + place])}`, bar(p.data[step * many + place])));
    const residual = trace.residual.find((one) => one.place === layer.place);
    return el("tr", {}, el("td", {}, number === 0 ? t("part_decoder_embedding") : t("layer", { layer: number })), ...words,
      el("td", { class: "n" }, percent(own)), el("td", { class: "n" }, String(layer.chosen_rank[step] + 1)), el("td", { class: "n" }, unpack(residual.norms).data[step].toFixed(2)));
  });
  const head = (text, n) => el("th", { class: n ? "n" : "", scope: "col" }, text);
  return el("div", {}, el("p", { class: "hint" }, t("layers_hint", { word: label(chosen) })), el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, head(""), ...trace.opinions[0].words[step].map((_, place) => head(String(place + 1))), head(t("p_of", { word: label(chosen) }), true), head(t("rank"), true), head("‖x‖", true))),
    el("tbody", {}, ...rows))));
}

function drawTokens() {
  const { trace } = state;
  const table = (side, name) => el("div", { class: "scroll" }, el("h3", {}, name), el("table", {},
    el("thead", {}, el("tr", {}, ...["position", "piece", "id", "characters_at", ...(side.log_probs ? ["p"] : [])].map((key) => el("th", { scope: "col" }, t(key))))),
    el("tbody", {}, ...side.pieces.map((piece, place) => el("tr", { class: side.log_probs && place === state.step ? "now" : "" },
      el("td", { class: "code" }, String(place)), el("td", {}, piece), el("td", { class: "code" }, String(side.ids[place])), el("td", { class: "code" }, side.spans[place].join("–")),
      ...(side.log_probs ? [el("td", { class: "code" }, percent(Math.exp(side.log_probs[place])))] : []))))));
  return el("div", {}, table(trace.source, t("source")), table(trace.target, t("target")));
}

export function startHood() { on(["step", "tab"], drawHood); }
