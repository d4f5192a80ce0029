// What the reader has chosen, and who wants to know when it changes.

export const state = {
  trace: null, // what is shown
  step: 0, // which token is being predicted
  mode: "pieces", // pieces, words or characters
  place: "", // whose links are drawn …
  head: -1, // … and which head; −1: the mean of all
  stack: "cross", // which grid of heads
  forced: null, // "step:id" of a forced candidate
  silenced: [], // heads that are off, as "place:head"
  node: -1, // in the beam tree
  tab: "walk",
  look: 0, // changes with language and theme: redraw everything
};

const listeners = [];

/** Call `draw` when one of these keys has changed. */
export function on(keys, draw) { listeners.push([keys, draw]); }

let waiting = null;

export function set(changes) {
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  Object.assign(state, changes);
  if (!changed.length) return;
  if (waiting) { changed.forEach((key) => waiting.add(key)); return; }
  waiting = new Set(changed);
  requestAnimationFrame(() => {
    const keys = waiting;
    waiting = null;
    for (const [wanted, draw] of listeners) if (wanted.some((key) => keys.has(key) || keys.has("trace") || keys.has("look"))) draw();
  });
}

export const steps = () => state.trace.target.ids.length;
export function goTo(step) { set({ step: Math.max(0, Math.min(steps() - 1, step)), forced: null }); }
