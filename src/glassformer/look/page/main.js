// Everything together: who listens to whom, the keyboard, language and theme.
import { applyTexts, byId, firstTheme, setTheme, switchLanguage, t, theme } from "./dom.js";
import { aligningPlace } from "./data.js";
import { startBeam } from "./beam.js";
import { startCandidates } from "./candidates.js";
import { startHeads } from "./heads.js";
import { startHood } from "./hood.js";
import { startLinks } from "./links.js";
import { canGoBack, goBack } from "./server.js";
import { goTo, on, set, state, steps } from "./state.js";

function drawAbout() {
  const { model, request, target } = state.trace;
  const languages = model.source_language ? `${model.source_language} → ${model.target_language} · ` : "";
  const { encoder_layers: encoder, decoder_layers: decoder, heads, width } = model.config;
  byId("about").textContent = `${model.name ? `${model.name} · ` : ""}${languages}${t("about", { encoder, decoder, heads, width, parameters: model.parameters.toLocaleString("en") })}`;
  document.title = `${request.text} → ${target.text}`;
  byId("theme").textContent = theme() === "dark" ? t("light") : t("dark");
  byId("back").hidden = !canGoBack();
}

function keys(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || byId("enlarged").open) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const to = { ArrowLeft: state.step - 1, ArrowRight: state.step + 1, Home: 0, End: steps() - 1 }[event.key];
  if (to !== undefined) { event.preventDefault(); goTo(to); return; }
  if (/^[1-6]$/.test(event.key)) {
    const section = document.querySelectorAll("main > section")[Number(event.key) - 1];
    section.scrollIntoView();
    section.querySelector("button:not(:disabled), select, canvas, input, [tabindex]")?.focus({ preventScroll: true });
  }
}

setTheme(firstTheme());
startLinks();
startHeads();
startCandidates();
startBeam();
startHood();
on(["trace"], drawAbout);
on(["look"], applyTexts);
byId("language").addEventListener("click", () => { switchLanguage(); applyTexts(); set({ look: state.look + 1 }); });
byId("theme").addEventListener("click", () => { setTheme(theme() === "dark" ? "light" : "dark"); set({ look: state.look + 1 }); });
byId("back").addEventListener("click", goBack);
document.addEventListener("keydown", keys);
applyTexts();
const first = JSON.parse(byId("trace").textContent);
set({ trace: first, place: aligningPlace(first), step: Math.min(first.request.prefix.length, first.target.ids.length - 1) });
