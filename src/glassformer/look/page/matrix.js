// A matrix of weights on a canvas: read it with the mouse, a finger or the arrow keys; copy it as SVG or CSV.
import { el, t, copy } from "./dom.js";

function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return { none: rgb(read("--cell-0")), full: rgb(read("--cell-1")), ink: read("--ink"), soft: read("--soft"), warm: read("--warm"), accent: read("--accent"), card: read("--card") };
}

/** The shade of a weight: small weights are lifted a little, so that they can be told apart. */
export const shade = (weight) => Math.max(0, Math.min(1, weight)) ** 0.7;

export function picture(matrix) {
  const { none, full } = colours();
  const image = new ImageData(matrix.columns, matrix.rows);
  for (let i = 0; i < matrix.data.length; i++) {
    const s = shade(matrix.data[i]);
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = none[c] + (full[c] - none[c]) * s;
    image.data[4 * i + 3] = 255;
  }
  const canvas = el("canvas", { width: matrix.columns, height: matrix.rows });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';
const READABLE = 10; // pixels of a cell from which its row and column are labelled

export class Matrix {
  /** `onrow` is told when a row is chosen; `name` is what the readings and files call it. */
  constructor(host, { onrow = () => {} } = {}) {
    this.onrow = onrow;
    this.cursor = null;
    this.canvas = el("canvas", { tabindex: "0", role: "img" });
    this.reading = el("output", { class: "reading", "aria-live": "polite" });
    this.legend = el("span", { class: "legend" });
    this.svgButton = el("button", { type: "button", class: "small", "data-copy": "svg", onclick: () => copy(this.asSvg(), this.svgButton) });
    this.csvButton = el("button", { type: "button", class: "small", "data-copy": "csv", onclick: () => copy(this.asCsv(), this.csvButton) });
    this.frame = el("div", { class: "frame" }, this.canvas);
    host.replaceChildren(el("div", { class: "matrix" }, this.frame,
      el("div", { class: "foot" }, this.reading, this.legend, this.svgButton, this.csvButton)));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => { this.point(event); if (this.cursor) this.onrow(this.cursor[0]); });
    this.canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.moveTo(null); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => { this.place = null; this.draw(); }).observe(this.frame);
  }

  show(matrix, rowLabels, columnLabels, name, current = -1) {
    Object.assign(this, { matrix, rowLabels, columnLabels, name, current });
    if (this.cursor && (this.cursor[0] >= matrix.rows || this.cursor[1] >= matrix.columns)) this.cursor = null;
    this.image = picture(matrix);
    this.place = null;
    this.svgButton.textContent = t("copy_svg");
    this.csvButton.textContent = t("copy_csv");
    this.drawLegend();
    this.canvas.setAttribute("aria-label", t("matrix_label", { name, rows: matrix.rows, columns: matrix.columns }));
    this.draw();
    this.read();
  }

  /** Another row is the current one; nothing else changes. */
  setCurrent(row) {
    this.current = row;
    this.draw();
  }

  drawLegend() {
    const scale = picture({ rows: 1, columns: 60, data: Float32Array.from({ length: 60 }, (_, i) => i / 59) });
    this.legend.replaceChildren("0", scale, "1");
  }

  /** Where everything stands: cells as large as the room allows, labels no larger than the cells. */
  layout() {
    const context = this.canvas.getContext("2d"), { rows, columns } = this.matrix;
    const widest = (labels) => Math.min(150, Math.max(...labels.map((text) => context.measureText(text).width), 10));
    context.font = `12.5px ${FONT}`;
    const left = widest(this.rowLabels) + 12;
    const cell = Math.max(7, Math.min(34, Math.floor((this.frame.clientWidth - left - 24) / columns)));
    context.font = `${Math.min(12.5, cell - 1.5)}px ${FONT}`;
    const upright = this.columnLabels.every((text) => context.measureText(text).width < cell - 2);
    const top = cell < READABLE ? 8 : upright ? 26 : widest(this.columnLabels) * 0.82 + 16;
    const overhang = upright || cell < READABLE ? 4 : widest(this.columnLabels.slice(-3)) * 0.6 + 6;
    return { left, top, cell, upright, width: left + cell * columns + overhang, height: top + cell * rows + 4 };
  }

  draw() {
    if (!this.matrix || !this.frame.clientWidth) return;
    const place = (this.place ??= this.layout()), { left, top, cell, width, height } = place, ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d"), paint = colours();
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, left, top, cell * this.matrix.columns, cell * this.matrix.rows);
    if (cell >= 14) this.drawLines(context, paint, place);
    this.drawLabels(context, paint, place);
    const frame = (row, column, rows, columns, colour) => {
      context.strokeStyle = colour;
      context.lineWidth = 1.6;
      context.strokeRect(left + column * cell + 0.5, top + row * cell + 0.5, columns * cell - 1, rows * cell - 1);
    };
    if (this.current >= 0) frame(this.current, 0, 1, this.matrix.columns, paint.accent);
    if (this.cursor) frame(this.cursor[0], this.cursor[1], 1, 1, paint.warm);
  }

  drawLines(context, paint, { left, top, cell }) {
    context.fillStyle = paint.card;
    const { rows, columns } = this.matrix;
    for (let column = 1; column < columns; column++) context.fillRect(left + column * cell - 0.5, top, 1, rows * cell);
    for (let row = 1; row < rows; row++) context.fillRect(left, top + row * cell - 0.5, columns * cell, 1);
  }

  drawLabels(context, paint, { left, top, cell, upright }) {
    context.font = `${Math.min(12.5, cell - 1.5)}px ${FONT}`;
    context.textBaseline = "middle";
    if (cell < READABLE) return; // too small to read: the reading below names them
    this.rowLabels.forEach((text, row) => {
      context.fillStyle = this.cursor?.[0] === row ? paint.warm : this.current === row ? paint.accent : paint.ink;
      context.textAlign = "right";
      context.fillText(text, left - 7, top + (row + 0.5) * cell, left - 9);
    });
    this.columnLabels.forEach((text, column) => {
      context.save();
      context.fillStyle = this.cursor?.[1] === column ? paint.warm : paint.ink;
      context.translate(left + (column + 0.5) * cell, top - 7);
      context.textAlign = upright ? "center" : "left";
      if (!upright) context.rotate(-0.96);
      context.fillText(text, 0, upright ? -3 : 0, 150);
      context.restore();
    });
  }

  point(event) {
    if (!this.place) return;
    const box = this.canvas.getBoundingClientRect(), { left, top, cell } = this.place;
    const row = Math.floor((event.clientY - box.top - top) / cell), column = Math.floor((event.clientX - box.left - left) / cell);
    const inside = row >= 0 && column >= 0 && row < this.matrix.rows && column < this.matrix.columns;
    this.moveTo(inside ? [row, column] : null);
  }

  key(event) {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && this.cursor) this.onrow(this.cursor[0]);
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, column] = this.cursor ?? [Math.max(0, this.current), 0];
    const within = (x, most) => Math.max(0, Math.min(most - 1, x));
    this.moveTo(this.cursor ? [within(row + by[0], this.matrix.rows), within(column + by[1], this.matrix.columns)] : [row, column]);
  }

  moveTo(cursor) {
    if (String(cursor) === String(this.cursor)) return;
    this.cursor = cursor;
    this.draw();
    this.read();
  }

  value(row, column) { return this.matrix.data[row * this.matrix.columns + column]; }

  read() {
    const { reading, cursor } = this;
    if (!cursor) { reading.textContent = t("matrix_hint"); delete reading.dataset.value; return; }
    const [row, column] = cursor, value = this.value(row, column);
    Object.assign(reading.dataset, { row, column, value: String(value) });
    reading.replaceChildren(el("b", {}, this.rowLabels[row]), " ← ", el("b", {}, this.columnLabels[column]), `  ${value.toFixed(4)}`);
  }

  asCsv() {
    const quote = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const rows = this.rowLabels.map((text, row) => [quote(text), ...this.columnLabels.map((_, column) => this.value(row, column))].join(","));
    return [["", ...this.columnLabels.map(quote)].join(","), ...rows].join("\n") + "\n";
  }

  asSvg() {
    const escape = (text) => text.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`);
    const cell = 26, left = 140, top = 120, full = [6, 78, 82]; // for white paper, whatever the theme
    const width = left + cell * this.matrix.columns + 70, height = top + cell * this.matrix.rows + 12;
    const parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`, `<title>${escape(this.name)}</title>`];
    this.columnLabels.forEach((text, column) => {
      const x = left + (column + 0.5) * cell;
      parts.push(`<text x="${x}" y="${top - 8}" transform="rotate(-55 ${x} ${top - 8})">${escape(text)}</text>`);
    });
    this.rowLabels.forEach((text, row) => {
      parts.push(`<text x="${left - 8}" y="${top + (row + 0.5) * cell + 4}" text-anchor="end">${escape(text)}</text>`);
      for (let column = 0; column < this.matrix.columns; column++) {
        const opacity = shade(this.value(row, column));
        if (opacity > 0.03) parts.push(`<rect x="${left + column * cell}" y="${top + row * cell}" width="${cell - 1}" height="${cell - 1}" fill="rgb(${full.join(",")})" fill-opacity="${opacity.toFixed(3)}"><title>${this.value(row, column).toFixed(4)}</title></rect>`);
      }
    });
    return `${parts.join("\n")}\n</svg>\n`;
  }
}
