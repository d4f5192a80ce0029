// The trace, and what can be computed from it: arrays, groups of tokens, matrices between groups.
import { t, label } from "./dom.js";

const trees = new WeakMap();

/** {shape, float32 in base 64} → {shape, data: Float32Array}; each is unpacked once. */
export function unpack(packed) {
  if (!trees.has(packed)) {
    const bytes = Uint8Array.from(atob(packed.float32), (character) => character.charCodeAt(0));
    trees.set(packed, { shape: packed.shape, data: new Float32Array(bytes.buffer) });
  }
  return trees.get(packed);
}

/** The weights of one head, or their mean over all heads (head −1): {rows, columns, data}. */
export function weights(trace, place, head) {
  const { shape: [heads, rows, columns], data } = unpack(trace.attention[place]);
  const size = rows * columns;
  if (head >= 0) return { rows, columns, data: data.subarray(head * size, (head + 1) * size) };
  const mean = new Float32Array(size);
  for (let h = 0; h < heads; h++) for (let i = 0; i < size; i++) mean[i] += data[h * size + i] / heads;
  return { rows, columns, data: mean };
}

export const places = (trace, stack) => Object.keys(trace.attention).filter((place) => (
  stack === "cross" ? place.endsWith(".cross") : place.startsWith(stack) && place.endsWith(".self")));

/** The cross attention that aligns best in trained models, as a rule: the last layer but one (Garg et al. 2019). */
export function aligningPlace(trace) {
  const all = places(trace, "cross");
  return all[Math.max(0, all.length - 2)];
}

/**
 * Tokens put together to what a reader sees: pieces as they are, words or characters.
 * Each group has a label and its tokens as [index, share]; the shares of a token add up to 1.
 */
export function groups(side, mode, languageCode) {
  const { text, pieces, spans } = side;
  if (mode === "pieces") {
    return pieces.map((piece, index) => ({
      label: label(piece), title: piece, tokens: [[index, 1]], special: piece === "</s>",
      starts: piece.startsWith("▁") || index === 0 || piece === "</s>" || piece === " ",
    }));
  }
  const characters = Array.from(text); // as Python counts them
  const found = segments(text, mode, languageCode).map(({ from, to, spaced }) => ({
    label: characters.slice(from, to).join(""), from, to, tokens: [], starts: spaced, special: false,
  }));
  pieces.forEach((piece, index) => {
    if (piece === "</s>") {
      found.push({ label: t("end"), from: Infinity, to: Infinity, tokens: [[index, 1]], starts: true, special: true });
      return;
    }
    const [start, end] = spans[index];
    const real = found.filter((group) => group.from < Infinity);
    let touched = real.map((group) => [group, Math.min(end, group.to) - Math.max(start, group.from)]).filter(([, n]) => n > 0);
    if (!touched.length) { // white space, or a byte of a character: it belongs to what comes next
      const next = real.find((group) => group.to > start) ?? real[real.length - 1];
      touched = next ? [[next, 1]] : [];
    }
    const whole = touched.reduce((sum, [, n]) => sum + n, 0);
    for (const [group, n] of touched) group.tokens.push([index, n / whole]);
  });
  return found.filter((group) => group.tokens.length);
}

function segments(text, mode, languageCode) {
  const parts = [];
  let place = 0, spaced = true;
  for (const part of split(text, mode, languageCode)) {
    const length = Array.from(part).length;
    if (part.trim()) parts.push({ from: place, to: place + length, spaced });
    spaced = !part.trim();
    place += length;
  }
  return parts;
}

function split(text, mode, languageCode) {
  if (typeof Intl !== "undefined" && Intl.Segmenter) {
    let code;
    try { [code] = Intl.getCanonicalLocales(languageCode || []); } catch { code = undefined; }
    const segmenter = new Intl.Segmenter(code, { granularity: mode === "words" ? "word" : "grapheme" });
    return Array.from(segmenter.segment(text), (part) => part.segment);
  }
  return mode === "words" ? text.split(/(\s+)/).filter(Boolean) : Array.from(text);
}

/** Weights between groups: summed over the columns' tokens, averaged over the rows' tokens. */
export function grouped(matrix, rowGroups, columnGroups) {
  const data = new Float32Array(rowGroups.length * columnGroups.length);
  rowGroups.forEach((row, r) => {
    const whole = row.tokens.reduce((sum, [, share]) => sum + share, 0);
    columnGroups.forEach((column, c) => {
      let sum = 0;
      for (const [i, of] of row.tokens) for (const [j, share] of column.tokens) sum += (of / whole) * share * matrix.data[i * matrix.columns + j];
      data[r * columnGroups.length + c] = sum;
    });
  });
  return { rows: rowGroups.length, columns: columnGroups.length, data };
}

export function placeName(place) {
  const [stack, layer, kind] = place.split(".");
  return t("place_name", { kind: t(kind === "cross" ? "stack_cross" : `stack_${stack}`), layer: Number(layer) + 1 });
}
