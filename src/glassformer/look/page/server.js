// A served page asks its server for forced words and silenced heads; a saved one holds them already.
import { t } from "./dom.js";
import { set, state } from "./state.js";

const address = document.documentElement.dataset.server ?? "";
const key = new URLSearchParams(location.search).get("api_key"); // as it opened this page
const earlier = [];

export const served = () => address !== "";

/** The same sentence again, with a forced beginning or with heads switched off. */
export async function ask(changes, host, step = 0) {
  const { text, prefix, heads_off, beams } = state.trace.request;
  host.classList.add("waiting");
  try {
    const answer = await fetch(address, {
      method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ text, prefix, heads_off, beams, model: state.trace.model.name, ...(key ? { api_key: key } : {}), ...changes }),
    });
    const trace = await answer.json();
    if (!answer.ok) throw new Error(trace.error ?? answer.statusText);
    earlier.push([state.trace, state.step]);
    set({ trace, step: Math.min(step, trace.target.ids.length - 1), forced: null, silenced: [], node: -1 });
  } catch (error) {
    host.replaceChildren(t("trouble", { reason: error.message }));
  } finally {
    host.classList.remove("waiting");
  }
}

export const canGoBack = () => earlier.length > 0;

export function goBack() {
  const [trace, step] = earlier.pop();
  set({ trace, step, forced: null, silenced: [], node: -1 });
}
