// The server's OpenAPI description as a page: no library, nothing from elsewhere.

import { get } from "./api.js";
import { start, t } from "./texts.js";

const EXAMPLES = {
  "/translate": { q: "Hello, world.", source: "auto", target: "LANGUAGE" },
  "/detect": { q: "Hello, world." },
  "/stream": { q: "Hello, world.", source: "auto", target: "LANGUAGE" },
  "/words": { q: "Hello, world.", source: "auto", target: "LANGUAGE", prefix: "" },
  "/inspect": { text: "Hello, world." },
  "/generate": { prompt: "Once upon", max_tokens: 20 },
  "/classify": { q: "Nakamura" },
  "/tag": { q: "the old dog" },
};
const state = { description: null, target: "" };

function el(name, text = "", ...children) {
  const element = document.createElement(name);
  element.append(text, ...children);
  return element;
}

function kind(schema = {}) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.join(" | ");
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map(kind).join(" | ");
  if (schema.type === "array") return `[${kind(schema.items)}]`;
  return schema.type ?? "any";
}

function fields({ properties = {}, required = [] }) {
  const head = el("tr", "", ...["field", "type", "meaning"].map((key) => el("th", t(key))));
  const rows = Object.entries(properties).map(([name, schema]) => {
    const first = el("td", name);
    if (required.includes(name)) first.append(el("em", t("required")));
    return el("tr", "", first, el("td", kind(schema)), el("td", schema.description ?? ""));
  });
  return el("table", "", el("thead", "", head), el("tbody", "", ...rows));
}

function route(path, method, operation) {
  const article = el("article", "", el("h3", "", el("b", method.toUpperCase()), ` ${path}`), el("p", operation.description ?? ""));
  const takes = operation.requestBody?.content["application/json"]?.schema;
  if (takes) article.append(fields(takes));
  const gives = operation.responses["200"]?.content ?? {};
  const shapes = Object.entries(gives).map(([type, { schema }]) => (schema ? kind(schema) : type));
  article.append(el("h4", t("answers")), el("pre", shapes.map(shape).join("\n")));
  const example = EXAMPLES[path];
  const body = example && JSON.stringify(example).replace("LANGUAGE", state.target);
  const sent = body ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'` : "";
  article.append(el("h4", t("try_it")), el("pre", `curl ${location.origin}${path}${sent}`));
  return article;
}

/** A named shape with its fields, for the reader who wants to parse it. */
function shape(name) {
  const plain = name.replace(/[[\]]/g, "");
  const schema = state.description.components.schemas[plain];
  if (!schema) return name;
  const inside = Object.entries(schema.properties).map(([field, type]) => `${field}: ${kind(type)}`);
  const text = `{ ${inside.join(", ")} }`;
  return name.startsWith("[") ? `[${text}]` : text;
}

function draw() {
  if (!state.description) return;
  const groups = new Map();
  for (const [path, methods] of Object.entries(state.description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "";
      groups.set(tag, [...(groups.get(tag) ?? []), route(path, method, operation)]);
    }
  }
  const sections = [...groups].flatMap(([tag, articles]) => [el("h2", tag), ...articles]);
  document.getElementById("routes").replaceChildren(...sections);
}

start(draw);
const [description, models] = await Promise.all([get("/openapi.json"), get("/models")]);
Object.assign(state, { description, target: models[0]?.target ?? "LANGUAGE" });
draw();
