// Part 3: every head of every layer as a small picture; enlarge one, switch one off.
import { byId, choices, el, fixed, label, t } from "./dom.js";
import { placeName, places, weights } from "./data.js";
import { Matrix, picture } from "./matrix.js";
import { ask, served } from "./server.js";
import { on, set, state } from "./state.js";

const isOff = (place, head) => state.trace.request.heads_off.some(([p, h]) => p === place && h === head) || state.silenced.includes(`${place}:${head}`);

function drawGrid() {
  const { trace, stack } = state, rows = places(trace, stack), grid = byId("head-grid");
  const count = trace.heads[rows[0]].length;
  grid.style.gridTemplateColumns = `max-content repeat(${count}, minmax(74px, ${count > 6 ? 104 : 150}px))`;
  grid.replaceChildren(...rows.flatMap((place) => [
    el("span", { class: "layer" }, t("layer", { layer: Number(place.split(".")[1]) + 1 })),
    ...trace.heads[place].map((profile, head) => thumbnail(place, head, profile)),
  ]));
  choices(byId("stack"), ["cross", "encoder", "decoder"].map((name) => [name, t(`stack_${name}`)]), stack, (name) => set({ stack: name }));
}

function thumbnail(place, head, profile) {
  const matrix = weights(state.trace, place, head), canvas = picture(matrix);
  const changes = state.trace.ablations?.[`${place}:${head}`]?.changed;
  const badge = profile.label ? t(`pattern_${profile.label}`) : "";
  const button = el("button", {
    type: "button", "data-head": `${place}:${head}`, onclick: () => enlarge(place, head), onkeydown: roam,
    class: `head ${isOff(place, head) ? "off" : ""} ${state.place === place && state.head === head ? "chosen" : ""}`,
    "aria-label": `${t("head_of", { place: placeName(place), head: head + 1 })} ${badge}`,
    title: `${badges(profile)}${changes ? ` · ${t("matters")}` : ""}`,
  }, canvas, el("span", { class: "name" }, el("span", { class: changes ? "matters" : "" }, String(head + 1)), el("span", { class: `badge ${badge ? "" : "weak"}` }, badge || `${t("entropy")} ${profile.entropy.toFixed(2)}`)));
  return button;
}

/** Arrow keys go from head to head. */
function roam(event) {
  const all = [...document.querySelectorAll("#head-grid .head")], count = state.trace.heads[places(state.trace, state.stack)[0]].length;
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -count, ArrowDown: count }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  all[all.indexOf(event.currentTarget) + by]?.focus();
}

function badges(profile) {
  const scores = Object.entries(profile.scores).sort((a, b) => b[1] - a[1]).map(([name, score]) => `${t(`pattern_${name}`)} ${score.toFixed(2)}`);
  return [...scores, `${t("entropy")} ${profile.entropy.toFixed(2)}`].join(" · ");
}

let large = null, shown = null;

function enlarge(place, head) {
  const { trace } = state, cross = place.endsWith(".cross"), matrix = weights(trace, place, head);
  const source = trace.source.pieces.map(label), said = trace.target.pieces.map(label);
  const read = [t("start"), ...said.slice(0, -1)];
  const rows = place.startsWith("encoder") ? source : cross ? said : read;
  const columns = place.startsWith("encoder") || cross ? source : read;
  shown = [place, head];
  const name = t("head_of", { place: placeName(place), head: head + 1 });
  byId("enlarged-title").textContent = name;
  byId("enlarged-badges").textContent = badges(trace.heads[place][head]);
  byId("use-head").hidden = !cross;
  byId("silence-head").disabled = isOff(place, head);
  byId("enlarged").showModal();
  large ??= new Matrix(byId("enlarged-matrix"));
  large.cursor = null;
  large.show(matrix, rows, columns, name, place.startsWith("encoder") ? -1 : state.step);
  large.canvas.focus();
}

function silence(place, head) {
  byId("enlarged").close();
  if (served()) ask({ heads_off: [...state.trace.request.heads_off, [place, head]] }, byId("silenced"));
  else set({ silenced: [`${place}:${head}`] });
  byId("silenced").scrollIntoView({ block: "nearest" });
}

