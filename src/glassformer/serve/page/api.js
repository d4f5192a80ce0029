// The server's routes as functions. Every call can be aborted; errors carry the server's own words.

import { t } from "./texts.js";

let key = sessionStorage.getItem("glassformer.key") ?? "";

export const apiKey = () => key;

export function setApiKey(value) {
  key = value;
  sessionStorage.setItem("glassformer.key", value);
}

async function send(path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, body === undefined ? { signal } : {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(key ? { ...body, api_key: key } : body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(t("offline"));
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error ?? answer.statusText);
}

export const get = async (path) => (await send(path)).json();

export const ask = async (path, body, signal) => (await send(path, body, signal)).json();

/** The events of a route that streams, one after the other. */
export async function* stream(path, body, signal) {
  const reader = (await send(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (waiting + value).split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const content = JSON.parse(event.slice("data: ".length));
      if (content.error) throw new Error(content.error);
      yield content;
    }
  }
}
