// Part 5: the beam tree. Columns are steps; a node is a continuation that the search looked at.
import { byId, el, fixed, label, svg, t } from "./dom.js";
import { on, set, state } from "./state.js";

const WIDE = 96, TALL = 30, LEFT = 8, TOP = 26;
const kept = (node) => node.kept || node.closed || node.winner;

function drawTree() {
  const { nodes } = state.trace.beam, all = byId("pruned").checked;
  const visible = nodes.map((node, number) => ({ ...node, number })).filter((node) => all || kept(node));
  const rowOf = new Map(), rows = [];
  for (const node of visible) {
    rows[node.step] = (rows[node.step] ?? 0) + 1;
    rowOf.set(node.number, rows[node.step] - 1);
  }
  const at = (node) => [LEFT + node.step * WIDE, TOP + rowOf.get(node.number) * TALL];
  const width = LEFT + rows.length * WIDE, height = TOP + Math.max(...rows, 1) * TALL + 6;
  const parts = rows.map((_, step) => svg("text", { class: "column", x: LEFT + step * WIDE + 4, y: 14 }, String(step + 1)));
  const drawn = [...visible].sort((a, b) => Number(a.winner) - Number(b.winner));
  for (const node of drawn) if (node.parent >= 0 && rowOf.has(node.parent)) parts.push(edge(at({ ...nodes[node.parent], number: node.parent }), at(node), node));
  for (const node of drawn) parts.push(drawNode(node, at(node)));
  byId("tree").replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("beam_title") }, ...parts));
}

function edge([x, y], [u, v], node) {
  const from = x + WIDE - 18, middle = v + TALL / 2 - 3;
  return svg("path", { class: `edge ${node.winner ? "won" : ""} ${kept(node) ? "" : "pruned"}`, d: `M${from} ${y + TALL / 2 - 3} C${from + 9} ${y + TALL / 2 - 3} ${u - 9} ${middle} ${u} ${middle}` });
}

function drawNode(node, [x, y]) {
  const text = label(node.piece), short = Array.from(text).length > 9 ? `${Array.from(text).slice(0, 8).join("")}…` : text;
  const classes = ["node", node.winner ? "winner" : "", node.closed ? "closed" : "", kept(node) ? "" : "pruned", node.number === state.node ? "selected" : ""];
  return svg("g", { class: classes.join(" "), "data-node": node.number, onclick: () => set({ node: node.number }), onpointerenter: () => set({ node: node.number }) },
    svg("rect", { x, y, width: WIDE - 18, height: TALL - 7 }), svg("text", { x: x + 7, y: y + 16 }, short));
}

function select() {
  for (const group of document.querySelectorAll("#tree .node")) group.classList.toggle("selected", Number(group.dataset.node) === state.node);
  const node = state.trace.beam.nodes[state.node], host = byId("node-reading");
  if (!node) { host.textContent = t("tree_hint"); return; }
  const words = [];
  for (let at = node; at; at = state.trace.beam.nodes[at.parent]) words.unshift(at.piece);
  const fate = t(node.winner ? "fate_winner" : node.closed ? "fate_closed" : node.kept ? "fate_kept" : "fate_pruned");
  host.replaceChildren(el("b", {}, words.map((piece) => (piece === "</s>" ? ` ${t("end")}` : piece.replaceAll("▁", " "))).join("").trim()),
    ` · ${fate} · ${t("node_reading", { log_prob: fixed(node.log_prob), sum: fixed(node.sum), factor: fixed(node.sum / node.score, 2), score: fixed(node.score) })}`);
}

/** Left: the parent; right: the first child; up and down: the neighbours. */
function walkTree(event) {
  const { nodes } = state.trace.beam, all = byId("pruned").checked, shown = (number) => all || kept(nodes[number]);
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
  event.preventDefault();
  event.stopPropagation();
  const now = nodes[state.node];
  let next = nodes.findIndex((node) => node.winner);
  if (now && event.key === "ArrowLeft") next = now.parent;
  if (now && event.key === "ArrowRight") next = nodes.findIndex((node, number) => node.parent === state.node && shown(number));
  if (now && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    const same = nodes.map((_, number) => number).filter((number) => nodes[number].step === now.step && shown(number));
    next = same[same.indexOf(state.node) + (event.key === "ArrowDown" ? 1 : -1)] ?? -1;
  }
  if (next < 0) return;
  set({ node: next });
  document.querySelector(`#tree [data-node="${next}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function drawHypotheses() {
  const heading = (key, n = true) => el("th", { class: n ? "n" : "", scope: "col" }, t(key));
  byId("hypotheses").replaceChildren(
    el("thead", {}, el("tr", {}, heading("hypothesis", false), heading("sum"), heading("length"), heading("factor"), heading("score"))),
    el("tbody", {}, ...state.trace.n_best.map((one, place) => el("tr", { class: place === 0 ? "best" : "" },
      el("td", {}, (one.text || t("end")) + (one.finished ? "" : ` (${t("unfinished")})`)),
      ...[fixed(one.log_prob), String(one.length), fixed(one.factor, 2), fixed(one.score)].map((text) => el("td", { class: "n" }, text))))));
}

export function startBeam() {
  on(["trace"], drawTree);
  on(["node"], select);
  on(["trace"], drawHypotheses);
  byId("pruned").addEventListener("change", drawTree);
  byId("tree").addEventListener("keydown", walkTree);
}