function drawSilenced() {
  const host = byId("silenced"), { trace } = state, [key] = state.silenced;
  if (trace.request.heads_off.length) {
    const names = trace.request.heads_off.map(([place, head]) => t("head_of", { place: placeName(place), head: head + 1 }));
    const { whole } = trace, said = { ...whole, text: trace.target.text, pieces: trace.target.pieces.filter((piece) => piece !== "</s>") };
    host.replaceChildren(el("div", { class: "panel" },
      el("span", { class: "label" }, t("with_all")), el("p", { class: "text" }, whole.text),
      el("span", { class: "label" }, t("without", { heads: names.join(", ") })), el("p", { class: "text" }, ...differences(whole.pieces, said)),
      el("p", { class: "label" }, `${t("score")} ${fixed(whole.score)} → ${fixed(trace.scores.score)} · ${t("bleu_whole", { before: fixed(whole.bleu_before, 1), after: fixed(whole.bleu, 1) })}`),
      ...(served() ? [el("button", { type: "button", class: "small", onclick: () => ask({ heads_off: [] }, host) }, t("all_on"))] : [])));
    return;
  }
  if (!key) { host.replaceChildren(); return; }
  const outcome = trace.ablations?.[key], [place, head] = key.split(":");
  const name = t("head_of", { place: placeName(place), head: Number(head) + 1 });
  if (!outcome) { host.replaceChildren(el("p", { class: "panel" }, t("not_saved"))); return; }
  const bleu = t(trace.request.reference ? "bleu_reference" : "bleu_whole", { before: fixed(outcome.bleu_before, 1), after: fixed(outcome.bleu, 1) });
  const corpus = trace.corpus ? t("bleu_corpus", { pairs: trace.corpus.pairs, before: fixed(trace.corpus.bleu, 1), after: fixed(trace.corpus.without[key], 1) }) : "";
  host.replaceChildren(el("div", { class: "panel" },
    el("span", { class: "label" }, t("with_all")), el("p", { class: "text" }, trace.target.text),
    el("span", { class: "label" }, t("without", { heads: name })), el("p", { class: "text" }, ...differences(trace.target.pieces, outcome)),
    el("p", { class: "label" }, `${t("score")} ${fixed(trace.scores.score)} → ${fixed(outcome.score)} · ${bleu} ${corpus}`),
    el("button", { type: "button", class: "small", onclick: () => set({ silenced: [] }) }, t("switch_on"))));
}

/** The new text, with what the whole model does not say marked; cut where the pieces first differ. */
function differences(before, outcome) {
  if (!outcome.changed) return [outcome.text, el("span", { class: "given" }, `  (${t("unchanged")})`)];
  let same = 0;
  while (same < outcome.pieces.length && outcome.pieces[same] === before[same]) same++;
  let tail = 0;
  while (tail < outcome.pieces.length - same && outcome.pieces.at(-1 - tail) === before.filter((piece) => piece !== "</s>").at(-1 - tail)) tail++;
  const join = (pieces) => pieces.join("").replaceAll("▁", " ");
  const parts = [join(outcome.pieces.slice(0, same)).trimStart(), join(outcome.pieces.slice(same, outcome.pieces.length - tail)), join(outcome.pieces.slice(outcome.pieces.length - tail))];
  return [parts[0], parts[1] ? el("mark", {}, parts[1]) : "", parts[2]];
}

export function startHeads() {
  on(["stack", "place", "head", "silenced"], drawGrid);
  on(["silenced"], drawSilenced);
  byId("use-head").addEventListener("click", () => {
    byId("enlarged").close();
    set({ place: shown[0], head: shown[1] });
    byId("pair").scrollIntoView();
  });
  byId("silence-head").addEventListener("click", () => silence(...shown));
  byId("enlarged").addEventListener("click", (event) => { if (event.target === byId("enlarged")) byId("enlarged").close(); });
}
